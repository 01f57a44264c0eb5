"""The other side of kind: python: a process that runs one task after another, and answers over a socket.

It starts in the time that Python itself needs, so everything that is not needed by every task is imported late; the
package `json` alone would take as long as the rest, so only its core in C is used. Messages have four bytes of length
in front. What the host is told is marshalled, for both are of one Python and the engine can be trusted; what it answers
is JSON, for the author's code cannot. Its stdout and stderr belong to the tasks.
"""

from __future__ import annotations

import marshal
import os
import sys
from _json import encode_basestring, make_encoder
from _signal import (  # type: ignore[import-not-found]  # the package `signal` is slow to import
    SIG_BLOCK,
    SIG_DFL,
    SIG_UNBLOCK,
    SIGTERM,
    pthread_sigmask,
    signal,
)
from types import CodeType, FunctionType, ModuleType

from noetl.tools.python.task_result import NotJson, locate, plain, short_repr

TYPE_CHECKING = False  # typing is slow to import as well
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, NoReturn

# The author's code, compiled.


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


#: the name under which the code of the task at hand is a module
_MODULE = "noetl_task"
_SCOPES = frozenset({"context", "results"})
_CONTAINERS = frozenset({list, tuple, dict, str})
_VARIADIC = 0x08  # the flag of code that takes **kwargs
_MOST_CODES = 256
_LONGEST_MESSAGE = 10_000
_MOST_FRAMES = 20


def _refuse(value: Any) -> NoReturn:
    raise NotJson(f"is not JSON: {short_repr(value)}")


#: markers, default, encoder, indent, separators, sort_keys, skipkeys, allow_nan: as json.JSONEncoder calls it
_chunks = make_encoder(None, _refuse, encode_basestring, None, ":", ",", False, False, False)  # noqa: FBT003


def _json(value: Any, errors: str = "strict") -> bytes:
    """A plain value as JSON; ValueError: there is a number or a text in it that JSON has no form for."""
    return "".join(_chunks(value, 0)).encode("utf-8", errors)


class MissingArgument(TypeError):
    """A parameter for which input has no value. It goes by the name of what Python itself would raise."""


MissingArgument.__name__ = "TypeError"


class Context(dict[str, "Any"]):
    """`ctx`, read-only, with the other scopes as attributes."""

    def __init__(self, scopes: dict[str, Any]) -> None:
        super().__init__(scopes.get("ctx") or {})
        self.__dict__.update(scopes)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"context has no `{name}`; it has {', '.join(sorted(self.__dict__))}")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("context is read-only; what a task hands on is its result")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


