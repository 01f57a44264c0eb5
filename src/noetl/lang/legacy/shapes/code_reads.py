"""How python code reads what it is given, and what it gives back, found in its syntax tree; nothing is executed.

An abstract interpreter: statements run in order over an environment of `CodeValue`s, both branches of a condition are
taken, bodies of loops are run twice. Every subscript, `.get`, iteration and use of a given value is noted in a `ReadTree`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from noetl.lang.legacy.shapes.code_expressions import CTX, INPUTS, CodeNames, ExpressionReader
from noetl.lang.legacy.shapes.code_values import ANY, NOTHING, UNKNOWN, CodeValue, ReadTree, TooComplex, join_values

_CONTEXT_NAMES = ("context", "results")


@dataclass
class CodeShape:
    """What the syntax of a task's code shows."""

    #: by input, how it is read
    inputs: dict[str, ReadTree] = field(default_factory=dict)
    #: by key of `ctx`, how `context[...]` reads it
    context: dict[str, ReadTree] = field(default_factory=dict)
    #: what the code gives back
    returned: CodeValue = UNKNOWN
    #: the code could be read at all
    is_known: bool = False


@lru_cache(maxsize=512)
def read_code(code: str, names: frozenset[str]) -> CodeShape:
    """Find how code reads its inputs, which have these names, and what it returns."""
    try:
        tree = ast.parse(code)
        return _CodeReader(tree, names).run()
    except (SyntaxError, ValueError, RecursionError, TooComplex):
        return CodeShape()


