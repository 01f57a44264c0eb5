"""What a piece of Python hands back: `main`, `result`, a `return` at its top level, or nothing at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import ast

_FUNCTIONS = ("FunctionDef", "AsyncFunctionDef")
_OWN_NAMES = (*_FUNCTIONS, "ClassDef", "Lambda")
_ASSIGNMENTS = ("Assign", "AugAssign", "AnnAssign")


class Silence(NamedTuple):
    """Code that hands back nothing: where that shows, and the only function of it, which nobody calls."""

    line: int
    column: int
    function: str | None
    #: whether it does something all the same, such as printing
    acts: bool


def silence(tree: ast.Module) -> Silence | None:
    """Why code hands back nothing; None: it hands back something, or says openly that it does nothing."""
    body = tree.body
    # The usual answers first: looking everywhere takes time.
    if not body or any(_answers(one) for one in reversed(body)):
        return None
    nodes = list(_walk(body, _OWN_NAMES))
    if any(_answers(one) for one in nodes) or any("result" in getattr(one, "names", ()) for one in _walk(body)):
        return None  # the second: a function says `global result`
    if all(type(one).__name__ in ("Pass", "Import", "ImportFrom") or _is_text(one) for one in body):
        return None
    functions = [one for one in body if type(one).__name__ in _FUNCTIONS]
    acts = any(_acts(one) for one in nodes)
    lonely: Any = functions[0] if len(functions) == 1 and not acts else None
    if lonely is None:
        return Silence(body[-1].lineno, body[-1].col_offset, None, acts)
    word = "async def " if type(lonely).__name__ == "AsyncFunctionDef" else "def "
    return Silence(lonely.lineno, lonely.col_offset + len(word), lonely.name, acts)


def _walk(nodes: Iterable[Any], closed: tuple[str, ...] = ()) -> Iterator[Any]:
    """These nodes and all inside of them, but not what is inside of those sorts; code may be nested deeply."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if type(node).__name__ not in closed:
            waiting.extend(_children(node))


def _children(node: Any) -> Iterator[Any]:
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            yield from (one for one in value if hasattr(one, "_fields"))
        elif hasattr(value, "_fields"):
            yield value


def _answers(node: Any) -> bool:
    """Whether this is where a value is handed back."""
    sort = type(node).__name__
    if sort in _FUNCTIONS:
        return bool(node.name in ("main", "result"))
    if sort == "Assign":
        return any(getattr(target, "id", None) == "result" for target in node.targets)
    if sort == "Name":
        return bool(node.id == "result" and type(node.ctx).__name__ == "Store")
    if sort == "alias":
        return (node.asname or node.name) in ("result", "*")
    if sort == "Call":  # whoever writes names by other means knows what they do
        return getattr(node.func, "id", None) in ("exec", "globals", "locals", "vars", "setattr")
    return sort == "Return"


def _acts(node: Any) -> bool:
    """Whether this does something that can be seen elsewhere, or ends the task."""
    sort = type(node).__name__
    if sort == "Expr":
        return type(node.value).__name__ in ("Call", "Await", "Yield")
    if sort in _ASSIGNMENTS:
        targets = node.targets if sort == "Assign" else [node.target]
        return any(type(target).__name__ in ("Attribute", "Subscript") for target in targets)
    return sort in ("Raise", "Assert", "Delete")


def _is_text(node: Any) -> bool:
    return type(node).__name__ == "Expr" and isinstance(getattr(node.value, "value", None), str)
