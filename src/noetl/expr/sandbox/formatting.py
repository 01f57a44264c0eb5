"""`'%s' % x` and `'{}'.format(x)`, where a few characters could ask for gigabytes or for Python's internals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from string import Formatter
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.member_access import ABSENT, item, member
from noetl.expr.sandbox.evaluation import Evaluation, pay_for_text, weigh
from noetl.expr.sandbox.undefined import refuse_missing

_PARENTHESIS: Final = re.compile(r"[()]")
_FLAGS: Final = re.compile(r"[-#0 +]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?")
_NUMBER: Final = re.compile(r"\d+")
#: wider fields are no formatting any more
_MOST_WIDTH: Final = 10_000
#: longer names of a field, and longer patterns of dates, are none
_MOST_CHARACTERS: Final = 1_000
#: what one field takes, beside the text that it makes
_FIELD_STEPS: Final = 100
_FIELD_SIZE: Final = 400
_FORMATTABLE: Final = (str, int, float, bool, type(None))
#: widths and flags of the C library, such as `%999999999d`
_DATE_WIDTH: Final = re.compile(r"%[-_^#0-9]")


def percent(run: Evaluation, pattern: str, values: Any) -> str:
    """`pattern % values`."""
    refuse_missing(values)
    specifiers = pattern.count("%")
    run.work(_FIELD_STEPS * specifiers)
    widths = sum(_widths(run, pattern))
    weight = weigh(run, values)
    # Each value of a tuple is used once at the most, one of a map may be used by every field.
    times = specifiers if isinstance(values, Mapping) else 1
    run.work(times * weight >> 3)
    run.grow(len(pattern) + times * weight + specifiers * _FIELD_SIZE + widths)
    text: str = str(pattern) % values
    return text


def _widths(run: Evaluation, pattern: str) -> Iterator[int]:
    """The widths that the fields of a `%` pattern ask for; each part of it is looked at once."""
    at = pattern.find("%")
    while at >= 0:
        at = _end_of_key(run, pattern, at + 1)
        match = _FLAGS.match(pattern, at)
        if match is not None:
            for width in match.groups():
                if width == "*":
                    raise TemplateError("a `*` in a `%` format is not supported")
                yield _checked_width(width)
            at = match.end()
        at = pattern.find("%", at + 1)


def _end_of_key(run: Evaluation, pattern: str, at: int) -> int:
    """Behind the `(key)` of a field, which may hold parentheses itself."""
    if not pattern.startswith("(", at):
        return at
    open_ones = 0
    for match in _PARENTHESIS.finditer(pattern, at):
        run.work(8)
        open_ones += 1 if match[0] == "(" else -1
        if not open_ones:
            return match.end()
    raise TemplateError("a `%(` in a format has no `)`")


def _checked_width(width: str | None) -> int:
    if width is None:
        return 0
    if len(width) > 9 or int(width) > _MOST_WIDTH:
        raise TemplateLimit("a formatted field grew too large")
    return int(width)


class _BoundFormatter(Formatter):
    """Fields reach data the way templates do, and are formatted only if they are plain values."""

    def __init__(self, run: Evaluation) -> None:
        self._run = run

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        """The value of `a.b[0]` in `{a.b[0]}`."""
        if len(field_name) > _MOST_CHARACTERS:
            raise TemplateError(f"a format field has more than {_MOST_CHARACTERS:,} characters")
        self._run.work(8 * len(field_name))
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
        if isinstance(value, (date, time)):
            return format_date(self._run, value, format_spec) if format_spec else str(value)
        widths = sum(_checked_width(number) for number in _NUMBER.findall(format_spec))
        pay_for_text(self._run, value)
        self._run.grow(widths + _FIELD_SIZE)
        if not isinstance(value, _FORMATTABLE):
            value = str(value)
        return format(value, format_spec)

    def convert_field(self, value: Any, conversion: Any) -> Any:
        """`!r` and `!s`."""
        refuse_missing(value)
        if conversion is not None:
            pay_for_text(self._run, value)
        return super().convert_field(value, conversion)


def braces(run: Evaluation, pattern: str, *args: Any, **kwargs: Any) -> str:
    """`pattern.format(*args, **kwargs)`."""
    run.work(_FIELD_STEPS * pattern.count("{"))
    run.grow(len(pattern))
    return _BoundFormatter(run).vformat(str(pattern), args, kwargs)


def format_date(run: Evaluation, value: date | time, pattern: str) -> str:
    """`value.strftime(pattern)`."""
    if len(pattern) > _MOST_CHARACTERS:
        raise TemplateError(f"a date format has more than {_MOST_CHARACTERS:,} characters")
    if _DATE_WIDTH.search(pattern):
        raise TemplateError("widths and flags in a date format are not supported")
    run.work(40 + 8 * len(pattern))
    run.grow(32 * len(pattern))
    return value.strftime(pattern)
