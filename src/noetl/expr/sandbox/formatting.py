"""`'%s' % x` and `'{}'.format(x)`, where a few characters could ask for gigabytes or for Python's internals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date, time
from string import Formatter
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.paths import ABSENT, item, member
from noetl.expr.sandbox.evaluation import Evaluation, weigh
from noetl.expr.sandbox.undefined import refuse_missing

_SPECIFIER: Final = re.compile(r"%(?:\([^)]*\))?[-#0 +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?.", re.DOTALL)
_NUMBER: Final = re.compile(r"\d+")
#: wider fields are no formatting any more
_MOST_WIDTH: Final = 10_000
_FORMATTABLE: Final = (str, int, float, bool, type(None), date, time)


def percent(run: Evaluation, pattern: str, values: Any) -> str:
    """`pattern % values`."""
    refuse_missing(values)
    specifiers = 0
    for match in _SPECIFIER.finditer(pattern):
        specifiers += 1
        for width in match.groups():
            if width == "*":
                raise TemplateError("a `*` in a `%` format is not supported")
            _check_width(width)
    run.work(specifiers)
    run.grow(len(pattern) + specifiers * (weigh(run, values) + 400) + _widths(pattern))
    text: str = str(pattern) % values
    return text


def _widths(text: str) -> int:
    return sum(int(number) for number in _NUMBER.findall(text) if len(number) < 9)


def _check_width(width: str | None) -> None:
    if width and (len(width) > 9 or int(width) > _MOST_WIDTH):
        raise TemplateLimit("a formatted field grew too large")


class _BoundFormatter(Formatter):
    """Fields reach data the way templates do, and are formatted only if they are plain values."""

    def __init__(self, run: Evaluation) -> None:
        self._run = run

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """The value of `a.b[0]` in `{a.b[0]}`."""
        parts = re.findall(r"^[^.\[]*|\.[^.\[]+|\[[^\]]+\]", field_name)
        if "".join(parts) != field_name:
            raise TemplateError(f"`{{{field_name}}}` is not a format field")
        root = parts[0]
        value = self.get_value(int(root) if root.isdigit() else root, args, kwargs)
        for part in parts[1:]:
            if part[0] == ".":
                value = member(value, part[1:])
            else:
                key = part[1:-1]
                value = item(value, int(key) if key.isdigit() else key)
            if value is ABSENT:
                raise TemplateError(f"`{{{field_name}}}` names something that is missing")
        return value, root

    def format_field(self, value: Any, format_spec: str) -> str:
        """The text of one field."""
        refuse_missing(value)
        for number in _NUMBER.findall(format_spec):
            _check_width(number)
        if not isinstance(value, _FORMATTABLE):
            weigh(self._run, value)
            value = str(value)
        text = format(value, format_spec)
        self._run.grow(len(text))
        return text

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """`!r` and `!s`."""
        refuse_missing(value)
        self._run.grow(weigh(self._run, value))
        return super().convert_field(value, conversion)


def braces(run: Evaluation, pattern: str, *args: Any, **kwargs: Any) -> str:
    """`pattern.format(*args, **kwargs)`."""
    run.work(pattern.count("{"))
    run.grow(len(pattern))
    return _BoundFormatter(run).vformat(str(pattern), args, kwargs)