class PythonHostServer:
    """The state of this process: its socket, and the codes it has compiled."""

    def __init__(self, channel: int, folder: str, unconfined: str) -> None:
        self._channel = channel
        self._folder = folder
        #: why it is not within its bounds, in which case it does nothing
        self._unconfined = unconfined
        self._codes: dict[tuple[str, str], CodeType] = {}
        self._pid = os.getpid()
        self._leaving = False
        self._streams = sys.stdout, sys.stderr

    def serve(self) -> None:
        """Run tasks until the engine hangs up."""
        while (task := self._receive()) is not None:
            reply = self._reply(task)
            if os.getpid() != self._pid:  # the code forked, and this is the copy
                os._exit(0)
            sys.stdout, sys.stderr = self._streams
            for stream in self._streams:
                if not stream.closed:
                    stream.flush()
            if self._leaving:
                return
            self._send(reply)

    def handle_sigterm(self) -> None:
        """Let a task that is to end run its `finally` blocks. Processes that it forks end as they always would."""

        def in_child() -> None:
            signal(SIGTERM, SIG_DFL)
            pthread_sigmask(SIG_UNBLOCK, {SIGTERM})

        signal(SIGTERM, self._on_sigterm)
        # Blocked meanwhile: Python forgets what a child is sent before it has come to itself.
        os.register_at_fork(
            before=lambda: pthread_sigmask(SIG_BLOCK, {SIGTERM}),
            after_in_parent=lambda: pthread_sigmask(SIG_UNBLOCK, {SIGTERM}),
            after_in_child=in_child,
        )

    def _on_sigterm(self, number: int, _frame: Any) -> None:
        if not self._leaving:
            self._leaving = True
            raise SystemExit(128 + number)

    def _reply(self, task: dict[str, Any]) -> bytes:
        if self._unconfined:
            return _json({"error": {"kind": "isolation", "message": self._unconfined}})
        try:
            os.chdir(self._folder)
            _limit_cpu(task.get("cpu_s"))
            return self._encode_result(plain(self._run(task)), task)
        except BaseException as error:  # noqa: BLE001  whatever the author's code raises is the task's failure
            return _json(_failure(error, task, self._folder), "replace")

    def _encode_result(self, value: Any, task: dict[str, Any]) -> bytes:
        try:
            if task["spill"] is not None and type(value) in _CONTAINERS:
                return self._spill_result(value, task)
            written = _json(value)
        except ValueError:
            raise locate(value) from None
        if len(written) > task["limit"]:
            return _json({"error": {"kind": "limit", "message": task["over_limit"]}})
        return b'{"data":%b}' % written

    def _spill_result(self, value: Any, task: dict[str, Any]) -> bytes:
        """What to answer when nobody looks into the result: it may go to a file."""
        from noetl.tools.python.task_result import json_pieces, receive_file, spill_result

        def ask() -> int:
            self._send(b'{"ask":"draft"}')
            return receive_file(self._channel)

        reply = spill_result(value, json_pieces(value, _json), task, ask)
        return reply if isinstance(reply, bytes) else _json(reply)

    def _run(self, task: dict[str, Any]) -> Any:
        values: dict[str, Any] = task["input"]
        if task.get("module"):
            return _await_result(self._call(_find_callable(task["module"], task["callable"]), values))
        module = ModuleType(_MODULE)
        sys.modules[_MODULE] = module  # dataclasses and pickle look it up by its name
        space = module.__dict__
        code = self._compile(task["code"], task["name"])
        has_main = any(function.co_name == "main" for function in functions(code))
        if not has_main:
            scopes = self._scopes({*code.co_names, *inner_names(code)}, values)
            space |= {"input_data": values, **scopes, **values}
        exec(code, space)  # noqa: S102  to run what the author wrote is what this is for
        if has_main:
            return _await_result(self._call(space["main"], values))
        script = space.get(SCRIPT)
        returned = script() if script is not None else None
        return space.get("result") if returned is None else returned

    def _compile(self, text: str, name: str) -> CodeType:
        code = self._codes.get((text, name))
        if code is None:
            if len(self._codes) >= _MOST_CODES:
                self._codes.clear()
            code = self._codes[text, name] = compile_code(text, name)
        return code

    def _call(self, function: Any, values: dict[str, Any]) -> Any:
        """Call a function with those values that it names."""
        if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
            return self._call_by_signature(function, values)
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = code.co_varnames[:count]
        values = {**self._provided(set(names), values), **values}
        defaults = names[code.co_argcount - len(function.__defaults__ or ()) : code.co_argcount]
        optional = {*defaults, *(function.__kwdefaults__ or ())}
        _check_arguments(function, [name for name in names if name not in optional], values)
        first = [values.pop(name) for name in names[: code.co_posonlyargcount] if name in values]
        if not code.co_flags & _VARIADIC:
            values = {name: values[name] for name in names if name in values}
        return function(*first, **values)

    def _call_by_signature(self, function: Any, values: dict[str, Any]) -> Any:
        """The same for what is no plain function: built-ins, classes, decorated functions."""
        import inspect

        try:
            parameters = inspect.signature(function).parameters.values()
        except ValueError:  # a built-in that does not tell
            return function(**values)
        values = {**self._provided({one.name for one in parameters}, values), **values}
        named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        _check_arguments(function, [one.name for one in named if one.default is one.empty], values)
        first = [values.pop(one.name) for one in named if one.kind is one.POSITIONAL_ONLY and one.name in values]
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            values = {one.name: values[one.name] for one in named if one.name in values}
        return function(*first, **values)

    def _provided(self, names: set[str], values: dict[str, Any]) -> dict[str, Any]:
        """What the engine gives a function under names of its own: the whole input, and the scopes."""
        given = self._scopes(names, values)
        return {"input_data": values, **given} if "input_data" in names else given

    def _scopes(self, names: set[str], values: dict[str, Any]) -> dict[str, Any]:
        """`context` and `results`, if they are wanted; they may be large, so they are sent only when asked for."""
        wanted = (_SCOPES & names) - values.keys()
        if not wanted:
            return {}
        self._send(b'{"ask":"scopes"}')
        context = Context(self._receive() or {})
        return dict.fromkeys(wanted, context)

    def _receive(self) -> dict[str, Any] | None:
        head = self._read(4)
        if head is None:
            return None
        body = self._read(int.from_bytes(head, "big"))
        message: dict[str, Any] | None = None if body is None else marshal.loads(body)  # noqa: S302  of the engine
        return message

    def _read(self, size: int) -> bytes | None:
        parts = []
        while size:
            part = os.read(self._channel, min(size, 1 << 20))
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _send(self, body: bytes) -> None:
        rest = memoryview(len(body).to_bytes(4, "big") + body)
        while rest:
            rest = rest[os.write(self._channel, rest) :]


