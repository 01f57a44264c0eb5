"""The author's code of a python task, compiled. Part of every python task's process, so it imports next to nothing."""

from __future__ import annotations

from types import CodeType

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

#: the name of the function that a script with a `return` becomes
SCRIPT = "__script__"


def compile_code(text: str, name: str) -> CodeType:
    """A script or a module's text; a script may return at its top level."""
    try:
        return compile(text, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        if "'return' outside function" not in str(error):
            raise
        return _as_function(text, name)


def _as_function(text: str, name: str) -> CodeType:
    """A script with a `return` at its top level: its statements become a function whose names are all global."""
    import ast

    class Unannotated(ast.NodeTransformer):
        """`x: int = 1` to `x = 1`, outside of functions and classes: a global name may not be annotated."""

        def visit(self, node: ast.AST) -> Any:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                return node
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                return ast.copy_location(ast.Assign([node.target], node.value) if node.value else ast.Pass(), node)
            return self.generic_visit(node)

    tree = Unannotated().visit(ast.parse(text, name))
    futures = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    script = ast.parse(f"def {SCRIPT}(): pass").body[0]
    assert isinstance(script, ast.FunctionDef)
    script.body = [one for one in tree.body if one not in futures]
    tree.body = [*futures, script]
    ast.fix_missing_locations(tree)
    inner = next(functions(compile(tree, name, "exec", dont_inherit=True)))
    if names := sorted({*inner.co_varnames, *inner.co_cellvars}):
        script.body.insert(0, ast.Global(names))
        ast.fix_missing_locations(tree)
    return compile(tree, name, "exec", dont_inherit=True)


def functions(code: CodeType) -> Iterator[CodeType]:
    """The functions that stand right in a piece of code."""
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


def inner_names(code: CodeType) -> Iterator[str]:
    """The names that its functions use."""
    for inner in functions(code):
        yield from inner.co_names
        yield from inner_names(inner)
