"""Outputs as tools return them, checked: plain data that can be written as JSON and read again, or an error that says why not."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

import msgspec

from noetl.model.output import Output, failed, failure

#: levels of maps and lists that data may have; a server reads about five times as many
MOST_LEVELS: Final = 200
#: frames of a tool's traceback that are shown: the last ones
_FRAMES: Final = 6
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
#: parts of a value that are searched for one that cannot be written, and characters of a text that are shown
_SEARCHED, _SHOWN = 1_000_000, 60
_PARTS: Final = frozenset({"status", "data", "error"})


def check_output(kind: str, made: object, *, own: bool = True) -> Output:
    """Return what a tool returned, or the output of a failure if it is no output or cannot be written as JSON.

    Tools of our `own` return maps whose keys are text; keys of others become the text that JSON gives them.
    """
    if not isinstance(made, dict) or not made.keys() >= _PARTS:
        return failed(failure("tool-crashed", f"`run` of kind `{kind}` returned {type(made).__name__}, not an Output"))
    if not own:
        with suppress(RecursionError):  # it is nested too deeply, which is found below
            made = {**made, "data": with_text_keys(made["data"])}
    problem = find_problem(made, "output")
    if problem is None:
        return made if "ref" in made else {**made, "ref": None}
    return failed(failure("result-not-json", problem))


def with_text_keys(value: Any) -> Any:
    """Return a value whose maps have text for keys, the same one if they do: log and memory must have the same."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, (list, tuple)):
        items = [with_text_keys(item) for item in value]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    if not isinstance(value, Mapping):
        return value
    made = {_key_text(key): with_text_keys(item) for key, item in value.items()}
    if len(made) < len(value):  # two keys have one text: which of them counts is not ours to say
        return value
    same = all(new is old for new, old in zip(made.values(), value.values(), strict=True))
    return value if same and made.keys() == value.keys() else made


def _key_text(key: Any) -> Any:
    """Return a key as JSON writes it; one that JSON has no form for as it is."""
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return repr(key) if type(key) in (int, float) and key - key == 0 else key


def find_problem(value: Any, name: str) -> str | None:
    """Return why a value cannot be written as JSON or is nested too deeply, with the path to the part; None: it can."""
    try:
        written = _encode(value)
    except RecursionError:
        return _too_deep(name)
    except Exception:  # noqa: BLE001  whatever a value's own methods raise
        return _locate(value, name)
    return _too_deep(name) if _is_deep(value, written) else None


def escape_surrogates(text: object) -> str:
    r"""Return a text that can be written: what is no character, such as of a file name, as `\udce9`."""
    return str(text).encode("utf-8", "backslashreplace").decode()


def crash_output(error: BaseException) -> Output:
    """Return the output of a tool that broke."""
    return failed(failure("tool-crashed", f"the tool broke: {_describe(error)}"))


def format_crash(error: BaseException) -> str:
    """Return the last frames of a tool's traceback and the error, for the lines of its task."""
    frames = "".join(traceback.format_tb(error.__traceback__, -_FRAMES))
    return escape_surrogates(f"Traceback (most recent call last):\n{frames}{_describe(error)}\n")


def _describe(error: BaseException) -> str:
    try:
        return escape_surrogates(f"{type(error).__name__}: {error}")
    except Exception:  # noqa: BLE001  an exception whose text cannot be had
        return type(error).__name__


def _too_deep(name: str) -> str:
    return f"`{name}` is nested more than {MOST_LEVELS} levels deep"


def _is_deep(value: Any, written: bytes) -> bool:
    """Return whether a value has too many levels, itself not counted."""
    if len(written) <= 2 * MOST_LEVELS or written.count(b"[") + written.count(b"{") <= MOST_LEVELS:
        return False
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        # Rows, of which there may be many, have nothing but scalars in them.
        nested = [members for whole in level if not _SCALARS.issuperset(map(type, members := _members(whole)))]
        level = [part for members in nested for part in members if type(part) not in _SCALARS]
        if not level:
            return False
    return True


def _members(whole: Any) -> Iterable[Any]:
    if type(whole) is dict or isinstance(whole, Mapping):
        return whole.values()
    return whole if isinstance(whole, (list, tuple, set, frozenset)) else ()


def _locate(value: Any, name: str) -> str:
    """Return the path to the first part that cannot be written, and what it is."""
    waiting = [(name, value)]
    for _ in range(_SEARCHED):
        if not waiting:
            break
        path, part = waiting.pop()
        if isinstance(part, Mapping):
            strange = next((key for key in part if not _is_writable({key: None})), None)
            if strange is not None:
                return f"`{path}` has a key that is no JSON: {_show(strange)}"
            waiting += [(f"{path}.{key}", inner) for key, inner in reversed(list(part.items()))]
        elif isinstance(part, (list, tuple)):
            waiting += [(f"{path}[{at}]", inner) for at, inner in reversed(list(enumerate(part)))]
        elif not _is_writable(part):
            return f"`{path}` is no JSON: {_show(part)}"
    return f"`{name}` is no JSON"


def _is_writable(value: Any) -> bool:
    try:
        _encode(value)
    except Exception:  # noqa: BLE001  as above
        return False
    return True


def _show(value: Any) -> str:
    """Return a text with what is wrong in it escaped; of anything else only its type, because its `repr` may be anything."""
    if isinstance(value, str):
        return f'the text "{escape_surrogates(value[:_SHOWN])}" holds half of a surrogate pair'
    return f"a value of type {type(value).__name__}"


def _to_plain(value: Any) -> Any:
    """Scopes, and what tools make of them, may be maps of other kinds."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value).__name__)


_encode = msgspec.json.Encoder(enc_hook=_to_plain).encode
