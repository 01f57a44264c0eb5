"""Tables of PostgreSQL: what their columns are, which types a new one gets, and what writes rows into one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from noetl.drivers.datahost import DataHostFailed
from noetl.rows.duck import make_distinct, name, names
from noetl.tools.transfer.chunks import Chunk, CsvChunk
from noetl.tools.transfer.column_types import (
    AlterationCheck,
    build_altered_condition,
    columns_of,
    refuse_altered,
    scale_of,
)
from noetl.tools.transfer.mapping import Column, MappedChunk
from noetl.tools.transfer.postgres_copy import CopiedChunk, PgClient

_COLUMNS = (
    "SELECT a.attname, format_type(a.atttypid, a.atttypmod), b.typname, b.typcategory = 'A', a.attnotnull, "
    "a.attidentity = 'a', CASE WHEN b.typname = 'numeric' AND m.mod >= 4 THEN ((m.mod - 4 & 2047) # 1024) - 1024 END "
    "FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid "
    "JOIN pg_type b ON b.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END "
    "CROSS JOIN LATERAL (SELECT CASE t.typtype WHEN 'd' THEN t.typtypmod ELSE a.atttypmod END AS mod) m "
    "WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
)
_UNIQUE = (
    "SELECT (SELECT array_agg(a.attname::text) FROM pg_attribute a WHERE a.attrelid = i.indrelid "
    "AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1])) FROM pg_index i WHERE i.indrelid = $1 AND i.indisunique "
    "AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL"
)
#: the numbering of rows in a stage, so that the last of those with equal keys is known
_NUMBER = "noetl_row_number"
#: tables are made by one transfer at a time
_MAKING = 6_038_477_211
_TYPES = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "UTINYINT": "smallint",
    "USMALLINT": "integer",
    "UINTEGER": "bigint",
    "UBIGINT": "numeric(20,0)",
    "HUGEINT": "numeric(39,0)",
    "UHUGEINT": "numeric(39,0)",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIME": "time",
    "TIME WITH TIME ZONE": "time with time zone",
    "TIMETZ": "time with time zone",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    "TIMESTAMPTZ": "timestamp with time zone",
    "INTERVAL": "interval",
    "UUID": "uuid",
    "JSON": "jsonb",
    "BLOB": "bytea",
    "BIT": "bit varying",
}
_ALL_DIGITS = "38"
_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_NESTED = ("STRUCT(", "MAP(", "UNION(")


class PgTableColumn(NamedTuple):
    """A column of a table."""

    name: str
    spelled: str
    #: the name of its type in the catalogue
    type: str
    is_array: bool = False
    not_null: bool = False
    #: it numbers its rows, and takes a number only from who insists
    insists: bool = False
    #: of `numeric`: so many digits behind the point, and others are rounded; None: as many as there are
    scale: int | None = None


class PgTable(NamedTuple):
    """A table that is there."""

    schema: str
    name: str
    columns: Mapping[str, PgTableColumn]

    @property
    def quoted(self) -> str:
        return f"{name(self.schema)}.{name(self.name)}"

    def match_columns(self, mapped: MappedChunk) -> list[PgTableColumn]:
        """Where the columns of rows go. Failing: one of them has no place."""
        lower: dict[str, list[PgTableColumn]] = {}
        for key, one in self.columns.items():
            lower.setdefault(key.lower(), []).append(one)
        found = []
        for column in mapped.columns:
            alike = lower.get(column.name.lower(), [])
            exact = self.columns.get(column.name) or (alike[0] if len(alike) == 1 else None)
            if exact is None:
                has = ", ".join(f"`{key}`" for key in self.columns)
                row = mapped.chunk.row_with(column.source) if column.source else None
                place: dict[str, Any] = {"column": column.name} | ({} if row is None else {"row": row})
                where = "" if row is None else f"row {row:,}: "
                message = f"{where}the table `{self.schema}.{self.name}` has no column `{column.name}`; it has {has}"
                raise DataHostFailed("sql", message, **place)
            found.append(exact)
        return found


def describe_table(client: PgClient, schema: str, table: str) -> PgTable | None:
    """A table with its columns; None: it is not there."""
    found = client.one("SELECT to_regclass($1)::oid", [f"{name(schema)}.{name(table)}"])
    if found is None or found[0] is None:
        return None
    rows = client.all(_COLUMNS, [found[0]])
    return PgTable(schema, table, {row[0]: PgTableColumn(*row) for row in rows})


def resolve_table(client: PgClient, given: str) -> tuple[str, str]:
    """Schema and name of a table, as a name without a schema is looked up, or where it would be made."""
    *before, table = given.split(".")
    if before:
        return before[-1], table
    query = (
        "SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)"
    )
    found = client.one(query, [name(table)]) or client.one("SELECT current_schema()")
    if found is None or found[0] is None:
        raise DataHostFailed("sql", f"no schema to look for `{table}` in: name it, as in `schema.{table}`")
    return str(found[0]), table


def types_of(client: PgClient, mapped: MappedChunk) -> dict[str, str]:
    """The types that the columns of a new table get."""
    chunk = mapped.chunk
    known = chunk.columns()
    made = {}
    for one in mapped.columns:
        if one.source is None:
            made[one.name] = _type(columns_of([{"value": one.value}])["value"])
        elif isinstance(chunk, CopiedChunk):
            # What another database has defined for itself is text here, unless it is known under that name.
            spelled = chunk.pg[one.source].spelled
            there = client.one("SELECT to_regtype($1)::oid", [re.sub(r"\(.*?\)", "", spelled)])
            made[one.name] = spelled if there and there[0] else "text"
        else:
            made[one.name] = _type(known[one.source])
    return made


def _type(duck: str) -> str:
    if duck.endswith("[]") and not duck.startswith(_NESTED):
        inner = _type(duck.rstrip("[]"))
        return "jsonb" if inner == "jsonb" else f"{inner}[]"
    if duck.startswith(_NESTED) or duck.endswith("]"):
        return "jsonb"
    decimal = _DECIMAL.fullmatch(duck)
    if decimal is None:
        return _TYPES.get(duck, "text")
    # As many digits as there can be were guessed from some rows, and PostgreSQL would round those of later ones.
    return "numeric" if decimal[1] == _ALL_DIGITS else f"numeric({decimal[1]},{decimal[2]})"


def make(client: PgClient, schema: str, table: str, types: Mapping[str, str], keys: Sequence[str] = ()) -> None:
    """Make a table, with a primary key if there are `keys`; one that somebody else made meanwhile is as good."""
    # IF NOT EXISTS alone does not keep two who come at once apart: the second is told of a duplicate in the catalogue.
    client.do("SELECT pg_advisory_lock($1)", [_MAKING])
    try:
        if not client.one("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema]):
            client.do(f"CREATE SCHEMA IF NOT EXISTS {name(schema)}")
        columns = [f"{name(key)} {kind}" for key, kind in types.items()]
        columns += [f"PRIMARY KEY ({names(keys)})"] if keys else []
        client.do(f"CREATE TABLE IF NOT EXISTS {name(schema)}.{name(table)} ({', '.join(columns)})")
    finally:
        client.do("SELECT pg_advisory_unlock($1)", [_MAKING])


def make_stage(client: PgClient, stage: str, columns: Sequence[PgTableColumn], *, kind: str = "") -> None:
    """Make a table for rows on their way into another: of its columns and what must be filled, and nothing more."""
    made = [f"{name(one.name)} {one.spelled}{' NOT NULL' if one.not_null else ''}" for one in columns]
    made += [f"{_number(columns)} bigint GENERATED ALWAYS AS IDENTITY"] if kind else []
    client.do(f"CREATE {kind} TABLE {stage} ({', '.join(made)})")


def has_unique(client: PgClient, table: PgTable, keys: Sequence[str]) -> bool:
    """Whether no two rows of a table can have the same keys."""
    oid = client.one("SELECT to_regclass($1)::oid", [table.quoted])[0]
    return any(set(row[0] or ()) == set(keys) for row in client.all(_UNIQUE, [oid]))


def insert(table: PgTable, columns: Sequence[PgTableColumn], source: str) -> str:
    """A statement: rows of a stage into a table."""
    chosen = names(one.name for one in columns)
    insists = " OVERRIDING SYSTEM VALUE" if any(one.insists for one in columns) else ""
    return f"INSERT INTO {table.quoted} ({chosen}){insists} SELECT {chosen} FROM {source}"


def merge(
    table: PgTable, columns: Sequence[PgTableColumn], keys: Sequence[str], stage: str, *, unique: bool
) -> list[str]:
    """Statements: rows of a stage in place of those with the same keys, or beside them; of equal ones the last counts."""
    last = f"(SELECT DISTINCT ON ({names(keys)}) * FROM {stage} ORDER BY {names(keys)}, {_number(columns)} DESC) AS s"
    others = [one.name for one in columns if one.name not in keys]
    if unique:
        sets = ", ".join(f"{name(key)} = EXCLUDED.{name(key)}" for key in others)
        action = f"DO UPDATE SET {sets}" if others else "DO NOTHING"
        return [f"{insert(table, columns, last)} ON CONFLICT ({names(keys)}) {action}"]
    same = " AND ".join(f"t.{name(key)} = s.{name(key)}" for key in keys)
    sets = ", ".join(f"{name(key)} = s.{name(key)}" for key in others)
    update = [f"UPDATE {table.quoted} AS t SET {sets} FROM {last} WHERE {same}"] if others else []
    lacking = f"{last} WHERE NOT EXISTS (SELECT FROM {table.quoted} AS t WHERE {same})"
    # Nothing but the lock keeps two who do this at the same time from bringing in the same key.
    return [f"LOCK TABLE {table.quoted} IN SHARE ROW EXCLUSIVE MODE", *update, insert(table, columns, lacking)]


def _number(columns: Sequence[PgTableColumn]) -> str:
    return name(make_distinct(_NUMBER, [one.name for one in columns]))


# Values that PostgreSQL would change without a word: it rounds to the digits of a column and cuts the time off a date.
#
# Text that is copied as it is would have to be read for nothing but that, and most of it need not: bytes tell at a glance that there
# is no value of which it could be true.


Pairs = list[tuple[Column, PgTableColumn]]
#: a time, as PostgreSQL reads one also where DuckDB does not: `17:45`, or `174500` behind a date
_TIMED = r":[0-9]|^\s*[0-9]{4}-?[0-9]{2}-?[0-9]{2}[T ]\s*[0-9]"
#: what a text with such a time has in it; each begins with one byte, which is found quickly
_TIMES = [re.compile(mark) for mark in (rb":[0-9]", rb" [0-9]{4}", rb"T[0-9]{4}")]
_POWERS = [re.compile(mark) for mark in (rb"e[-+]?[0-9]", rb"E[-+]?[0-9]")]
#: the longest of dates without a time that most have
_DATE = 10


def find_doubtful(mapped: MappedChunk, columns: Sequence[PgTableColumn]) -> Pairs:
    """The columns that may get other values than they are sent."""
    pairs = zip(mapped.columns, columns, strict=True)
    found = [(one, into) for one, into in pairs if _changes(into) and not _keeps(mapped.chunk, one, into)]
    if not isinstance(mapped.chunk, CsvChunk) or _may_hold(mapped.chunk, found):
        return found
    return [(one, into) for one, into in found if one.source is None]


def check(connection: Any, source: str, texts: Mapping[str, str], doubts: Pairs, first: int) -> None:
    """Failing: a value would be another in its column. `texts` are expressions for what is sent, by columns of the table."""
    odd = []
    for one, into in doubts:
        text = f"CAST({texts[into.name]} AS VARCHAR)"
        odd.append(AlterationCheck(one.source or one.name, into.spelled, _build_changed_condition(text, into), text))
    refuse_altered(connection, source, odd, first)


def _changes(into: PgTableColumn) -> bool:
    # Who wants fewer digits than those before the point wants them rounded.
    return into.type == "date" or (into.scale is not None and into.scale >= 0)


def _keeps(chunk: Chunk, column: Column, into: PgTableColumn) -> bool:
    """Whether the type of a column says that no value is changed; where it is a guess, it says nothing."""
    if not chunk.keeps_types or column.source is None:
        return False
    kind = chunk.columns()[column.source]
    if into.scale is None:
        return kind == "DATE"
    scale = scale_of(kind)
    return scale is not None and scale <= into.scale


def _build_changed_condition(text: str, into: PgTableColumn) -> str:
    """What is true of a text that is another value in a column."""
    if into.scale is not None:
        return str(build_altered_condition(text, f"DECIMAL(38, {into.scale})"))
    # What DuckDB does not take for a date, PostgreSQL may: `Jan 3 2024 17:45`.
    foreign = f"TRY_CAST({text} AS DATE) IS NULL AND regexp_matches({text}, '{_TIMED}')"
    return f"(length({text}) > {_DATE} AND ({build_altered_condition(text, 'DATE')} OR ({foreign})))"


def _may_hold(chunk: CsvChunk, doubts: Pairs) -> bool:
    """Whether there may be a value in a text that is too long for its column; False is sure."""
    marks = [*_TIMES] if any(into.scale is None for _, into in doubts) else []
    for scale in {into.scale for _, into in doubts if into.scale is not None}:
        marks += [re.compile(rb"\.[0-9]{%d}" % (scale + 1)), *_POWERS]
    return any(mark.search(chunk.body) for mark in marks)