class _CodeReader(ExpressionReader):
    def __init__(self, tree: ast.Module, names: frozenset[str]) -> None:
        super().__init__()
        self.tree, self.names = tree, names

    def run(self) -> CodeShape:
        env = {name: CodeValue(frozenset({(name,)})) for name in self.names}
        if "input_data" not in env:
            env["input_data"] = CodeValue(frozenset({(INPUTS,)}))
        for name in _CONTEXT_NAMES:
            env.setdefault(name, CodeValue(frozenset({(CTX,)})))
        self.block(self.tree.body, env)
        main = self.functions.get("main")
        if isinstance(main, ast.FunctionDef | ast.AsyncFunctionDef):
            returned = self.call_main(main, env)
        else:
            returned = join_values([*self.returns[0], *([env["result"]] if "result" in env else [])])
        self.escape(returned)
        inputs = {name: self.reads.child(name) for name in self.names}
        for key, child in self.reads.child(INPUTS).children.items():
            inputs.setdefault(key, ReadTree()).merge(child)
        whole = self.reads.child(INPUTS)
        for tree in inputs.values() if whole.is_whole or whole.is_listed_map else ():
            tree.is_whole = True
        return CodeShape(inputs, self.reads.child(CTX).children, returned, is_known=True)

    def call_main(self, main: ast.FunctionDef | ast.AsyncFunctionDef, env: CodeNames) -> CodeValue:
        arguments: dict[str, CodeValue] = {}
        for one in (*main.args.posonlyargs, *main.args.args, *main.args.kwonlyargs):
            given = env.get(one.arg) if one.arg in ("input_data", "context", "results") else None
            arguments[one.arg] = given or CodeValue(frozenset({(one.arg,)}))
        if main.args.kwarg is not None:
            arguments[main.args.kwarg.arg] = CodeValue(frozenset({(INPUTS,)}))
        return self.apply(main.body, {**env, **arguments})

    # --- statements --------------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], env: CodeNames) -> None:
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: CodeNames) -> None:
        self.charge(1)
        handler = _STATEMENTS.get(type(node))
        if handler is not None:
            handler(self, node, env)
            return
        for child in ast.iter_child_nodes(node):
            self.value(child, env) if isinstance(child, ast.expr) else None

    def define(self, node: ast.FunctionDef | ast.AsyncFunctionDef, env: CodeNames) -> None:
        self.functions[node.name] = node
        env.pop(node.name, None)

    def leave(self, node: ast.Return, env: CodeNames) -> None:
        self.returns[-1].append(self.value(node.value, env) if node.value is not None else NOTHING)

    def assign(self, node: ast.Assign | ast.AnnAssign, env: CodeNames) -> None:
        if node.value is not None:
            value = self.value(node.value, env)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.bind(target, value, env, node.value)

    def add_to(self, node: ast.AugAssign, env: CodeNames) -> None:
        value = self.value(node.value, env)
        if isinstance(node.target, ast.Name):
            env[node.target.id] = join_values([env.get(node.target.id, UNKNOWN), value])

    def condition(self, node: ast.If, env: CodeNames) -> None:
        self.value(node.test, env)
        self.branches(env, node.body, node.orelse)

    def each(self, node: ast.For | ast.AsyncFor, env: CodeNames) -> None:
        elements = self.part(self.value(node.iter, env), ANY, is_list=True)
        for _ in range(2):
            self.bind(node.target, elements, env)
            self.branches(env, node.body)
        self.block(node.orelse, env)

    def repeat(self, node: ast.While, env: CodeNames) -> None:
        for _ in range(2):
            self.value(node.test, env)
            self.branches(env, node.body)

    def attempt(self, node: ast.Try, env: CodeNames) -> None:
        self.branches(env, node.body)
        self.branches(env, *[handler.body for handler in node.handlers], node.orelse)
        self.block(node.finalbody, env)

    def enter(self, node: ast.With | ast.AsyncWith, env: CodeNames) -> None:
        for item in node.items:
            self.value(item.context_expr, env)
            self.bind(item.optional_vars, UNKNOWN, env) if item.optional_vars is not None else None
        self.block(node.body, env)

    def load(self, node: ast.Import | ast.ImportFrom, env: CodeNames) -> None:
        for alias in node.names:
            env[(alias.asname or alias.name).partition(".")[0]] = UNKNOWN

    def branches(self, env: CodeNames, *bodies: list[ast.stmt]) -> None:
        """Run each body over a copy of the environment; afterwards every name may be what it was in any of them."""
        self.charge(len(env) * len(bodies))
        copies = [dict(env) for _ in bodies]
        for body, copy in zip(bodies, copies, strict=True):
            self.block(body, copy)
        live = [copy for body, copy in zip(bodies, copies, strict=True) if not _leaves(body)] or copies
        if len(bodies) == 1:
            live.append(dict(env))  # a loop or a `try` may run none of it
        for name in dict.fromkeys(name for copy in live for name in copy):
            env[name] = join_values(copy[name] for copy in live if name in copy)

    def match(self, node: ast.Match, env: CodeNames) -> None:
        subject = self.value(node.subject, env)
        copies = [dict(env)]
        for case in node.cases:
            copy = dict(env)
            self.pattern(case.pattern, subject, copy)
            self.value(case.guard, copy) if case.guard is not None else None
            self.block(case.body, copy)
            copies.append(copy)
        for name in dict.fromkeys(name for copy in copies for name in copy):
            env[name] = join_values(copy[name] for copy in copies if name in copy)

    def pattern(self, node: ast.pattern, value: CodeValue, env: CodeNames) -> None:
        match node:
            case ast.MatchMapping():
                for key, inner in zip(node.keys, node.patterns, strict=True):
                    name = str(key.value) if isinstance(key, ast.Constant) else ANY
                    self.pattern(inner, self.part(value, name), env)
            case ast.MatchSequence():
                for inner in node.patterns:
                    self.pattern(inner, self.part(value, ANY, is_list=True), env)
            case ast.MatchAs():
                self.pattern(node.pattern, value, env) if node.pattern is not None else None
                if node.name is not None:
                    env[node.name] = value
            case ast.MatchOr():
                for inner in node.patterns:
                    self.pattern(inner, value, env)
            case _:
                return


_STATEMENTS: dict[type[ast.AST], Callable[[_CodeReader, Any, CodeNames], None]] = {
    ast.FunctionDef: _CodeReader.define,
    ast.AsyncFunctionDef: _CodeReader.define,
    ast.Return: _CodeReader.leave,
    ast.Assign: _CodeReader.assign,
    ast.AnnAssign: _CodeReader.assign,
    ast.AugAssign: _CodeReader.add_to,
    ast.If: _CodeReader.condition,
    ast.For: _CodeReader.each,
    ast.AsyncFor: _CodeReader.each,
    ast.While: _CodeReader.repeat,
    ast.Try: _CodeReader.attempt,
    ast.With: _CodeReader.enter,
    ast.AsyncWith: _CodeReader.enter,
    ast.Match: _CodeReader.match,
    ast.Import: _CodeReader.load,
    ast.ImportFrom: _CodeReader.load,
}


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a body never reaches its end."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)
