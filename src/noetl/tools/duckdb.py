"""kind: duckdb"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Key, MapOf, OneOf, Text

KIND = ToolKind(
    name="duckdb",
    doc="Runs SQL on DuckDB, in memory or on a file. Templates in the SQL are bound, never spliced.",
    keys={
        "query": Key(Text(templated=True), "One or many statements; the last one's rows are the output."),
        "command": Key(Text(templated=True), "The same as `query`."),
        "file": Key(Text(templated=True), "The database file; in memory when left out."),
        "params": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Values for `:name` and `%(name)s`."),
    },
    input=InputRole.ARGUMENTS,
    output="rows as maps",
    one_of=(("query", "command"),),
    sql=frozenset({"query", "command"}),
)
