"""No template runs long or grows large, and nothing of Python can be reached from one."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr import Budget, guard, template

#: far more than any of these takes, because machines that run tests are busy
SECONDS = 60.0
MEGABYTES = 64

NESTED = "{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}"
TUPLES = "{% set ns = namespace(x=(1,)) %}{% for i in range(40) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}"
BIG_LIST = "{% set big = range(100000) | list %}{% for i in range(100000) %}"
BIG_TEXT = "{% set big = 'ab' * 1000000 %}{% for i in range(100000) %}"

BOMBS = [
    "{{ 'a' * 10**9 }}",
    "{{ [0] * 10**9 }}",
    "{{ 10 ** (10 ** 8) }}",
    "{{ range(10**9) | list }}",
    "{{ range(10**9) }}",
    "{{ range(10**12) | sum }}",
    "{{ range(10**9) | map('string') | join }}",
    "{% for a in range(90000) %}{% for b in range(90000) %}xxxxxxxxxx{% endfor %}{% endfor %}",
    "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}",
    "{{ 'a'.center(10**9) }}",
    "{{ 'a'.ljust(10**9) }}",
    "{{ 'a'.zfill(10**9) }}",
    "{{ '\\t'.expandtabs(10**9) }}",
    "{{ ('a' * 1000000).join('b' * 1000000) }}",
    "{{ ('a' * 1000000).replace('a', 'b' * 1000) }}",
    "{{ ('a' * 1000).translate({97: 'b' * 50000}) }}",
    "{{ 'a' | center(10**9) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%.1000000000f' | format(1.0) }}",
    "{{ '{:>1000000000}'.format(1) }}",
    "{{ '{:{w}}'.format(1, w=10**9) }}",
    "{{ 'a\nb' | indent(10**9) }}",
    "{{ 'a\nb' | indent('x' * 3000000) }}",
    "{{ ('a ' * 20000) | wordwrap(1, wrapstring='x' * 1000) }}",
    "{{ ('a' * 1000000) | wordwrap(1) }}",
    "{{ [1] | batch(10**9, 0) | list }}",
    "{{ range(200000) | batch(1) | list }}",
    "{{ [1] | slice(10**9) | list }}",
    "{{ lipsum(10**7) }}",
    "{{ 5 | round(-10**9) }}",
    "{{ ('f' * 1000000) | int(base=16) }}",
    "{{ ('<!---->' * 500000) | striptags }}",
    "{{ ('a.' * 500000) | urlize }}",
    "{{ ([[1] * 1000] * 1000) | sum(start=[]) }}",
    "{{ ('[' * 100000 ~ ']' * 100000) | from_json }}",
    "{{ ('a' * 100000) | replace('', 'b' * 1000) }}",
    "{{ [3, 1, 2] | map('center', 10**9) | list }}",
    "{{ cycler(*range(10**8)).next() }}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x * 2 %}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
    "{% set ns = namespace(x=3) %}{% for i in range(100000) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns | string }}",
    NESTED + "{{ ns.x }}",
    NESTED + "{{ ns.x | tojson }}",
    NESTED + "{{ ns.x | string | length }}",
    NESTED + "{{ ns.x == ns.y }}",
    NESTED + "{{ ns.x in [ns.y] }}",
    NESTED + "{{ [ns.x, ns.y] | sort }}",
    TUPLES + "{{ '%s' % ns.x }}",
    TUPLES + "{{ '{}'.format(ns.x) }}",
    TUPLES + "{{ ns.x is lower }}",
    TUPLES + "{{ [ns.x] | unique }}",
    BIG_LIST + "{% set x = -1 in big %}{% endfor %}",
    BIG_LIST + "{% set x = big[1:] %}{% endfor %}",
    BIG_LIST + "{% set x = big | max %}{% endfor %}",
    BIG_LIST + "{% set x = big == big %}{% endfor %}",
    BIG_TEXT + "{% set x = big.find('c') %}{% endfor %}",
    BIG_TEXT + "{% set x = big | sha256 %}{% endfor %}",
    BIG_TEXT + "{% set x = 'c' in big %}{% endfor %}",
    BIG_TEXT + "{% set x = big | int %}{% endfor %}",
    "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "{{ 1" + "+1" * 20000 + " }}",
    "{{ a" + "[0]" * 5000 + " | default(1) }}",
]  # fmt: skip


@pytest.mark.parametrize("text", BOMBS)
def test_a_runaway_ends_with_template_limit_soon(text: str) -> None:
    began = time.process_time()
    with pytest.raises(TemplateLimit):
        template(text).evaluate({"a": []})
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize("text", [bomb for bomb in BOMBS if "{% set ns" not in bomb and "{% for" not in bomb])
def test_a_runaway_takes_little_memory(text: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(TemplateLimit):
            template(text).evaluate({"a": []}, Budget(steps=200_000))
        assert tracemalloc.get_traced_memory()[1] < MEGABYTES * 1_000_000
    finally:
        tracemalloc.stop()


def test_a_guard_is_bounded_as_well() -> None:
    with pytest.raises(TemplateLimit):
        guard("{{ range(10**9) | list | length > 3 }}").evaluate({})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TUPLES + "{{ {}.get(ns.x) }}{{ ns.x in {} }}{{ {}[ns.x] is defined }}", "falsefalse"),
        ("{{ '5' in range(10**9) }}", False),
        ("{{ 5.5 in range(10**9) }}", False),
        ("{{ 5.0 in range(10**9) }}", True),
        ("{{ range(10**12) | length }}", 10**12),
        ("{{ rows | map(attribute='id') | list | length }}", 100_000),
        ("{{ (rows | sort(attribute='id'))[0].id }}", 0),
        ("{% for r in rows %}{% if r.id == 99999 %}{{ r.id }}{% endif %}{% endfor %}", "99999"),
    ],
)
def test_what_only_looks_large_is_done(text: str, expected: Any) -> None:
    assert template(text).evaluate({"rows": [{"id": n, "name": "x"} for n in range(100_000)]}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() | length }}",
        "{{ [].__class__ }}",
        "{{ (1).__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ '' | attr('__class__') }}",
        "{{ f.__globals__ }}",
        "{{ f.__code__.co_code }}",
        "{{ f['__globals__'] }}",
        "{{ range.__init__ }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ namespace.__init__ }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{0[__class__]}'.format('') }}",
        "{{ '{x.__globals__}'.format(x=f) }}",
        "{{ '{x.__class__}'.format_map({'x': 1}) }}",
        "{{ ['']|map(attribute='__class__')|list }}",
        "{{ ['']|map('attr', '__class__')|list }}",
        "{{ [f]|selectattr('__globals__')|list }}",
        "{{ [1]|sort(attribute='__class__') }}",
        "{{ ''.format.__self__ }}",
        "{{ ''.upper.__func__ }}",
        "{{ self.__dict__ }}",
        "{{ {}.__init_subclass__() }}",
        "{{ lipsum.__globals__['os'] }}",
        "{{ joiner.__init__ }}",
        "{{ dict.mro() }}",
        "{{ f.mro() }}",
        "{{ ''.maketrans({}) }}",
        "{{ d.pop('a') }}",
        "{{ d.update({}) }}",
        "{{ d.clear() }}",
        "{{ d.setdefault('a', 1) }}",
        "{{ l.append(1) }}",
        "{{ l.sort() }}",
        "{% set d.x = 1 %}",
        "{% for x in l %}{{ loop._items }}{% endfor %}",
        "{% for x in l %}{{ loop.recurse(1) }}{% endfor %}",
    ],
)
def test_pythons_internals_and_anything_that_changes_data_are_out_of_reach(text: str) -> None:
    data: dict[str, Any] = {"f": lambda: 1, "d": {"a": 1}, "l": [1]}
    with pytest.raises(TemplateError):
        template(text).evaluate(data)
    assert data["d"] == {"a": 1}
    assert data["l"] == [1]


words = st.sampled_from(
    [
        "a",
        "b",
        "ctx.x",
        "rows",
        "f()",
        "range(5)",
        "namespace(q=1)",
        "loop",
        "[1,2]",
        "{'k':1}",
        "(1,)",
        "()",
        "'text'",
        "'%s'",
        "1",
        "0",
        "2.5",
        "-1",
        "none",
        "true",
        "|",
        "is",
        "not",
        "in",
        "and",
        "or",
        "if",
        "else",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "~",
        "==",
        "!=",
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ".",
        ",",
        ":",
        "=",
        "length",
        "default",
        "upper",
        "list",
        "sort",
        "map('upper')",
        "select('odd')",
        "join",
        "tojson",
        "first",
        "last",
        "int",
        "string",
        "sum",
        "batch(2)",
        "groupby('k')",
        "unique",
        "round",
        "replace('a','b')",
        "indent",
        "wordwrap(3)",
        "center(9)",
        "xmlattr",
        "urlize",
        "jsonpath('$..*')",
        "from_json",
        "sha256",
        "b64decode",
        "format(1)",
        "defined",
        "none",
        "odd",
        "mapping",
        "divisibleby(0)",
        "eq(1)",
        ".items()",
        ".get('k')",
        ".upper()",
        ".format(1)",
        ".join(rows)",
        ".index(1)",
        "[0]",
        "[1:]",
        "['k']",
        ".k",
        ".__class__",
        "{%for%}",
        "{%forxinrows%}",
        "{%endfor%}",
        "{%ifa%}",
        "{%else%}",
        "{%endif%}",
        "{%setq=a%}",
        "{%endset%}",
        "{{",
        "}}",
        "{#",
        "#}",
    ]
)
data = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.just("k"), st.text(max_size=3)), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=600, deadline=None)
@given(st.lists(words, max_size=10), data, data)
def test_nothing_but_template_error_ever_leaves_an_evaluation(parts: list[str], a: Any, rows: Any) -> None:
    scopes = {"a": a, "rows": rows, "ctx": {"x": a}, "f": lambda *_: 1}
    inner = " ".join(parts)
    small = Budget(steps=20_000, size=50_000)
    for text in (inner, "{{ " + inner + " }}", "x{{ " + inner + " }}"):
        found = template(text)
        assert isinstance(found.problems, tuple)
        assert isinstance(found.reads, tuple)
        with contextlib.suppress(TemplateError):
            found.evaluate(scopes, small)
    with contextlib.suppress(TemplateError):
        assert guard("{{ " + inner + " }}").evaluate(scopes, small) in (True, False)


filter_names = st.sampled_from(sorted(["abs", "attr", "batch", "capitalize", "center", "default", "dictsort", "e", "filesizeformat", "first", "float", "forceescape", "format", "groupby", "indent", "int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "pprint", "random", "reject", "rejectattr", "replace", "reverse", "round", "safe", "select", "selectattr", "slice", "sort", "string", "striptags", "sum", "title", "tojson", "trim", "truncate", "unique", "upper", "urlencode", "urlize", "wordcount", "wordwrap", "xmlattr", "to_json", "from_json", "sha256", "b64encode", "b64decode", "jsonpath", "sql", "raw"]))  # fmt: skip


@settings(max_examples=600, deadline=None)
@given(filter_names, filter_names, data, st.lists(data, max_size=3))
def test_any_filter_on_any_value_yields_data_or_a_template_error(
    one: str, other: str, value: Any, args: list[Any]
) -> None:
    scopes = {"v": value, "args": args}
    for text in (
        f"{{{{ v | {one} }}}}",
        f"{{{{ v | {one}(*args) | {other} }}}}",
        f"<{{{{ v | {other} | {one}(*args) }}}}>",
    ):
        with contextlib.suppress(TemplateError):
            template(text).evaluate(scopes, Budget(steps=20_000, size=50_000))


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("{}%#'\"-+ \nax.|()[]:,0é\\"), max_size=24))
def test_no_text_at_all_makes_compiling_raise(text: str) -> None:
    found = template(text)
    assert (found.problems, found.calls, found.filters, found.is_constant) is not None
    assert guard(text).problems is not None
