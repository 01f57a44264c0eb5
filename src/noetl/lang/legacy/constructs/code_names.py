"""Names that older code had without being given them: what an arc brought, what the context held, and some modules.

Older engines filled the parameters of `main` out of everything they knew, and code found what an arc carried among its
arguments. Today code has its `input`. So each such name becomes an input, written as a bare name or as `args.name`,
which the passes behind this one resolve like any other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial

from noetl.lang.legacy.lowered_document import Lowering, ensure_map, strings, task_items
from noetl.lang.legacy.name_meanings import elements_of, targets
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, as_expression, names_in, rewrite, write_literal
from noetl.lang.legacy.shapes.code_reads import CodeShape, read_code
from noetl.lang.legacy.shapes.code_values import ANY
from noetl.lang.reading.node import MapNode, Node, Scalar, entry, list_of, make, map_of, text_of

_CODE = frozenset({"code"})
#: parameters that the engine fills by itself
_PROVIDED = frozenset({"context", "results", "input_data", "auth"})
#: of the scopes, those that older code asked for by their name
_SCOPES = frozenset({"workload", "execution_id"})
#: modules that older code had without importing them
_MODULES = ("os", "json", "datetime", "uuid")
#: words that mean the output where a step or task has ended
_OF_THE_OUTPUT = frozenset({"output", "outcome", "this", "result", "response", "error", "event"})
_WHEN_ENDED = frozenset({"next", "set", "output"})


def lower(doc: Lowering) -> None:
    """Give every task what its code takes from elsewhere."""
    if not (doc.accepted or doc.migrating):
        return
    giver = _Giver(doc)
    for step in doc.steps():
        giver.read_brought_names(step)
        for _name, task in list(task_items(step)):
            if text_of(task, "kind") == "python":
                import_modules(doc, step, task)
            giver.give(step, task)


class _Giver:
    def __init__(self, doc: Lowering) -> None:
        self.doc = doc
        self.first = doc.first_step()
        self.known = doc.step_names() | doc.workload_keys() | doc.results
        self.written = {target.removeprefix("ctx.") for step in doc.steps() for target in targets(step)} | doc.results
        #: by step, the keys that arcs bring, and whether every token brings them
        self.brought: dict[str, dict[str, bool]] = {}
        arcs: dict[str, list[MapNode]] = {}
        for step in doc.steps():
            for arc in list_of(map_of(step, "next"), "arcs") or ():
                if isinstance(arc, MapNode):
                    arcs.setdefault(text_of(arc, "step"), []).append(arc)
        for name, coming in arcs.items():
            keys = [{one.name for one in block.entries} if (block := map_of(arc, "args")) else set() for arc in coming]
            always = set.intersection(*keys) if not self.is_first(name) else set()
            self.brought[name] = {key: key in always for found in keys for key in found}

    def is_first(self, name: str) -> bool:
        return self.first is not None and text_of(self.first, "step") == name

    # --- templates -----------------------------------------------------------------------------------------------

    def read_brought_names(self, step: MapNode) -> None:
        """`{{ city }}` in a step to which an arc brings `city`."""
        brought = self.brought.get(text_of(step, "step"), {})
        own = set(elements_of(step)) | {name for name, _ in task_items(step)}
        names = {key for key, always in brought.items() if key not in own and (always or key not in self.known)}
        for one in step.entries if names else []:
            here = names - _OF_THE_OUTPUT if one.name in _WHEN_ENDED else names
            for node in strings(one.value, skip=_CODE):
                node.rewrite(rewrite(node.text, partial(self._as_argument, names=here, node=node)))

    def _as_argument(self, chain: NameChain, names: set[str], node: Scalar) -> ChainRename | None:
        root = chain.parts[0]
        if root not in names or (chain.called and len(chain.parts) == 1):
            return None
        self.doc.report_older("bare-name", f"the bare name `{root}`, which an arc brings,", f"`args.{root}`", node)
        return ChainRename(1, f"args.{root}")

    # --- inputs --------------------------------------------------------------------------------------------------

    def give(self, step: MapNode, task: MapNode) -> None:
        """Add to a task's input what its code, or that of the workbook task which it calls, wants besides."""
        coded = task if text_of(task, "kind") == "python" else self.called(task)
        code = text_of(coded, "code") if coded is not None else ""
        blocks = [step.get("input"), task.get("input")]
        if not code or any(not isinstance(block, MapNode | None) and not _is_null(block) for block in blocks):
            return
        self.replace_overridden(step, [block for block in blocks if isinstance(block, MapNode)])
        given = {one.name for block in blocks if isinstance(block, MapNode) for one in block.entries}
        for name, value in self.wanted(step, code, frozenset(given)):
            self.doc.report_older("habit", f"`{name}` of the code, which nothing gives it,", "an input", task)
            ensure_map(task, "input", task).put(entry(name, make(value, near=task), near=task))
        if coded is task:
            self.give_context(step, task, code)

    def called(self, task: MapNode) -> MapNode | None:
        """The task of the workbook that a task calls."""
        if text_of(task, "kind") != "workbook":
            return None
        found = map_of(map_of(self.doc.root, "workbook"), text_of(task, "task") or text_of(task, "name"))
        return found if found is not None and text_of(found, "kind") == "python" else None

    def wanted(self, step: MapNode, code: str, given: frozenset[str]) -> Iterator[tuple[str, str]]:
        """What code takes from elsewhere, with the templates that give it."""
        brought = self.brought.get(text_of(step, "step"), {})
        parameters = read_parameters(code)
        for name, default in parameters.items():
            if name in given or name in _PROVIDED:
                continue
            if name in brought:
                yield name, _template(f"args.{name}", default if brought[name] is False else "")
            elif name in elements_of(step) or name in _SCOPES or name in self.known - {text_of(step, "step")}:
                yield name, _template(name, default)
        for name in brought.keys() - given - parameters.keys():
            if re.search(rf"\b{re.escape(name)}\b|\*\*\w", code) is not None:
                yield name, _template(f"args.{name}", "" if brought[name] else "none")

    def replace_overridden(self, step: MapNode, blocks: list[MapNode]) -> None:
        """What an arc brings goes before an input of the same name, which is the default then."""
        brought = self.brought.get(text_of(step, "step"), {})
        for block in blocks:
            for one in block.entries:
                always = brought.get(one.name)
                if always is None or not isinstance(one.value, Scalar) or "args" in names_in(one.value.text):
                    continue
                if _is_null(one.value):
                    one.value = make(_template(f"args.{one.name}", "" if always else "none"), near=one.value)
                    block.changed = True
                elif self.doc.found_legacy and (own := as_expression(one.value)) is not None:
                    one.value = make(_template(f"args.{one.name}", own), near=one.value)
                    block.changed = True

    def give_context(self, step: MapNode, task: MapNode, code: str) -> None:
        """`context.get('workload')`: the context of older engines held more than `ctx` does."""
        keys = set(read_shape(code, step, task).context)
        more = {key for key in keys - self.written - self.doc.step_names() if key in _SCOPES or key in self.known}
        if not more or "context" in (map_of(task, "input") or ()):
            return
        if ANY in keys or re.search(r"\bcontext\.(?!get\b)\w", code) is not None:
            names = ", ".join(f"`{key}`" for key in sorted(more))
            said = f"`context` is a map of `ctx`, without {names}: give the code what it needs as `input`"
            self.doc.todo(task.entry("code"), said, task)
            return
        self.doc.report_older("habit", "`context` of the code with more than `ctx`", "an input `context`", task)
        block = make({key: _template(key, "" if key in more else "none") for key in sorted(keys)}, near=task)
        ensure_map(task, "input", task).put(entry("context", block, near=task))


