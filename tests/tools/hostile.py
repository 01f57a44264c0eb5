"""Values that would like to be SQL, and the places where they can stand: one corpus for every database."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

HOSTILE = [
    "'; DROP TABLE canary; --", "' OR '1'='1", "\\'; DROP TABLE canary; --", '"; DROP TABLE canary; --', "$$; DROP TABLE canary; $$",
    "*/ DROP TABLE canary /*", "-- ", "); DROP TABLE canary; SELECT (1", "{{ workload }}", "%(x)s", ":x", "$1", "?", "a\x00b", "", "''",
    "é🦆\u202e", "\n", "%", "_", "NULL", "1; DROP TABLE canary", "E'\\x41'", "chr(39)", "U&'\\0041'", "$tag$ x $tag$", "{'a': 1}", "[1]",
    "\\", "\\\\", "\\u0027", "\\'", "\u2019", "\uff07; DROP TABLE canary", "'||(SELECT 1)||'", "%s", "%%", "!_%", "{1,2}", '{"a,b"}', "x" * 5000,
]  # fmt: skip
#: where a value can stand, and come back as `v`
EVERYWHERE = {
    "bare": "SELECT {{ workload.v }} AS v",
    "in a literal": "SELECT '{{ workload.v }}' AS v",
    "amid a literal": "SELECT substr('<{{ workload.v }}>', 2, length('<{{ workload.v }}>') - 2) AS v",
    "beside quotes": "SELECT substr('it''s {{ workload.v }}', 6) AS v",
    "in a dollar quote": "SELECT $${{ workload.v }}$$ AS v",
    "in a dollar quote with a name": "SELECT $tag${{ workload.v }}$tag$ AS v",
    "in a literal with escapes": "SELECT E'{{ workload.v }}' AS v",
    "cast": "SELECT CAST({{ workload.v }} AS VARCHAR) AS v",
    "cast briefly": "SELECT {{ workload.v }}::VARCHAR AS v",
    "cast in a literal": "SELECT '{{ workload.v }}'::VARCHAR AS v",
    "put together": "SELECT {{ workload.v }} || '' AS v",
    "in a list": "SELECT v FROM (VALUES ({{ workload.v }}), ('other')) t(v) WHERE v IN ({{ workload.v }}, 'nothing')",
    "as a list": "SELECT v FROM (VALUES ({{ workload.v }}), ('other')) t(v) WHERE v IN {{ workload.list }}",
    "in a pattern": (
        "SELECT v FROM (VALUES ({{ workload.v }}), ('other')) t(v) "
        "WHERE v LIKE replace(replace(replace({{ workload.v }}, '!', '!!'), '%', '!%'), '_', '!_') ESCAPE '!'"
    ),
    "beside a comment": "SELECT {{ workload.v }} AS v -- {{ workload.v }}\n/* {{ workload.v }} /* {{ workload.v }} */ */",
    "as json": "SELECT {{ workload.map }} ->> 'v' AS v",
    "as json text": "SELECT CAST('{{ workload.map | tojson }}' AS JSON) ->> 'v' AS v",
    "in a where": "SELECT v FROM (SELECT {{ workload.v }} AS v) t WHERE v = {{ workload.v }}",
    "by its name": "SELECT :v AS v",
    "by its other name": "SELECT %(v)s AS v",
    "in a view": "CREATE VIEW w AS SELECT {{ workload.v }} AS v; SELECT v FROM w",
    "in a default": "CREATE TABLE d (n INT, v VARCHAR DEFAULT {{ workload.v }}); INSERT INTO d (n) VALUES (1); SELECT v FROM d",
    "in several statements": "CREATE TABLE d (v VARCHAR); INSERT INTO d VALUES ({{ workload.v }}); SELECT v FROM d",
}
#: what is no name, and where names stand
NAMES = [
    "canary; DROP TABLE canary",
    'a"b',
    "a b",
    "a--",
    "",
    "1a",
    "a.b;c",
    "'x'",
    "a\x00b",
    "a/**/b",
    "a.",
    ".a",
    "a(b)",
]
NAMED = [
    "SELECT * FROM {{ workload.t }}",
    "CREATE TABLE {{ workload.t }} (n INT)",
    "SELECT * FROM pre_{{ workload.t }}_post",
    'SELECT * FROM "{{ workload.t }}x"',
]
_PIECES = [
    "'",
    '"',
    "--",
    "/*",
    "*/",
    "$$",
    ";",
    "\\",
    "$1",
    ":x",
    "\n",
    "é",
    " ",
    "DROP TABLE canary",
    "{{",
    "\x00",
    "E'",
    "::",
    "{",
    "}",
]
#: any text, with more of what is special than chance would give it
TEXTS = st.lists(
    st.one_of(st.sampled_from(_PIECES), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)), max_size=8
).map("".join)


def around(query: str, value: str) -> dict[str, Any]:
    """What a task with a value in it is told."""
    named = ":v " in query or "%(" in query
    return {
        "workload": {"v": value, "list": [value, "nothing"], "map": {"v": value}},
        "params": {"v": "{{ workload.v }}"} if named else {},
    }
