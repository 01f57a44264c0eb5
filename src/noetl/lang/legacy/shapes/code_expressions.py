"""Expressions of python code, read without running it: what they stand for, and what they read of given values."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from noetl.lang.legacy.shapes.code_values import (
    ANY,
    NOTHING,
    UNKNOWN,
    CodeValue,
    ReadPath,
    ReadTree,
    TooComplex,
    join_values,
)

#: roots that are no input: the map of all inputs, and `ctx`
INPUTS, CTX = "<inputs>", "<ctx>"
#: what each name stands for
CodeNames = dict[str, CodeValue]
#: calls that give a list of the same elements
_SAME_ELEMENTS = frozenset({"list", "sorted", "tuple", "reversed", "iter", "set", "filter"})
#: calls that say nothing of a value's inside
_HARMLESS = frozenset({"print", "bool", "type", "id", "isinstance", "hasattr", "callable"})
#: functions of modules that give back what they are given, in another form
_SAME_VALUE = frozenset({"loads", "deepcopy", "copy"})
_MEASURES = frozenset({"len", "sum", "any", "all"})
_MOST_CALLS = 200
_DEEPEST = 12
#: steps of the reading: bodies of loops are read twice, so that loops within loops would take for ever
_MOST_WORK = 200_000


class ExpressionReader:
    """Values of expressions, and notes of what they read."""

    def __init__(self) -> None:
        self.reads = ReadTree()
        self.returns: list[list[CodeValue]] = [[]]
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
        self.calls = 0
        self.depth = 0
        self.work = 0

    def charge(self, work: int) -> None:
        """Count what is read. TooComplex: it is more than any real code needs."""
        self.work += work
        if self.work > _MOST_WORK:
            raise TooComplex

    @abstractmethod
    def block(self, body: Iterable[ast.stmt], env: CodeNames) -> None:
        """Run statements."""

    # --- notes -------------------------------------------------------------------------------------------------

    def part(self, value: CodeValue, key: str, *, is_list: bool = False, required: bool = False) -> CodeValue:
        """The value under a key, or any element; the read is noted."""
        self.charge(value.size)
        parts = []
        for path in value.origins:
            tree = self.reads.at(path)
            tree.is_list |= is_list
            below = self.normalise((*path, key))
            self.reads.at(below).is_required |= required
            parts.append(CodeValue(frozenset({below})))
        if key == ANY:
            parts += [value.element] if value.element is not None else []
            parts += value.keys.values()
        elif key in value.keys:
            parts.append(value.keys[key])
        unknown = value.is_open or (not value.origins and key != ANY and key not in value.keys)
        return join_values([*parts, *([UNKNOWN] if unknown else [])])

    @staticmethod
    def normalise(path: ReadPath) -> ReadPath:
        """The map of all inputs is the inputs."""
        return path[1:] if path[0] == INPUTS and len(path) > 1 and path[1] != ANY else path[:_DEEPEST]

    def escape(self, value: CodeValue) -> None:
        """Note that a value goes where its reading is not known."""
        self.charge(1)
        for path in value.origins:
            self.reads.at(path).is_whole = True
        for inner in (*value.keys.values(), *([value.element] if value.element is not None else [])):
            self.escape(inner)

    def measure(self, value: CodeValue) -> None:
        for path in value.origins:
            self.reads.at(path).is_list = True

    # --- names ---------------------------------------------------------------------------------------------------

    def bind(self, target: ast.expr, value: CodeValue, env: CodeNames, source: ast.expr | None = None) -> None:
        match target:
            case ast.Name():
                env[target.id] = value
            case ast.Tuple() | ast.List():
                inner = source.elts if isinstance(source, ast.Tuple | ast.List) else None
                for at, one in enumerate(target.elts):
                    if inner is not None and len(inner) == len(target.elts):
                        self.bind(one, self.value(inner[at], env), env, inner[at])
                    else:
                        self.bind(one, self.part(value, ANY, is_list=True), env)
            case ast.Starred():
                self.bind(target.value, CodeValue(element=value), env)
            case ast.Subscript():
                self.put(target, value, env)
            case _:
                return

    def put(self, target: ast.Subscript, value: CodeValue, env: CodeNames) -> None:
        """`out['key'] = value`: the code's own map has that key from now on."""
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if isinstance(target.value, ast.Name) and target.value.id in env and isinstance(key, str):
            holder = env[target.value.id]
            env[target.value.id] = CodeValue(
                holder.origins, {**holder.keys, key: value}, holder.element, holder.is_open
            )
            return
        self.value(target.value, env)
        self.value(target.slice, env)
        self.escape(value)

    # --- expressions -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, env: CodeNames) -> CodeValue:
        self.charge(1)
        handler = _EXPRESSIONS.get(type(node))
        if handler is not None:
            return handler(self, node, env)
        for child in ast.iter_child_nodes(node):
            self.value(child, env) if isinstance(child, ast.expr) else None
        return UNKNOWN

    def name(self, node: ast.Name, env: CodeNames) -> CodeValue:
        return env.get(node.id, UNKNOWN)

    def constant(self, node: ast.Constant, _env: CodeNames) -> CodeValue:
        return NOTHING if node.value is None else UNKNOWN

    def either(self, node: ast.BoolOp, env: CodeNames) -> CodeValue:
        return join_values([self.value(one, env) for one in node.values])

    def choice(self, node: ast.IfExp, env: CodeNames) -> CodeValue:
        self.value(node.test, env)
        return join_values([self.value(node.body, env), self.value(node.orelse, env)])

    def named(self, node: ast.NamedExpr, env: CodeNames) -> CodeValue:
        env[node.target.id] = value = self.value(node.value, env)
        return value

    def made_list(self, node: ast.List | ast.Tuple | ast.Set, env: CodeNames) -> CodeValue:
        parts = [self.value(one.value if isinstance(one, ast.Starred) else one, env) for one in node.elts]
        return CodeValue(element=join_values(parts))

    def inside(self, node: ast.Await | ast.Starred, env: CodeNames) -> CodeValue:
        return self.value(node.value, env)

    def operation(self, node: ast.BinOp, env: CodeNames) -> CodeValue:
        if isinstance(node.op, ast.Add | ast.BitOr):
            return join_values([self.value(node.left, env), self.value(node.right, env)])
        return self.escape_children(node, env)

    def opaque(self, _node: ast.expr, _env: CodeNames) -> CodeValue:
        return UNKNOWN

    def escape_children(self, node: ast.expr, env: CodeNames) -> CodeValue:
        """Text or a number is made of these values."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.escape(self.value(child, env))
        return UNKNOWN

    def attribute(self, node: ast.Attribute, env: CodeNames) -> CodeValue:
        holder = self.value(node.value, env)
        if (CTX,) in holder.origins and node.attr == "ctx":
            return holder
        return UNKNOWN

    def subscript(self, node: ast.Subscript, env: CodeNames) -> CodeValue:
        holder = self.value(node.value, env)
        match node.slice:
            case ast.Constant(value=str() as key):
                return self.part(holder, key, required=True)
            case ast.Slice():
                self.measure(holder)
                return holder
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
                return self.part(holder, ANY, is_list=True)
            case _:
                self.value(node.slice, env)
                return self.part(holder, ANY)

    def made_map(self, node: ast.Dict, env: CodeNames) -> CodeValue:
        keys: dict[str, CodeValue] = {}
        others: list[CodeValue] = []
        for key, item in zip(node.keys, node.values, strict=True):
            value = self.value(item, env)
            if key is None:
                others.append(value)
            elif isinstance(key, ast.Constant):
                keys[str(key.value)] = value
            else:
                self.value(key, env)
                others.append(CodeValue(is_open=True))
                self.escape(value)
        made = CodeValue(keys=keys)
        return join_values([made, *others]) if others else made

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: CodeNames
    ) -> CodeValue:
        inner = dict(env)
        for generator in node.generators:
            self.bind(generator.target, self.part(self.value(generator.iter, inner), ANY, is_list=True), inner)
            for test in generator.ifs:
                self.value(test, inner)
        if isinstance(node, ast.DictComp):
            self.value(node.key, inner)
            self.escape(self.value(node.value, inner))
            return UNKNOWN
        return CodeValue(element=self.value(node.elt, inner))

    def compare(self, node: ast.Compare, env: CodeNames) -> CodeValue:
        left, *rights = [self.value(one, env) for one in (node.left, *node.comparators)]
        key = node.left.value if isinstance(node.left, ast.Constant) else None
        for operator, right in zip(node.ops, rights, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self.part(right, key) if isinstance(key, str) else self.measure(right)
            elif not isinstance(operator, ast.Is | ast.IsNot):
                self.escape(left)
                self.escape(right)
        return UNKNOWN

    # --- calls -------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, env: CodeNames) -> CodeValue:
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, env)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        own = self.functions.get(name)
        if own is not None and name not in env:
            return self.call_own(own, node, env)
        arguments = [self.value(one, env) for one in node.args]
        keywords = {
            one.arg: self.value(one.value, env) for one in node.keywords if not isinstance(one.value, ast.Lambda)
        }
        self.lambdas(node, arguments, env)
        if name in _SAME_ELEMENTS:
            source = arguments[-1] if arguments else NOTHING
            return CodeValue(element=self.part(source, ANY, is_list=True))
        if name in ("enumerate", "zip"):
            return CodeValue(
                element=CodeValue(element=join_values(self.part(one, ANY, is_list=True) for one in arguments))
            )
        if name in ("next", "max", "min"):
            return self.part(join_values(arguments), ANY, is_list=True)
        if name == "dict":
            return join_values([*arguments, CodeValue(keys={key: one for key, one in keywords.items() if key})])
        if name in _MEASURES:
            for one in arguments:
                self.measure(one)
            return UNKNOWN
        for one in (*arguments, *keywords.values()) if name not in _HARMLESS else ():
            self.escape(one)
        return UNKNOWN

    def lambdas(self, node: ast.Call, arguments: list[CodeValue], env: CodeNames) -> None:
        """A lambda beside a list, as in `sorted(rows, key=lambda row: row['n'])`, reads its elements."""
        given = [*node.args, *[one.value for one in node.keywords]]
        functions = [self.functions[one.id] for one in given if _is_own(one, self.functions, env)]
        bodies = [one for one in given if isinstance(one, ast.Lambda)]
        if not functions and not bodies:
            return
        elements = join_values(self.part(one, ANY, is_list=True) for one in arguments if one.origins)
        for body in bodies:
            names = [argument.arg for argument in body.args.args]
            self.value(body.body, {**env, **dict.fromkeys(names, elements)})
        for function in functions:
            self.apply_function(function, [elements], {}, env)

    def method(self, node: ast.Call, func: ast.Attribute, env: CodeNames) -> CodeValue:
        holder = self.value(func.value, env)
        arguments = [self.value(one, env) for one in node.args]
        first = node.args[0] if node.args else None
        key = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        if func.attr in ("get", "pop", "setdefault"):
            read = self.part(holder, key if key is not None else ANY)
            return join_values([read, *arguments[1:], *[self.value(one.value, env) for one in node.keywords]])
        if func.attr in ("items", "values", "keys"):
            return self.listing(holder, func.attr)
        if func.attr == "copy" and not arguments:
            return holder
        if func.attr in _SAME_VALUE and arguments:
            return arguments[0]
        if func.attr in ("append", "extend", "update", "add", "insert") and isinstance(func.value, ast.Name):
            return self.mutation(func, arguments, env)
        for one in (*arguments, *[self.value(one.value, env) for one in node.keywords]):
            self.escape(one)
        return UNKNOWN

    def listing(self, holder: CodeValue, how: str) -> CodeValue:
        for path in holder.origins:
            self.reads.at(path).is_listed_map = True
        inside = self.part(holder, ANY) if how != "keys" else UNKNOWN
        return CodeValue(element=CodeValue(element=inside) if how == "items" else inside)

    def mutation(self, func: ast.Attribute, arguments: list[CodeValue], env: CodeNames) -> CodeValue:
        """`out.append(row)`, `out.update(more)`: what the code's own value holds from now on."""
        assert isinstance(func.value, ast.Name)
        holder = env.get(func.value.id, UNKNOWN)
        given = arguments[-1] if arguments else NOTHING
        if func.attr in ("append", "add", "insert"):
            given = CodeValue(element=given)
        elif func.attr == "update" and not arguments:
            given = UNKNOWN
        env[func.value.id] = join_values([holder, given])
        return NOTHING

    def call_own(
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, node: ast.Call, env: CodeNames
    ) -> CodeValue:
        arguments = [self.value(one, env) for one in node.args]
        keywords = {one.arg: self.value(one.value, env) for one in node.keywords if one.arg is not None}
        return self.apply_function(function, arguments, keywords, env)

    def apply_function(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        arguments: list[CodeValue],
        keywords: Mapping[str, CodeValue],
        env: CodeNames,
    ) -> CodeValue:
        """What a function of the code itself gives back for these arguments."""
        self.calls += 1
        if self.calls > _MOST_CALLS or self.depth > _DEEPEST or isinstance(function, ast.Lambda):
            for one in (*arguments, *keywords.values()):
                self.escape(one)
            return UNKNOWN
        parameters = [*function.args.posonlyargs, *function.args.args]
        local = dict(env) | {one.arg: UNKNOWN for one in (*parameters, *function.args.kwonlyargs)}
        for parameter, argument in zip(parameters, arguments, strict=False):
            local[parameter.arg] = argument
        for extra in arguments[len(parameters) :]:
            self.escape(extra)
        local |= keywords
        return self.apply(function.body, local)

    def apply(self, body: list[ast.stmt], local: CodeNames) -> CodeValue:
        self.returns.append([])
        self.depth += 1
        try:
            self.block(body, local)
        finally:
            self.depth -= 1
            returned = self.returns.pop()
        return join_values(returned)


