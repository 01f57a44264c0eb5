"""What values of all types look like to a template: dates, foreign maps, numbers at their limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time as time_of_day, timedelta
from types import MappingProxyType
from typing import Any

import pytest

from noetl.errors import TemplateError
from noetl.expr import guard, template


class Lazy(Mapping[str, Any]):
    """A map that is no dict, as a scope may be."""

    def __init__(self, **values: Any) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


SCOPES: dict[str, Any] = {
    "when": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    "day": date(2026, 3, 1),
    "hour": time_of_day(12, 30),
    "span": timedelta(days=2, seconds=5),
    "lazy": Lazy(a=1, items=[2], inner=Lazy(b=3)),
    "proxy": MappingProxyType({"k": (1, 2)}),
    "t": (1, (2, 3)),
    "x": {"a": {"b": 1}},
    "args": [1, 2],
    "kwargs": {"k": 3},
    "many": lambda *args, **kwargs: [list(args), kwargs],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ when }}", "2026-03-01T12:30:00+00:00"),
        ("at {{ when }}", "at 2026-03-01T12:30:00+00:00"),
        ("{{ [day, hour] }}", ["2026-03-01", "12:30:00"]),
        ("{{ {'d': day} | to_json }}", '{"d": "2026-03-01"}'),
        ("{{ when.year + when.minute }}", 2056),
        ("{{ when.strftime('%d.%m.%Y') }}", "01.03.2026"),
        ("{{ day.isoformat() }}", "2026-03-01"),
        ("{{ when.date() }}", "2026-03-01"),
        ("{{ span.days }}/{{ span.total_seconds() }}", "2/172805.0"),
        ("{{ (when + span).day }}", 3),
        ("{{ lazy.a + lazy.inner.b }}", 4),
        ("{{ lazy.items }}", [2]),
        ("{{ lazy['a'] }}", 1),
        ("{{ lazy.zz | default(0) }}", 0),
        ("{{ lazy.inner }}", {"b": 3}),
        ("l={{ lazy.inner }}", 'l={"b": 3}'),
        ("{{ [lazy] | to_json }}", '[{"a": 1, "items": [2], "inner": {"b": 3}}]'),
        ("{{ lazy.inner.keys() }}", ["b"]),
        ("{{ proxy }}", {"k": [1, 2]}),
        ("{{ proxy.k[1] }}", 2),
        ("{{ t }}", [1, [2, 3]]),
        ("{{ t.index(1) + t.count(1) }}", 1),
        ("{{ {'a': t} }}", {"a": [1, [2, 3]]}),
        ("{{ [1, t, 'x'] }}", [1, [1, [2, 3]], "x"]),
        ("{{ many(*args, **kwargs) }}", [[1, 2], {"k": 3}]),
        ("{{ many(0, *args, k=1) }}", [[0, 1, 2], {"k": 1}]),
        ("{{ x.a.b.c.d | default('-') }}", "-"),
        ("{{ (x.a | default({})).b }}", 1),
        ("{{ [x][0].a.b }}", 1),
        ("{{ ([x] | first).zz.y | default(2) }}", 2),
        ("{{ x[[1]] | default(3) }}", 3),
        ("{{ x[t] | default(4) }}", 4),
        ("{{ x.a[1:] | default(5) }}", 5),
        ("{{ nope[1:] | default(6) }}", 6),
        ("{{ 'abc'[-1] }}", "c"),
        ("{{ 'abc'[9] | default(7) }}", 7),
        ("{{ 5[0] | default(8) }}", 8),
        ("{{ 1 < 2 <= 2 != 3 }}", True),
        ("{{ 1 < 2 > 5 }}", False),
        ("{{ +1 - -1 }}", 2),
        ("{{ 'a' in {'a': 1} and 'b' not in {'a': 1} }}", True),
        ("{{ 7 % 4 ~ 7 // 2 ~ 2 ** 3 }}", "338"),
        ("{{ ('%s' | escape) % '<' }}", "<"),
        ("{{ '<' | escape }}", "&lt;"),
        ("{{ {'k': '<' | escape} }}", {"k": "&lt;"}),
        ("{{ dict(a=1, **x) }}", {"a": {"b": 1}}),
        ("{{ dict([['k', 1]]) }}", {"k": 1}),
        ("{{ cycler(1, 2).reset() }}", None),
        ("{{ lipsum(1, false, 3, 4) | wordcount in [3, 4] }}", True),
        ("{{ 'aZ'.translate({90: 'b', 97: none}) }}", "b"),
        ("{{ '{k}'.format_map({'k': 1}) }}", "1"),
        ("{{ '{0!r:>5}|{1:.2f}|{2[0]}|{3.a}'.format('x', 2.5, args, {'a': 9}) }}", "  'x'|2.50|1|9"),
        ("{{ 'é'.encode() | b64encode }}", "w6k="),
        ("{{ 'é'.encode().decode() }}", "é"),
        ("{{ x.copy() == x }}", True),
        ("{{ 10 ** 3000 % 7 }}", 10**3000 % 7),
    ],
)
def test_values_of_all_types(text: str, expected: Any) -> None:
    assert template(text).evaluate(SCOPES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ when.strftime('%9999999d') }}",
        "{{ when.tzinfo.utcoffset(when) }}",
        "{{ span }}",
        "{{ {t: 1} }}",
        "{{ {when: 1} }}",
        "{{ '{0.zz}'.format(x) }}",
        "{{ '{0.a b]}'.format(x) }}",
        "{{ '{0[}'.format(x) }}",
        "{{ '%d' % 'x' }}",
        "{{ '%q' % 1 }}",
        "{{ 1 in 5 }}",
        "{{ many(1)(2) }}",
        "{{ t() }}",
        "{{ 'a' | format(1, k=2) }}",
        "{{ 'a'.join([1]) }}",
        "{{ -'a' }}",
        "{{ x + 1 }}",
        "{{ x.a.b.upper() }}",
        "{{ args[1:2, 3] }}",
        "{{ [1] | to_json(indent=99) }}",
        "{{ range(1, 2, 0) }}",
        "{{ 1 | default(1, 2, 3, 4) }}",
    ],
)
def test_what_makes_no_sense_is_a_template_error(text: str) -> None:
    with pytest.raises(TemplateError):
        template(text).evaluate(SCOPES)


def test_a_guard_takes_any_value_as_a_condition() -> None:
    assert guard("{{ lazy }}").evaluate(SCOPES)
    assert guard("{{ when < when }}").evaluate(SCOPES) is False
    assert guard("{{ when.year > 2000 and t }}").evaluate(SCOPES)
    assert not guard("{{ x.a.c.d < 5 < 6 }}").evaluate(SCOPES)


def test_scopes_may_be_any_mapping() -> None:
    assert template("{{ a.b }}{{ c | default('') }}").evaluate(MappingProxyType({"a": {"b": 1}})) == "1"
