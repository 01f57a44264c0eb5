"""SQL is bound, never spliced."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from noetl.errors import TemplateError, UndefinedValue
from noetl.expr.embedded.sql_template import compile_sql

SCOPES: dict[str, Any] = {
    "t": "numbers",
    "dotted": "public.users",
    "bad": "numbers; DROP TABLE numbers",
    "region": "eu",
    "year": 2024,
    "n": 41,
    "who": "D'Arcy",
    "d": "2024-01-01",
    "order": "n DESC",
    "nothing": None,
    "list": [1, "a"],
}


def numbered(text: str, params: dict[str, Any] | None = None) -> tuple[str, list[Any]]:
    return compile_sql(text).render(SCOPES, "$1", params)


@pytest.mark.parametrize(
    ("text", "sql", "params"),
    [
        ("SELECT {{ who }} AS name, {{ n }} + 1", "SELECT $1 AS name, $2 + 1", ["D'Arcy", 41]),
        ("SELECT {{ nothing }}, {{ list }}", "SELECT $1, $2", [None, [1, "a"]]),
        ("SELECT 'hi {{ who }}!' AS s", "SELECT $1 AS s", ["hi D'Arcy!"]),
        ("SELECT '{{ n }}', 'it''s {{ nothing }}{{ list }}'", "SELECT $1, $2", ["41", 'it\'s [1, "a"]']),
        (r"SELECT E'a\n\'{{ n }}\x41\u00e9\101'", "SELECT $1", ["a\n'41AéA"]),
        ("SELECT N'{{ n }}'", "SELECT $1", ["41"]),
        ("SELECT $$it's {{ who }} :x$$, $f$ {{ n }} $$ $f$", "SELECT $1, $2", ["it's D'Arcy :x", " 41 $$ "]),
        ("SELECT * FROM {{ t }}", 'SELECT * FROM "numbers"', []),
        ("SELECT * FROM {{ dotted }} u", 'SELECT * FROM "public"."users" u', []),
        ("INSERT INTO {{ t }} VALUES ({{ n }})", 'INSERT INTO "numbers" VALUES ($1)', [41]),
        ("UPDATE ONLY {{ t }} SET a = {{ n }}", 'UPDATE ONLY "numbers" SET a = $1', [41]),
        ("CREATE TABLE IF NOT EXISTS {{ t }} (a int)", 'CREATE TABLE IF NOT EXISTS "numbers" (a int)', []),
        ("drop schema if exists {{ t }}", 'drop schema if exists "numbers"', []),
        ("SELECT 1 FROM a JOIN {{ t }} ON true", 'SELECT 1 FROM a JOIN "numbers" ON true', []),
        ("CREATE INDEX CONCURRENTLY {{ t }} ON x (y)", 'CREATE INDEX CONCURRENTLY "numbers" ON x (y)', []),
        ("SELECT n FROM /* c */ {{ t }}", 'SELECT n FROM /* c */ "numbers"', []),
        ("SELECT n FROM sales_{{ region }}_{{ year }}", 'SELECT n FROM "sales_eu_2024"', []),
        (
            "SELECT s.{{ region }}, {{ region }}.b FROM {{ dotted }}.x s",
            'SELECT s."eu", "eu".b FROM "public"."users".x s',
            [],
        ),
        ('SELECT "{{ dotted }}", "col {{ year }}"', 'SELECT "public"."users", "col 2024"', []),
        ("SELECT 1 ORDER BY {{ order | sql }}", "SELECT 1 ORDER BY n DESC", []),
        ("SELECT a{{ region | sql }}b", "SELECT aeub", []),
        ("SELECT {{ n }}::int, a::text, '{{ n }}'::int", "SELECT $1::int, a::text, $2::int", [41, "41"]),
        ("SELECT 1 -- {{ nowhere }} it's\n, {{ n }}", "SELECT 1 --  it's\n, $1", [41]),
        ("SELECT /* {{ nowhere }} /* {{ n }} */ ' */ {{ n }}", "SELECT /*  /*  */ ' */ $1", [41]),
        ("SELECT a IS NOT DISTINCT FROM {{ n }}", "SELECT a IS NOT DISTINCT FROM $1", [41]),
        (
            "SELECT EXTRACT(YEAR FROM {{ d }}) FROM {{ t }}",
            'SELECT EXTRACT(YEAR FROM $1) FROM "numbers"',
            ["2024-01-01"],
        ),
        ("SELECT DATE '{{ d }}', INTERVAL '{{ n }}' DAY", "SELECT DATE '2024-01-01', INTERVAL '41' DAY", []),
        ("SELECT TIMESTAMP WITH TIME ZONE '{{ d }}'", "SELECT TIMESTAMP WITH TIME ZONE '2024-01-01'", []),
        ("SELECT * FROM '{{ who }}.csv'", "SELECT * FROM 'D''Arcy.csv'", []),
        ("SELECT 5 -{{ n }}, 'a'{{ n }}'b'", "SELECT 5 - $1, 'a' $1 'b'", [41]),
        ("SELECT arr[1:{{ n }}], arr[1:2], {'a':1}", "SELECT arr[1:$1], arr[1:2], {'a':1}", [41]),
        ("SELECT 1; SELECT {{ n }};", "SELECT 1; SELECT $1;", [41]),
        (
            "SELECT 1 FROM {{ t }}, {{ dotted }} WHERE a IN ({{ n }}, {{ n }})",
            'SELECT 1 FROM "numbers", "public"."users" WHERE a IN ($1, $1)',
            [41],
        ),
        ("UPDATE {{ t }} SET a = {{ n }}, b = {{ n }}", 'UPDATE "numbers" SET a = $1, b = $1', [41]),
        ("SELECT 1 /* *{{ n }}/ */", "SELECT 1 /* * / */", []),
        ("", "", []),
    ],
)
def test_where_a_template_stands_decides_what_becomes_of_it(text: str, sql: str, params: list[Any]) -> None:
    assert compile_sql(text).problems == ()
    assert numbered(text) == (sql, params)


def test_names_are_bound_from_params_outside_of_literals_and_comments() -> None:
    text = "SELECT :a, %(b)s, ':a %(b)s', $$:a$$, x::a, y[1:2] -- :a\n/* :a */ , \":a\", :a"
    sql, params = numbered(text, {"a": "it's", "b": 5})
    assert sql == "SELECT $1, $2, ':a %(b)s', $$:a$$, x::a, y[1:2] -- :a\n/* :a */ , \":a\", $1"
    assert params == ["it's", 5]
    assert compile_sql(text).names == {"a", "b"}


def test_equal_expressions_are_one_parameter_however_they_are_spaced() -> None:
    text = "SELECT n // {{ n }}, '{{ who }}!' FROM x GROUP BY n // {{n}}, '{{ who }}!', {{ n + 0 }}, '{{ n }}'"
    assert numbered(text) == (
        "SELECT n // $1, $2 FROM x GROUP BY n // $1, $2, $3, $4",
        [41, "D'Arcy!", 41, "41"],
    )
    decided = "SELECT {{ n }}{% if n %}, {{n}}{% endif %}{% for v in [1, 2] %}, {{ v }}{% endfor %}"
    assert numbered(decided) == ("SELECT $1, $1, $2, $3", [41, 1, 2])


def test_an_expression_that_yields_another_value_each_time_is_no_shared_parameter() -> None:
    values = iter(range(9))
    sql, params = compile_sql("SELECT {{ uuid() }}, {{ uuid() }}").render({"uuid": lambda: next(values)}, "$1")
    assert (sql, params) == ("SELECT $1, $2", [0, 1])


def test_a_driver_may_keep_values_apart() -> None:
    bound = compile_sql("SELECT {{ n }}, {{ n }}, {{ who }}, {{ who }}").bind(SCOPES)
    assert bound.render("$1", shares=lambda value: isinstance(value, int))[0] == "SELECT $1, $1, $2, $3"


def test_in_the_percent_style_every_literal_percent_is_doubled() -> None:
    assert compile_sql("SELECT 5 % 2, 'a%' LIKE {{ who }}, {{ p | sql }}").render({**SCOPES, "p": "7 % 3"}, "%s") == (
        "SELECT 5 %% 2, 'a%%' LIKE %s, 7 %% 3",
        ["D'Arcy"],
    )


@pytest.mark.parametrize("name", ["bad", "who", "n", "nothing", "list", "empty", "dots", "digit", "quote"])
def test_a_value_that_is_no_plain_identifier_is_refused_where_a_name_stands(name: str) -> None:
    scopes = {**SCOPES, "empty": "", "dots": "a..b", "digit": "1a", "quote": 'a"b'}
    with pytest.raises(TemplateError, match=name) as caught:
        compile_sql("SELECT * FROM {{ " + name + " }}").render(scopes, "$1")
    assert caught.value.kind == "sql"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x_{{ bad }}",
        'SELECT "x {{ bad }}"',
        'SELECT "{{ bad }}"',
        "SELECT {{ bad }}.x",
        "SELECT {{ bad }}{{ bad }}",
    ],
)
def test_a_hostile_value_is_refused_wherever_it_would_be_part_of_a_name(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        numbered(text)
    assert caught.value.kind == "sql"


def test_a_missing_parameter_and_an_undefined_are_errors() -> None:
    with pytest.raises(TemplateError, match="`a`"):
        numbered("SELECT :a")
    with pytest.raises(UndefinedValue, match="zz"):
        numbered("SELECT '{{ t.zz }}'")
    with pytest.raises(TemplateError):
        numbered("SELECT {{ 1 + }}")


def test_statements_decide_on_the_text_and_values_are_still_bound() -> None:
    text = "SELECT 1 WHERE true{% for v in list %} {% if loop.first %}AND{% else %}OR{% endif %} a = {{ v }}{% endfor %} AND '{{ who }}' = b{% filter upper %}{{ who }}{% endfilter %}"
    with pytest.raises(TemplateError):
        numbered(text)  # glued to `b`, the filtered text is a name
    sql, params = numbered(text.replace("b{% filter", "b, {% filter"))
    assert sql == "SELECT 1 WHERE true AND a = $1 OR a = $2 AND $3 = b, $4"
    assert params == [1, "a", "D'Arcy", "D'ARCY"]
    assert compile_sql(text).parts is None


def test_a_driver_that_cannot_bind_asks_for_the_parts_or_for_literals() -> None:
    query = compile_sql("CREATE TABLE {{ t }} (a int); INSERT INTO {{ t }} VALUES ({{ n }}, ';', '{{ who }}');\n").bind(
        SCOPES
    )
    assert query.verbs == ("CREATE", "INSERT")
    first, second = query.statements()
    assert first.render("$1") == ('CREATE TABLE "numbers" (a int)', [])
    assert second.render("$1")[1] == [41, "D'Arcy"]
    assert second.render("$1", quote=lambda value: f"<{value}>")[0].endswith("VALUES (<41>, ';', <D'Arcy>)")


def test_reads_problems_and_filters_are_told_comments_left_out() -> None:
    found = compile_sql("SELECT {{ a.b }}, '{{ c | sql }}' -- {{ d }}\n, {{ x | nope }}")
    assert [read.path for read in found.reads] == [("a", "b"), ("c",), ("x",)]
    assert found.filters == {"sql", "nope"}
    assert [p.code for p in found.problems] == ["unknown-filter"]


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT {{ n }}, 'abc", "'abc"),
        ("SELECT {{ n }} /* x", "/* x"),
        ("SELECT $$ {{ n }}", "$$"),
        ("SELECT {{ n }}, B'{{ n }}'", "B'"),
    ],
)
def test_quotes_and_comments_that_do_not_close_are_problems(text: str, at: str) -> None:
    (problem,) = compile_sql(text).problems
    assert text[problem.offset :].startswith(at)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "DO $$ BEGIN RAISE NOTICE 'by {{ who }}'; END $$",
            "DO ' BEGIN RAISE NOTICE ''by D''''Arcy''; END '",
        ),
        ("DO $$ BEGIN x := {{ n }}; y := :n; END $$;", "DO ' BEGIN x := 41; y := :n; END ';"),
        ("DO LANGUAGE plpgsql 'x := ''{{ who }}''; '", "DO LANGUAGE plpgsql 'x := ''D''''Arcy''; '"),
        (
            "DO $$ DELETE FROM {{ t }} WHERE a = {{ list }} -- {{ who }}\n$$",
            """DO ' DELETE FROM "numbers" WHERE a = ''[1, "a"]'' -- \n'""",
        ),
        (
            "CREATE FUNCTION f() RETURNS text AS $f$ SELECT '{{ who }}' $f$ LANGUAGE sql; SELECT $$ '{{ who }}' $$",
            "CREATE FUNCTION f() RETURNS text AS ' SELECT ''D''''Arcy'' ' LANGUAGE sql; SELECT $1",
        ),
        ("DO $$ x := '{{ '$$; DROP' }}' $$", "DO ' x := ''$$; DROP'' '"),
    ],
)
def test_a_value_inside_of_a_body_is_a_literal_of_that_code(text: str, expected: str) -> None:
    assert not compile_sql(text).problems
    assert numbered(text)[0] == expected


def test_a_drivers_own_quoting_holds_inside_of_a_body_too() -> None:
    query = compile_sql("DO $$ x := '{{ who }}' $$").bind(SCOPES)
    assert query.render("%s", quote=lambda value: f"<{value}>%")[0] == "DO < x := <D'Arcy>%% >%%"


@pytest.mark.parametrize(
    "text",
    [
        "DO LANGUAGE plpython3u $$ x = '{{ who }}' $$",
        "CREATE FUNCTION f() RETURNS text AS $$ return '{{ who }}' $$ LANGUAGE 'plpython3u'",
    ],
)
def test_a_body_in_another_language_takes_no_template(text: str) -> None:
    (problem,) = compile_sql(text).problems
    assert "plpython3u" in problem.message
    for source in (text, text + "{% if true %} {% endif %}"):
        with pytest.raises(TemplateError, match="plpython3u"):
            numbered(source)


SHAPES = [
    "DO $q$ BEGIN SELECT {{ v }}, 'x{{ v }}y', $r${{ v }}$r$; END $q$",
    "SELECT {{ v }} FROM t WHERE a={{ v }} AND b IN ({{ v }},{{ v }})",
    "SELECT 'x{{ v }}y', E'{{ v }}\\n', $q${{ v }}$q$, DATE '{{ v }}' FROM '{{ v }}'",
    "INSERT INTO {{ v }} (a) VALUES (-{{ v }}, 'z'{{ v }})",
    'SELECT t_{{ v }}, "{{ v }}", "a {{ v }}" FROM {{ v }}.x JOIN {{ v }} ON {{ v }}::text = :v -- {{ v }}',
    "SELECT 1 /* {{ v }} */ % {{ v }}; DELETE FROM {{ v }}",
]
_TOKENS = re.compile(
    r"""--[^\n]*|/\*.*?\*/|[eE]?'(?:[^']|'')*'|"(?:[^"]|"")*"|\$q\$.*?\$q\$|\$\d+|%s|%%|::|\w+|\S""", re.DOTALL
)


