"""The undefined: what a template gets for something that is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.scopes import OWN_FUNCTIONS
from noetl.model.nearest import nearest

# Values and limits in the words of messages: what something is, which keys it has, and the way out.


#: keys of a map that are listed, and characters of a text that are shown
_KEYS: Final = 8
_SHOWN: Final = 40
#: characters of a name that is not there
_SHOWN_NAME: Final = 200
#: keys among which a near one is looked for
_SEARCHED: Final = 200
#: pairs of letters that are compared for it
_MOST_PAIRS: Final = 50_000
#: numbers beyond are not written out
_LARGE: Final = 10**30

#: where a template has reached its limits, this is where to go on
ELSEWHERE: Final = "do it in a `kind: python` task, whose limits can be set"


def describe_type(value: Any) -> str:
    """What a value is, in a word."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a map"
    return "a list" if isinstance(value, (list, tuple)) else type(value).__name__


def describe_value(value: Any) -> str:
    """A value as messages show it: what it is, and a short one itself."""
    if isinstance(value, str):
        # All of it or nothing: what is cut short of a secret could not be told from other text.
        return f"the text {value!r}" if len(value) <= _SHOWN else f"a text of {len(value):,} characters"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}" if abs(value) < _LARGE else "a number"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{describe_type(value)} of {len(value)}"
    return describe_type(value)


def describe_contents(name: str, of: Any) -> str:
    """Behind "`name` is missing in `…`": what the value has instead."""
    if isinstance(of, Mapping):
        keys = [key for key, _ in zip(of, range(_SEARCHED), strict=False) if isinstance(key, str)]
        meant = nearest(name, keys[: _MOST_PAIRS // (len(name) ** 2 + 1)])
        if meant is not None:
            return f"; did you mean `{meant}`?"
        more = ", …" if len(of) > _KEYS else ""
        return f"; it has {', '.join(f'`{key[:_SHOWN]}`' for key in keys[:_KEYS])}{more}" if keys else ""
    if isinstance(of, (list, tuple)):
        return f", which is a list of {len(of)}"
    return f", which is {describe_type(of)}" if of is None or isinstance(of, (str, int, float)) else ""


def not_data_error(value: Any, scopes: Mapping[str, Any] | None = None) -> TemplateError:
    """The error of a value that is not data, a function for instance."""
    what, way_out = type(value).__name__, ""
    if callable(value):
        what = "function"
        way_out = "".join(f": write `{name}()`" for name in OWN_FUNCTIONS if (scopes or {}).get(name) is value)
    error = TemplateError(f"it yields a {what}, which is not data{way_out}")
    error.kind = "type"
    return error


def explain_misuse(sign: str, left: Any, right: Any) -> str:
    """Why an operator cannot be applied, and what may help."""
    return f"`{sign}` cannot take {describe_value(left)} and {describe_value(right)}{_suggest_fix(sign, left, right)}"


def _suggest_fix(sign: str, left: Any, right: Any) -> str:
    one, other = (left, right) if isinstance(left, str) or left is None else (right, left)
    if one is None:
        return "; `| default(0, true)` puts a value in place of null"
    if isinstance(one, str) and isinstance(other, (int, float)) and not isinstance(other, bool):
        if _is_number(one):
            return "; `| int` or `| float` makes a number of text"
        return "; `~` joins values to text" if sign == "+" else ""
    return ""


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


#: nobody said in what something is missing
_NOTHING = object()


class Missing:
    """Is false, may be asked whether it is defined or given a default, and fails in every other use.

    That guards forgive comparing with one is for `noetl.expr.sandbox.operators` to say.
    """

    def __init__(self, name: str, parent: str | None, of: Any = _NOTHING) -> None:
        self._name = name
        self._parent = parent
        self._of = of

    def reason(self) -> str:
        """What is missing, as part of a sentence."""
        if self._parent is None:
            return f"`{self._name[:_SHOWN_NAME]}` is not known here"
        said = f"`{self._name[:_SHOWN_NAME]}` is missing" + (f" in `{self._parent}`" if self._parent else "")
        return said if self._of is _NOTHING else said + describe_contents(self._name, self._of)

    def _fail(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise UndefinedValue(self.reason())

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        # Python itself asks for names with underscores when it looks for a protocol.
        if name.startswith("__"):
            raise AttributeError(name)
        self._fail()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _fail
    __hash__ = __str__ = __repr__ = __iter__ = __len__ = __contains__ = __getitem__ = _fail
    __call__ = __int__ = __float__ = __complex__ = __index__ = __neg__ = __pos__ = __abs__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = _fail


class NoValue(Missing):
    """An undefined that no name stands behind, such as the first item of an empty list."""

    def __init__(self, reason: str) -> None:
        super().__init__("", "")
        self._reason = reason

    def reason(self) -> str:
        """What is missing, as part of a sentence."""
        return self._reason


def refuse_missing(value: Any) -> None:
    """Fail if the value is undefined."""
    if isinstance(value, Missing):
        raise UndefinedValue(value.reason())
