"""Everything that a template can do, with large operands: generated from the tables of what the sandbox allows.

A filter, test, method, function or operator that is added there is here without anybody's doing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from noetl.expr import Budget, scopes, template, templates
from noetl.expr.sandbox.callables import GLOBALS
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET, Evaluation
from noetl.expr.sandbox.methods import METHODS
from noetl.expr.sandbox.operators import BINARY, ORDER

N = 1_000_000
#: so many members of a list
M = 100_000
P61 = (1 << 61) - 1


def _nest(depth: int, key: str = "") -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {key: value} if key else [value]
    return value


def _shared(depth: int) -> Any:
    """A list that is written 2 ** depth times."""
    value: Any = [1]
    for _ in range(depth):
        value = [value, value]
    return value


def values() -> dict[str, Any]:
    """What operations are applied to: large in every way that costs something."""
    long = "a" * 10_000
    return {
        "a": "a" * N,
        "wide": "😀" * N,
        "spaces": " " * N,
        "words": "ab " * (N // 3),
        "lines": "a\n" * (N // 2),
        "tabs": "\t" * N,
        "digits": "9" * N,
        "number": "1" * 4_000,
        "zeros": "0." + "0" * N,
        "percents": "%(" * (N // 2),
        "specifiers": "%s" * (N // 2),
        "braces": "{" * N,
        "fields": "{}" * (N // 2),
        "deep_field": "{0" + "[0]" * (N // 3) + "}",
        "brackets": "[" * N,
        "lists": "[" + "[]," * (N // 3) + "1]",
        "maps": "[" + '{"a":1},' * (N // 8) + "1]",
        "keys": "{" + ",".join(f'"{n}":0' for n in range(M)) + "}",
        "escapes": '"' + "\\u00e9" * (N // 6) + '"',
        "numbers": "[" + "1.5," * (N // 4) + "1]",
        "alike": "[" + ",".join(str(n * P61) for n in range(30_000)) + "]",
        "tags": "<a>" * (N // 3),
        "remarks": "<!--" * (N // 4),
        "entities": "&amp;" * (N // 5),
        "addresses": "http://a.b/ " * (N // 12),
        "ats": "a@" * (N // 2),
        "parens": "(" * N,
        "dots": "a." * (N // 2),
        "hyphens": "-" * N,
        "quotes": "'\"" * (N // 2),
        "path": "$" + ".a" * (N // 2),
        "deep_path": "$" + "..*" * 20,
        "filter_path": "$[?@.a > 1 && match(@.b, '(a+)+b')]",
        "union_path": "$[" + ",".join(["*"] * 1_000) + "]",
        "slice_path": "$[::1]" * 20,
        "bytes": b"ab" * (N // 2),
        "ints": list(range(M)),
        "reversed": list(range(M, 0, -1)),
        "floats": [n / 7 for n in range(M)],
        "collisions": [n * P61 for n in range(M)],
        "big_ints": [2**13_000 + n for n in range(1_000)],
        "equal_texts": ["a" * 10_000 + str(n % 2) for n in range(2)] * (M // 2),
        "same_text": [long] * M,
        "twins": [f"{long}a" for _ in range(300)],
        "texts": [f"text {n}" for n in range(M)],
        "mixed_case": ["aB" * 50] * 10_000,
        "rows": [{"id": n, "name": "x"} for n in range(30_000)],
        "wide_rows": [{f"k{n}": n for n in range(1_000)}] * 300,
        "pairs": [[f"k{n}", n] for n in range(30_000)],
        "long_lists": [[0] * 1_000 + [n % 2] for n in range(1_000)],
        "same_list": [[0] * 10_000] * M,
        "empty_lists": [[] for _ in range(M)],
        "tuples": tuple((n, n) for n in range(30_000)),
        "nest": _nest(200),
        "deep_nest": _nest(5_000),
        "deep_map": _nest(5_000, "a"),
        "shared": _shared(40),
        "map": {f"k{n}": n for n in range(M)},
        "int_map": {n: n for n in range(M)},
        "long_keys": {"k" * 10_000 + str(n): n for n in range(100)},
        "text_map": {f"k{n}": "b" * 100 for n in range(10_000)},
        "range": range(10**9),
        "big": 2**13_999,
        "minus_big": -(2**13_999),
        "large": 10**9,
        "minus": -(10**9),
        "small": 7,
        "one": 1,
        "zero": 0,
        "float": 1e308,
        "tiny": 5e-324,
        "none": None,
        "true": True,
        "empty": "",
        "empty_list": [],
        "empty_map": {},
        "date": date(2026, 1, 1),
        "time": datetime(2026, 1, 1, 1, 1),  # noqa: DTZ001
        "span": timedelta(days=1),
        "function": lambda *_: 1,
    }


#: what is given beside the value: fewer, but large in every way
ARGUMENTS = [
    "a",
    "empty",
    "spaces",
    "needle",
    "percents",
    "fields",
    "path",
    "deep_path",
    "filter_path",
    "union_path",
    "words",
    "wide",
    "quotes",
    "digits",
    "format_date",
    "id",
    "ints",
    "same_text",
    "twins",
    "equal_texts",
    "long_lists",
    "deep_nest",
    "shared",
    "map",
    "int_map",
    "text_map",
    "table",
    "tuples",
    "range",
    "large",
    "minus",
    "small",
    "one",
    "zero",
    "big",
    "float",
    "none",
    "true",
    "bytes",
    "upper",
    "join",
]


def arguments() -> dict[str, Any]:
    """By name; all of the values, and some that only make sense beside one."""
    return values() | {
        "needle": "ab" + "a" * (N // 2),
        "format_date": "%Y" * (N // 2),
        "id": "id",
        "upper": "upper",
        "join": "join",
        "table": {97: "b" * 1_000, 32: "c" * 1_000},
    }


class Combination(NamedTuple):
    """One operation on one value, perhaps with one argument."""

    operation: str
    text: str
    value: str
    argument: str | None

    def __str__(self) -> str:
        return f"{self.operation}: {self.value}" + (f", {self.argument}" if self.argument else "")


def operations() -> list[tuple[str, str, bool]]:
    """A name, the template, and whether it takes an argument `w` beside the value `v`."""
    found: list[tuple[str, str, bool]] = []
    for name in sorted(scopes.FILTERS):
        found.append((f"|{name}", f"{{{{ v | {name} }}}}", False))
        found.append((f"|{name}(w)", f"{{{{ v | {name}(w) }}}}", True))
        found.append((f"|{name}(w, w)", f"{{{{ v | {name}(w, w) }}}}", True))
    for name in sorted(scopes.TESTS):
        if name.isalpha():
            found.append((f"is {name}", f"{{{{ v is {name} }}}}", False))
            found.append((f"is {name}(w)", f"{{{{ v is {name}(w) }}}}", True))
        found.append((f"select {name}", f"{{{{ v | select('{name}', w) | list }}}}", True))
    for name in sorted({name for methods in METHODS.values() for name in methods}):
        found.append((f".{name}()", f"{{{{ v.{name}() }}}}", False))
        found.append((f".{name}(w)", f"{{{{ v.{name}(w) }}}}", True))
        found.append((f".{name}(w, w)", f"{{{{ v.{name}(w, w) }}}}", True))
    for sign in (*BINARY, *ORDER, "in", "not in", "~", "and", "or"):
        found.append((f"v {sign} w", f"{{{{ v {sign} w }}}}", True))
        found.append((f"w {sign} v", f"{{{{ w {sign} v }}}}", True))
    for name in sorted(GLOBALS):
        found.append((f"{name}(v)", f"{{{{ {name}(v) }}}}", False))
        found.append((f"{name}(*v)", f"{{{{ {name}(*v) }}}}", False))
        found.append((f"{name}(**v)", f"{{{{ {name}(**v) }}}}", False))
        found.append((f"{name}(v, w)", f"{{{{ {name}(v, w) }}}}", True))
    found += [(name, text, " w" in text or "(w" in text or "[w" in text or ":w" in text) for name, text in _OTHERS]
    return found


_OTHERS = [
    ("v", "{{ v }}"),
    ("v in text", "x{{ v }}"),
    ("-v", "{{ -v }}"),
    ("not v", "{{ not v }}"),
    ("v[w]", "{{ v[w] }}"),
    ("v[w:]", "{{ v[w:] }}"),
    ("v[::w]", "{{ v[::w] }}"),
    ("[v, v]", "{{ [v, v, v, v, v, v, v, v] }}"),
    ("[v] == [w]", "{{ [v] == [ w] }}"),
    ("[v] in [[w]]", "{{ [v] in [[ w], [ w]] }}"),
    ("{v: v}", "{{ {v: v} }}"),
    ("{'k': v}", "{{ {'k': v} }}"),
    ("v if v else w", "{{ v if v else w }}"),
    ("v == 'text'", "{{ v == 'text' }}"),
    ("v in (1, 'a')", "{{ v in (1, 'a', 2) }}"),
    ("1 < v < w", "{{ v <= v <= w }}"),
    ("for", "{% for x in v %}{{ x }}{% endfor %}"),
    ("for if", "{% for x in v if x %}{{ loop.index }}{% endfor %}"),
    ("for x, y", "{% for x, y in v %}{{ x }}{% endfor %}"),
    ("for in for", "{% for x in v %}{% for y in v %}{% endfor %}{% endfor %}"),
    ("loop.changed", "{% for x in [v, v, v, v] %}{{ loop.changed(x) }}{% endfor %}"),
    ("loop.cycle", "{% for x in [1, 2] %}{{ loop.cycle(v, v) }}{% endfor %}"),
    ("set block", "{% set x %}{{ v }}{% endset %}{{ x }}"),
    ("with", "{% with x = v %}{{ x }}{% endwith %}"),
    ("filter block", "{% filter upper %}{{ v }}{% endfilter %}"),
    ("namespace", "{% set ns = namespace(x=v) %}{% set ns.y = v %}{{ ns }}"),
    ("select", "{{ v | selectattr('id') | list }}"),
    ("map attribute", "{{ v | map(attribute='id') | list }}"),
    ("map default", "{{ v | map(attribute='id', default=v) | list }}"),
    ("map string", "{{ v | map('string') | list }}"),
    ("map list", "{{ v | map('list') | list }}"),
    ("map jsonpath", "{{ v | map('jsonpath', '$..*') | list }}"),
    ("map tojson", "{{ v | map('tojson') | list }}"),
    ("sort attribute", "{{ v | sort(attribute='name,id') }}"),
    ("sort case", "{{ v | sort(case_sensitive=true) }}"),
    ("unique case", "{{ v | unique(case_sensitive=true) | list }}"),
    ("unique attribute", "{{ v | unique(attribute='name') | list }}"),
    ("groupby", "{{ v | groupby('name') }}"),
    ("groupby default", "{{ v | groupby('name', default='') }}"),
    ("sum", "{{ v | sum(attribute='id') }}"),
    ("sum start", "{{ v | sum(start=[]) }}"),
    ("max attribute", "{{ v | max(attribute='id') }}"),
    ("dictsort value", "{{ v | dictsort(by='value') }}"),
    ("join attribute", "{{ v | join(', ', attribute='name') }}"),
    ("batch", "{{ v | batch(2) | list }}"),
    ("batch fill", "{{ v | batch(100000, v) | list }}"),
    ("slice", "{{ v | slice(2) | list }}"),
    ("indent first", "{{ v | indent(16, true, true) }}"),
    ("wordwrap", "{{ v | wordwrap(10, wrapstring=v) }}"),
    ("wordwrap 1", "{{ v | wordwrap(1) }}"),
    ("truncate", "{{ v | truncate(100000, true, w) }}"),
    ("urlize", "{{ v | urlize(10, true, rel=v) }}"),
    ("tojson indent", "{{ v | tojson(16) }}"),
    ("to_json indent", "{{ v | to_json(indent=16) }}"),
    ("replace count", "{{ v | replace('a', w, 100000) }}"),
    ("format", "{{ '%s' | format(v) }}"),
    ("%s", "{{ '%s' % v }}"),
    ("%r", "{{ '%r' % v }}"),
    ("%d", "{{ '%d' % v }}"),
    ("%x", "{{ '%x' % v }}"),
    ("%10000d", "{{ '%10000d' % v }}"),
    ("%.9000f", "{{ '%.9000f' % v }}"),
    ("% tuple", "{{ '%s%s%s%s' % (v, v, v, v) }}"),
    ("% map", "{{ '%(a)s%(a)s' % {'a': v} }}"),
    ("format braces", "{{ '{}{}'.format(v, v) }}"),
    ("format !r", "{{ '{0!r}'.format(v) }}"),
    ("format width", "{{ '{:>10000}'.format(v) }}"),
    ("format nested", "{{ '{:{}}'.format(1, v) }}"),
    ("format deep", "{{ '{0[a][a][a]}'.format(v) }}"),
    ("'a'.join(v)", "{{ 'a'.join(v) }}"),
    ("v.join(twins)", "{{ v.join(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']) }}"),
    ("int base", "{{ v | int(0, 36) }}"),
    ("int default", "{{ v | int(v) }}"),
    ("round", "{{ v | round(1000) }}"),
    ("sort reverse", "{{ v | sort(true) | first }}"),
    ("xmlattr", "{{ {'a': v, 'b': v} | xmlattr }}"),
    ("f(v)", "{{ f(v) }}"),
    ("f(*v)", "{{ f(*v) }}"),
    ("f(**v)", "{{ f(**v) }}"),
]


def combinations() -> Iterator[Combination]:
    """All of them, a few hundred thousand."""
    for operation, text, binary in operations():
        for value in values():
            if not binary:
                yield Combination(operation, text, value, None)
            else:
                for argument in ARGUMENTS:
                    yield Combination(operation, text, value, argument)


class Outcome(NamedTuple):
    """What an evaluation came to, and what was charged for it."""

    error: Exception | None
    steps: int
    size: int


class _Recording(Evaluation):
    __slots__ = ()
    last: Evaluation

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        _Recording.last = self


def evaluate(one: Combination, scope: dict[str, Any], budget: Budget = DEFAULT_BUDGET) -> Outcome:
    """Evaluate it, and see what was charged."""
    given = {"v": scope[one.value], "w": scope[one.argument] if one.argument else None, "f": scope["function"]}
    original, templates.Evaluation = templates.Evaluation, _Recording  # type: ignore[misc]
    try:
        template(one.text).evaluate(given, budget)
        error = None
    except Exception as found:  # noqa: BLE001  what may leave an evaluation is for the caller to judge
        error = found
    finally:
        templates.Evaluation = original  # type: ignore[misc]
    last = _Recording.last
    return Outcome(error, budget.steps - last.steps, budget.size - last.size)