def structure(sql: str) -> list[str]:
    """The tokens of a statement, with the inside of quotes left out."""
    return [re.sub(r"^([eE]?['\"]).*$", r"\1", token, flags=re.DOTALL) for token in _TOKENS.findall(sql)]


hostile = st.one_of(
    st.text(st.sampled_from("'\"\\;-/*$:%() \n\tab1_.q\u00e9\u2019"), max_size=12),
    st.sampled_from(
        [
            "'; DROP TABLE t; --",
            "\\'; --",
            "$q$; --",
            "a.b",
            "*/ 1",
            ":v",
            "%(v)s",
            "%s",
            "$1",
            '" OR 1=1',
            "x\x00y",
            "\ufeff",
        ]
    ),
    st.integers(-(10**20), 10**20),
    st.none(),
    st.booleans(),
    st.lists(st.text(max_size=3), max_size=2),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SHAPES), hostile, st.sampled_from(["$1", "%s"]))
@example(SHAPES[2], -5, "$1")
def test_no_value_changes_what_a_statement_is(text: str, value: Any, style: Any) -> None:
    def shape(of: Any, *, inlined: bool) -> list[str]:
        query = compile_sql(text).bind({"v": of}, {"v": of})
        literal = (
            (
                lambda v: (
                    str(v) if isinstance(v, int) and not isinstance(v, bool) else "'" + str(v).replace("'", "''") + "'"
                )
            )
            if inlined
            else None
        )
        return structure(query.render(style, literal)[0])

    harmless = shape("abc", inlined=False)
    try:
        found = shape(value, inlined=False)
    except TemplateError:
        return
    dots = str(value).count(".")  # a dotted name is several names
    assert [token for token in found if token not in ('"', ".")] == [
        token for token in harmless if token not in ('"', ".")
    ]
    assert found.count('"') - harmless.count('"') <= dots * 6
    inlined = [token for token in shape(value, inlined=True) if token.startswith("--")]
    assert len(inlined) == sum(token.startswith("--") for token in harmless)