def read_shape(code: str, step: MapNode, task: MapNode) -> CodeShape:
    """How code reads what it is given."""
    blocks = (map_of(step, "input"), map_of(task, "input"))
    return read_code(code, frozenset(one.name for block in blocks if block is not None for one in block.entries))


def _is_null(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is None


def _template(expression: str, default: str) -> str:
    return f"{{{{ {expression} | default({default}) }}}}" if default else f"{{{{ {expression} }}}}"


# --- what code says --------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return None


def read_parameters(code: str) -> Mapping[str, str]:
    """The parameters of `main`, each with its default as an expression of a template; no text if it has none.

    One whose default no template can write is left out: it has its default then.
    """
    tree = _parse(code)
    main = next((node for node in tree.body if _is_main(node)), None) if tree is not None else None
    if not isinstance(main, ast.FunctionDef | ast.AsyncFunctionDef):
        return {}
    arguments = main.args
    positional = [*arguments.posonlyargs, *arguments.args]
    without: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    found: dict[str, str] = {}
    for one, default in zip(
        [*positional, *arguments.kwonlyargs], [*without, *arguments.defaults, *arguments.kw_defaults], strict=True
    ):
        written = _write_default(default) if default is not None else ""
        if written is not None:
            found[one.arg] = written
    return found


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "main"


def _write_default(node: ast.expr) -> str | None:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    if value in ([], {}):
        return "[]" if value == [] else "{}"
    return write_literal(value) if value is None or isinstance(value, str | int | float) else None


def import_modules(doc: Lowering, step: MapNode, task: MapNode) -> None:
    """Code that uses `json` and its like without importing them imports them now."""
    code, tree = task.get("code"), _parse(text_of(task, "code"))
    if tree is None or not isinstance(code, Scalar):
        return
    given = {one.name for block in (map_of(step, "input"), map_of(task, "input")) if block for one in block.entries}
    missing = [name for name in _MODULES if name in _free_names(tree) - given]
    if missing:
        doc.report_older("habit", f"`{missing[0]}` in code that does not import it", f"`import {missing[0]}`", code)
        code.rewrite("".join(f"import {name}\n" for name in missing) + code.text)


def _free_names(tree: ast.Module) -> set[str]:
    """Names that code reads and nothing in it binds."""
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            bound.add(node.name)
    return read - bound