def _is_own(node: ast.expr, functions: Mapping[str, object], env: CodeNames) -> TypeGuard[ast.Name]:
    """Whether an expression is the name of a function that the code itself defines."""
    return isinstance(node, ast.Name) and node.id in functions and node.id not in env


_EXPRESSIONS: dict[type[ast.AST], Callable[[ExpressionReader, Any, CodeNames], CodeValue]] = {
    ast.Name: ExpressionReader.name,
    ast.Constant: ExpressionReader.constant,
    ast.Subscript: ExpressionReader.subscript,
    ast.Call: ExpressionReader.call,
    ast.BoolOp: ExpressionReader.either,
    ast.IfExp: ExpressionReader.choice,
    ast.NamedExpr: ExpressionReader.named,
    ast.Dict: ExpressionReader.made_map,
    ast.List: ExpressionReader.made_list,
    ast.Tuple: ExpressionReader.made_list,
    ast.Set: ExpressionReader.made_list,
    ast.ListComp: ExpressionReader.comprehension,
    ast.SetComp: ExpressionReader.comprehension,
    ast.GeneratorExp: ExpressionReader.comprehension,
    ast.DictComp: ExpressionReader.comprehension,
    ast.BinOp: ExpressionReader.operation,
    ast.Compare: ExpressionReader.compare,
    ast.Await: ExpressionReader.inside,
    ast.Starred: ExpressionReader.inside,
    ast.Attribute: ExpressionReader.attribute,
    ast.JoinedStr: ExpressionReader.escape_children,
    ast.FormattedValue: ExpressionReader.escape_children,
    ast.Lambda: ExpressionReader.opaque,
}