def test_a_path_binds_what_is_there_and_nothing_is_copied() -> None:
    rows = [{"id": 1, "deep": [1.5, {"a": None}]}]
    for text in ("{{ _prev.rows }}", "{{ _prev['rows'] }}", "{{ pages[0]['rows'] }}"):
        _, (bound,) = compile_sql(f"SELECT {text}").render({"_prev": {"rows": rows}, "pages": [{"rows": rows}]}, "$1")
        assert bound is rows


@pytest.mark.parametrize("text", ["{{ made['a'] | list }}", "{{ [made['a'], 1e308 * 10] }}", "{{ {'a': 1e308 * 10} }}"])
def test_what_an_expression_makes_is_checked_before_it_is_bound(text: str) -> None:
    with pytest.raises(TemplateError):
        compile_sql(f"SELECT {text}").render({"made": {"a": [float("nan"), 2]}}, "$1")


@pytest.mark.parametrize(
    ("spliced", "statements"),
    [
        ("INSERT INTO t VALUES (1);\nINSERT INTO t VALUES ('a;b', ':n');", 2),
        ("DO $$ BEGIN PERFORM 1; END $$; SELECT 2 -- ;\n; ;", 2),
        ("SELECT 1", 1),
        ("SELECT 'not closed; SELECT 2", 1),
    ],
)
def test_text_that_is_inserted_as_it_is_may_be_several_statements(spliced: str, statements: int) -> None:
    found = compile_sql("{{ w | sql }}").bind({"w": spliced}).statements()
    assert len(found) == statements
    assert "".join(one.render("$1")[0] for one in found).replace(";", "").strip().startswith(spliced[:8])
    assert all(one.render("$1")[1] == [] for one in found)