def _find_callable(module: str, name: str | None) -> Any:
    __import__(module)
    found: Any = sys.modules[module]
    for part in (name or "main").split("."):
        found = getattr(found, part)
    return found


def _check_arguments(function: Any, needed: list[str], values: dict[str, Any]) -> None:
    lacking = [name for name in needed if name not in values]
    if lacking:
        names = ", ".join(f"`{name}`" for name in lacking)
        given = ", ".join(f"`{name}`" for name in values) or "nothing"
        raise MissingArgument(f"{getattr(function, '__name__', 'the function')} needs {names}; input has {given}")


def _await_result(value: Any) -> Any:
    """What a function returned; if that is to be awaited, what comes of it."""
    if hasattr(value, "__await__"):
        import asyncio

        async def await_value() -> Any:
            return await value

        return asyncio.run(await_value())
    return value


def _failure(error: BaseException, task: dict[str, Any], folder: str) -> dict[str, Any]:
    """An exception as data."""
    if isinstance(error, NotJson):
        return {"error": {"kind": "result-not-json", "message": str(error)}}
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        message = f"the code left with sys.exit({error.code!r}) before it gave a result"
        return {"error": {"kind": "tool-crashed", "message": message[:_LONGEST_MESSAGE], "exit_code": code}}
    kind = "python"
    if isinstance(error, MemoryError):
        error = error.with_traceback(None)  # it holds on to what was too much
        kind = "limit" if task.get("memory_mb") else kind
    try:
        said = str(error)
    except Exception:  # noqa: BLE001  the author's code again
        said = "…"
    said = said[:_LONGEST_MESSAGE]
    name = type(error).__name__
    message = f"{name}: {said}" if said else name
    if kind == "limit":
        message = f"more memory than {task['memory_mb']} MB ({message})"
    if isinstance(error, OSError) and task.get("bounds"):
        message += f" ({task['bounds']})"
    if isinstance(error, ModuleNotFoundError):
        message += f" (Python of the task: {sys.executable})"
    report = {"kind": kind, "message": message, "traceback": _traceback(error, task, folder)}
    return {"error": report, "py": {"exception_type": name, "exception": said}}


def _traceback(error: BaseException, task: dict[str, Any], folder: str) -> list[str]:
    """Where it happened, in the author's own code: the task's, or files beside the playbook; else whatever there is."""
    import linecache
    import traceback

    code = task.get("code")
    if code:
        lines = [line + "\n" for line in code.splitlines()]
        linecache.cache[task["name"]] = (len(code), None, lines, task["name"])
    if isinstance(error, SyntaxError):
        return [f"{error.filename} line {error.lineno}: {(error.text or '').strip()}"]
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    own = [one for one in frames if one.filename == task["name"] or one.filename.startswith(folder + os.sep)]
    return [f"{one.filename} line {one.lineno}, in {one.name}: {one.line}" for one in (own or frames)[-_MOST_FRAMES:]]


def _limit_cpu(seconds: float | None) -> None:
    if seconds is None:
        return
    import resource

    used = os.times()
    bound = int(used.user + used.system + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (bound, bound + 1))


def _confine(told: str) -> str:
    """Put this process into its bounds; the reason if it cannot be done."""
    import json

    from noetl.drivers.confinement import REASON, confine

    try:
        confine(json.loads(told))
    except OSError as error:
        return f"{REASON}{error}"
    return ""


def main(channel: int, folder: str, memory_mb: float, told: str) -> None:
    """Serve; the folder of the playbook comes behind Python's own modules and before the installed ones."""
    installed = (place for place, path in enumerate(sys.path) if path.endswith("-packages"))
    sys.path.insert(next(installed, len(sys.path)), folder)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if memory_mb:
        import resource

        size = int(memory_mb * 1024 * 1024)
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    host = PythonHostServer(channel, folder, _confine(told) if told else "")
    host.handle_sigterm()
    host.serve()
