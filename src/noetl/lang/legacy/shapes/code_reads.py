"""How python code reads what it is given, and what it gives back, found in its syntax tree; nothing is executed.

An abstract interpreter: statements run in order over an environment of `CodeValue`s, both branches of a condition are
taken, bodies of loops are run twice. Every subscript, `.get`, iteration and use of a given value is noted in a `ReadTree`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from noetl.lang.legacy.shapes.code_values import ANY, NOTHING, UNKNOWN, CodeValue, ReadPath, ReadTree, join_values

#: roots that are no input: the map of all inputs, and `ctx`
INPUTS, CTX = "<inputs>", "<ctx>"
_CONTEXT_NAMES = ("context", "results")
#: calls that give a list of the same elements
_SAME_ELEMENTS = frozenset({"list", "sorted", "tuple", "reversed", "iter", "set", "filter"})
#: calls that say nothing of a value's inside
_HARMLESS = frozenset({"print", "bool", "type", "id", "isinstance", "hasattr", "callable"})
_MEASURES = frozenset({"len", "sum", "any", "all"})
_MOST_CALLS = 200
_DEEPEST = 12


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
    except (SyntaxError, ValueError, RecursionError):
        return CodeShape()


class _CodeReader:
    def __init__(self, tree: ast.Module, names: frozenset[str]) -> None:
        self.tree, self.names = tree, names
        self.reads = ReadTree()
        self.returns: list[list[CodeValue]] = [[]]
        self.functions: dict[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = {}
        self.calls = 0
        self.depth = 0

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

    def call_main(self, main: ast.FunctionDef | ast.AsyncFunctionDef, env: dict[str, CodeValue]) -> CodeValue:
        arguments: dict[str, CodeValue] = {}
        for one in (*main.args.posonlyargs, *main.args.args, *main.args.kwonlyargs):
            given = env.get(one.arg) if one.arg in ("input_data", "context", "results") else None
            arguments[one.arg] = given or CodeValue(frozenset({(one.arg,)}))
        if main.args.kwarg is not None:
            arguments[main.args.kwarg.arg] = CodeValue(frozenset({(INPUTS,)}))
        return self.apply(main.body, {**env, **arguments})

    # --- notes -------------------------------------------------------------------------------------------------

    def part(self, value: CodeValue, key: str, *, is_list: bool = False, required: bool = False) -> CodeValue:
        """The value under a key, or any element; the read is noted."""
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
        for path in value.origins:
            self.reads.at(path).is_whole = True
        for inner in (*value.keys.values(), *([value.element] if value.element is not None else [])):
            self.escape(inner)

    def measure(self, value: CodeValue) -> None:
        for path in value.origins:
            self.reads.at(path).is_list = True

    # --- statements --------------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], env: dict[str, CodeValue]) -> None:
        for statement in body:
            self.statement(statement, env)

    def statement(self, node: ast.stmt, env: dict[str, CodeValue]) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.functions[node.name] = node
                env.pop(node.name, None)
            case ast.Return():
                self.returns[-1].append(self.value(node.value, env) if node.value is not None else NOTHING)
            case ast.Assign():
                value = self.value(node.value, env)
                for target in node.targets:
                    self.bind(target, value, env, node.value)
            case ast.AnnAssign() if node.value is not None:
                self.bind(node.target, self.value(node.value, env), env, node.value)
            case ast.AugAssign():
                value = self.value(node.value, env)
                if isinstance(node.target, ast.Name):
                    env[node.target.id] = join_values([env.get(node.target.id, UNKNOWN), value])
            case ast.If():
                self.value(node.test, env)
                self.branches(env, node.body, node.orelse)
            case ast.For() | ast.AsyncFor():
                elements = self.part(self.value(node.iter, env), ANY, is_list=True)
                for _ in range(2):
                    self.bind(node.target, elements, env)
                    self.branches(env, node.body, [])
                self.block(node.orelse, env)
            case ast.While():
                for _ in range(2):
                    self.value(node.test, env)
                    self.branches(env, node.body, [])
            case ast.Try():
                self.branches(env, node.body, [])
                self.branches(env, *[handler.body for handler in node.handlers], node.orelse)
                self.block(node.finalbody, env)
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.value(item.context_expr, env)
                    self.bind(item.optional_vars, UNKNOWN, env) if item.optional_vars is not None else None
                self.block(node.body, env)
            case ast.Match():
                self.match(node, env)
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    env[(alias.asname or alias.name).partition(".")[0]] = UNKNOWN
            case _:
                for child in ast.iter_child_nodes(node):
                    if isinstance(child, ast.expr):
                        self.value(child, env)

    def branches(self, env: dict[str, CodeValue], *bodies: list[ast.stmt]) -> None:
        """Run each body over a copy of the environment; afterwards every name may be what it was in any of them."""
        copies = [dict(env) for _ in bodies]
        for body, copy in zip(bodies, copies, strict=True):
            self.block(body, copy)
        live = [copy for body, copy in zip(bodies, copies, strict=True) if not _leaves(body)] or copies
        if len(bodies) == 1:
            live.append(dict(env))  # a loop or a `try` may run none of it
        for name in dict.fromkeys(name for copy in live for name in copy):
            env[name] = join_values(copy[name] for copy in live if name in copy)

    def match(self, node: ast.Match, env: dict[str, CodeValue]) -> None:
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

    def pattern(self, node: ast.pattern, value: CodeValue, env: dict[str, CodeValue]) -> None:
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

    def bind(
        self, target: ast.expr, value: CodeValue, env: dict[str, CodeValue], source: ast.expr | None = None
    ) -> None:
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

    def put(self, target: ast.Subscript, value: CodeValue, env: dict[str, CodeValue]) -> None:
        """`out['key'] = value`: the code's own map has that key from now on."""
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if isinstance(target.value, ast.Name) and target.value.id in env and isinstance(key, str):
            holder = env[target.value.id]
            env[target.value.id] = CodeValue(holder.origins, {**holder.keys, key: value}, holder.element, holder.is_open)
            return
        self.value(target.value, env)
        self.value(target.slice, env)
        self.escape(value)

    # --- expressions -------------------------------------------------------------------------------------------

    def value(self, node: ast.expr, env: dict[str, CodeValue]) -> CodeValue:
        match node:
            case ast.Name():
                return env.get(node.id, UNKNOWN)
            case ast.Constant():
                return NOTHING if node.value is None else UNKNOWN
            case ast.Subscript():
                return self.subscript(node, env)
            case ast.Call():
                return self.call(node, env)
            case ast.BoolOp():
                return join_values([self.value(one, env) for one in node.values])
            case ast.IfExp():
                self.value(node.test, env)
                return join_values([self.value(node.body, env), self.value(node.orelse, env)])
            case ast.NamedExpr():
                value = self.value(node.value, env)
                env[node.target.id] = value
                return value
            case ast.Dict():
                return self.made_map(node, env)
            case ast.List() | ast.Tuple() | ast.Set():
                parts = [self.value(one.value if isinstance(one, ast.Starred) else one, env) for one in node.elts]
                return CodeValue(element=join_values(parts))
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return self.comprehension(node, env)
            case ast.BinOp() if isinstance(node.op, ast.Add | ast.BitOr):
                return join_values([self.value(node.left, env), self.value(node.right, env)])
            case ast.Compare():
                self.compare(node, env)
                return UNKNOWN
            case ast.Await() | ast.Starred():
                return self.value(node.value, env)
            case ast.Attribute():
                return self.attribute(node, env)
            case ast.JoinedStr() | ast.FormattedValue() | ast.BinOp():
                return self.escape_children(node, env)
            case ast.Lambda():
                return UNKNOWN
            case _:
                for child in ast.iter_child_nodes(node):
                    self.value(child, env) if isinstance(child, ast.expr) else None
                return UNKNOWN

    def escape_children(self, node: ast.expr, env: dict[str, CodeValue]) -> CodeValue:
        """Text or a number is made of these values."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.escape(self.value(child, env))
        return UNKNOWN

    def attribute(self, node: ast.Attribute, env: dict[str, CodeValue]) -> CodeValue:
        holder = self.value(node.value, env)
        if (CTX,) in holder.origins and node.attr == "ctx":
            return holder
        return UNKNOWN

    def subscript(self, node: ast.Subscript, env: dict[str, CodeValue]) -> CodeValue:
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

    def made_map(self, node: ast.Dict, env: dict[str, CodeValue]) -> CodeValue:
        made = CodeValue()
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
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: dict[str, CodeValue]
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

    def compare(self, node: ast.Compare, env: dict[str, CodeValue]) -> None:
        left, *rights = [self.value(one, env) for one in (node.left, *node.comparators)]
        key = node.left.value if isinstance(node.left, ast.Constant) else None
        for operator, right in zip(node.ops, rights, strict=True):
            if isinstance(operator, ast.In | ast.NotIn):
                self.part(right, key) if isinstance(key, str) else self.measure(right)
            elif not isinstance(operator, ast.Is | ast.IsNot):
                self.escape(left)
                self.escape(right)

    # --- calls -------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call, env: dict[str, CodeValue]) -> CodeValue:
        if isinstance(node.func, ast.Attribute):
            return self.method(node, node.func, env)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        own = self.functions.get(name)
        if own is not None and name not in env:
            return self.call_own(own, node, env)
        arguments = [self.value(one, env) for one in node.args]
        keywords = {one.arg: self.value(one.value, env) for one in node.keywords if not isinstance(one.value, ast.Lambda)}
        self.lambdas(node, arguments, env)
        if name in _SAME_ELEMENTS:
            source = arguments[-1] if arguments else NOTHING
            return CodeValue(element=self.part(source, ANY, is_list=True))
        if name in ("enumerate", "zip"):
            return CodeValue(element=CodeValue(element=join_values(self.part(one, ANY, is_list=True) for one in arguments)))
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

    def lambdas(self, node: ast.Call, arguments: list[CodeValue], env: dict[str, CodeValue]) -> None:
        """A lambda beside a list, as in `sorted(rows, key=lambda row: row['n'])`, reads its elements."""
        given = [*node.args, *[one.value for one in node.keywords]]
        elements = join_values(self.part(one, ANY, is_list=True) for one in arguments if one.origins)
        for one in given:
            if isinstance(one, ast.Lambda):
                names = [argument.arg for argument in one.args.args]
                self.value(one.body, {**env, **dict.fromkeys(names, elements)})
            elif isinstance(one, ast.Name) and one.id in self.functions and one.id not in env:
                self.apply_function(self.functions[one.id], [elements], {}, env)

    def method(self, node: ast.Call, func: ast.Attribute, env: dict[str, CodeValue]) -> CodeValue:
        holder = self.value(func.value, env)
        arguments = [self.value(one, env) for one in node.args]
        first = node.args[0] if node.args else None
        key = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        if func.attr in ("get", "pop", "setdefault"):
            read = self.part(holder, key if key is not None else ANY)
            return join_values([read, *arguments[1:], *[self.value(one.value, env) for one in node.keywords]])
        if func.attr in ("items", "values", "keys"):
            return self.listing(holder, func.attr)
        if func.attr == "copy":
            return holder
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

    def mutation(self, func: ast.Attribute, arguments: list[CodeValue], env: dict[str, CodeValue]) -> CodeValue:
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
        self, function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, node: ast.Call, env: dict[str, CodeValue]
    ) -> CodeValue:
        arguments = [self.value(one, env) for one in node.args]
        keywords = {one.arg: self.value(one.value, env) for one in node.keywords if one.arg is not None}
        return self.apply_function(function, arguments, keywords, env)

    def apply_function(
        self,
        function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        arguments: list[CodeValue],
        keywords: Mapping[str, CodeValue],
        env: dict[str, CodeValue],
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

    def apply(self, body: list[ast.stmt], local: dict[str, CodeValue]) -> CodeValue:
        self.returns.append([])
        self.depth += 1
        try:
            self.block(body, local)
        finally:
            self.depth -= 1
            returned = self.returns.pop()
        return join_values(returned)


def _leaves(body: list[ast.stmt]) -> bool:
    """Whether a body never reaches its end."""
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break)

