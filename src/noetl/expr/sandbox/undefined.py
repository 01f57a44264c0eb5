"""The undefined: what a template gets for something that is not there."""

from __future__ import annotations

from typing import Any, NoReturn

from noetl.errors import UndefinedValue
from noetl.expr.sandbox.telling import what_there_is

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
            return f"`{self._name}` is not known here"
        said = f"`{self._name}` is missing" + (f" in `{self._parent}`" if self._parent else "")
        return said if self._of is _NOTHING else said + what_there_is(self._name, self._of)

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
