"""kind: transfer

The engine's side goes chunk by chunk (`move`); rows stay in a data host, where sources and targets are (`session`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key, ListOf, MapOf, Number, OneOf, Record, Text, Variant, Word, reserve_key
from noetl.tools.extras import install_hint
from noetl.tools.transfer.text_files import ENDINGS

if TYPE_CHECKING:
    from noetl.model.output import Output
    from noetl.ports import Call, World

#: ends that lie behind a network
REMOTE = frozenset({"http", "postgres", "s3"})
_TEXT = Text(templated=True)
_MAP = OneOf((MapOf(Anything()), _TEXT))
_LINES = "let the name of the file end in `.ndjson` or `.jsonl`: then `json` is a row a line"
_FORMAT = Word(("parquet", "json", "csv"), templated=True, instead=dict.fromkeys(("ndjson", "jsonl"), _LINES))

_OF_FILES = ("format", "columns", "delimiter", "encoding")
#: in a file no row can be updated
_WRITTEN = {"mode": ("append", "insert", "replace")}

_PAGE = Record(
    title="a source's pages",
    keys={
        "by": Key(
            Word(("next", "link", "cursor", "number", "offset")),
            "What leads to the next page: its address in the answer, the header `Link`, a cursor, a page number, an offset.",
            required=True,
        ),
        "path": Key(_TEXT, "next, cursor: the JSONPath of the address or cursor; the last page has none."),
        "param": Key(_TEXT, "cursor, number, offset: the parameter that says which page (`cursor`, `page`, `offset`)."),
        "start": Key(Number(integer=True, templated=True), "number, offset: of the first page (1, 0)."),
        "more": Key(_TEXT, "The JSONPath of what is false in the last page."),
        "in": Key(Word(("query", "json")), "Where the parameter stands.", default="query"),
    },
)

_SOURCE = Record(
    title="a transfer's source",
    keys={
        "kind": Key(
            Word(("postgres", "duckdb", "http", "file", "s3", "data")), "Where the rows come from.", required=True
        ),
        "auth": Key(_TEXT, "The keychain entry to use."),
        "query": Key(_TEXT, "postgres, duckdb: the rows to read."),
        "params": Key(_MAP, "postgres, duckdb: values for `:name`; http: query parameters."),
        "order_by": Key(OneOf((_TEXT, ListOf(_TEXT))), "Unique columns, so that a transfer can resume."),
        "file": Key(_TEXT, "duckdb: the database file."),
        "table": Key(_TEXT, "postgres, duckdb: read this table whole."),
        "url": Key(_TEXT, "http: the address."),
        "method": Key(_TEXT, "http: the request method."),
        "headers": Key(_MAP, "http: request headers."),
        "json": Key(Anything(), "http: a value sent as JSON."),
        "body": Key(Anything(), "http: the request's body."),
        "path": Key(_TEXT, "file, s3: the file; http, data: the JSONPath of the rows."),
        "next": Key(_TEXT, "http: short for `page: {by: next, path: …}`."),
        "page": Key(_PAGE, "http: how further pages are found."),
        "bucket": Key(_TEXT, "s3: the bucket."),
        "format": Key(_FORMAT, "file, s3: how the rows are written."),
        "columns": Key(_MAP, "file: types of columns, where they are not to be found out."),
        "delimiter": Key(_TEXT, "file: what separates the columns of CSV, where that is not to be found out."),
        "encoding": Key(_TEXT, "file: the encoding of CSV or JSON.", default="utf-8"),
        "data": Key(Anything(), "data: a value in hand."),
        "rate": reserve_key("write `rate: {limit: …, per_s: …}` under the step's `spec`, which bounds its starts"),
    },
    variants={
        "postgres": Variant(needs=(("query", "table"),), wants=("auth",), takes=("params", "order_by")),
        "duckdb": Variant(needs=(("query", "table"),), takes=("params", "order_by", "file")),
        "http": Variant(
            needs=(("url",),),
            takes=("method", "params", "headers", "json", "body", "path", "next", "page", "order_by", "auth"),
            finds=("path", "next"),
        ),
        "file": Variant(needs=(("path",),), takes=_OF_FILES, endings=ENDINGS),
        "s3": Variant(needs=(("path",),), takes=(*_OF_FILES, "bucket", "auth"), endings=ENDINGS),
        "data": Variant(needs=(("data",),), takes=("path",), finds=("path",)),
    },
)

_TARGET = Record(
    title="a transfer's target",
    keys={
        "kind": Key(Word(("postgres", "duckdb", "file", "s3", "http")), "Where the rows go.", required=True),
        "auth": Key(_TEXT, "The keychain entry to use."),
        "table": Key(_TEXT, "postgres, duckdb: the table."),
        "mode": Key(Word(("insert", "append", "upsert", "replace"), templated=True), "How rows are written."),
        "key": Key(OneOf((_TEXT, ListOf(_TEXT))), "upsert: the columns that identify a row."),
        "mapping": Key(_MAP, "Column to value; `row` is the row in hand."),
        "file": Key(_TEXT, "duckdb: the database file."),
        "path": Key(_TEXT, "file, s3: the file; it may speak of `chunk`."),
        "bucket": Key(_TEXT, "s3: the bucket."),
        "format": Key(_FORMAT, "file, s3: how the rows are written."),
        "url": Key(_TEXT, "http: the address."),
        "method": Key(_TEXT, "http: the request method.", default="POST"),
        "headers": Key(_MAP, "http: request headers."),
        "body": Key(Anything(), "s3, http: sent in place of the rows."),
        "on_error": Key(Word(("fail", "warn")), "What a failure of this target means.", default="fail"),
    },
    variants={
        "postgres": Variant(needs=(("table",),), wants=("auth",), takes=("key",)),
        "duckdb": Variant(needs=(("table",),), wants=("file",), takes=("key",)),
        "file": Variant(needs=(("path",),), takes=("format",), endings=ENDINGS, words=_WRITTEN),
        "s3": Variant(needs=(("path",),), takes=("format", "bucket", "body", "auth"), endings=ENDINGS, words=_WRITTEN),
        "http": Variant(needs=(("url",),), takes=("method", "headers", "body", "auth")),
    },
    implied=(("mode", "upsert", "key"),),
)

_CHUNK = Record(
    title="a transfer's chunk",
    keys={
        "size": Key(Number(integer=True, minimum=1, templated=True), "Rows in a chunk.", default=10_000),
        "mode": Key(Word(("batch", "stream")), "`stream` hands rows over one by one.", default="batch"),
    },
)

KIND = ToolKind(
    name="transfer",
    doc="Streams rows from one source to any number of targets, chunk by chunk.",
    keys={
        "source": Key(_SOURCE, "Where the rows come from."),
        "targets": Key(ListOf(_TARGET, at_least=1), "Where they go; each chunk goes to all before the next."),
        "chunk": Key(_CHUNK, "How many rows at a time."),
        "variable": reserve_key("keep the position in a table, and read it with a `postgres` task first"),
    },
    input=InputRole.CONFIGURES,
    output="`{rows, chunks, bytes, targets: […]}`",
    one_of=(("source",), ("targets",)),
    sql=frozenset({"query"}),
    late=frozenset({"source", "targets"}),
    keeps_network=True,
    binds=frozenset({"isolation", "limits.memory_mb"}),
    remote=REMOTE,
    end_installs={
        "duckdb": install_hint("duckdb", "duckdb"),
        "postgres": install_hint("psycopg", "postgres"),
        "s3": install_hint("obstore", "s3"),
    },
    settings=frozenset({"retries", "pool_size", "verify", "timeout.connect", "timeout.read"}),
)


async def run(call: Call, world: World) -> Output:
    """Move the rows."""
    from msgspec.structs import replace

    from noetl.tools.transfer.move import transfer

    # Its own requests have their answers read.
    return await transfer(replace(call, spill=None), world)
