"""kind: postgres"""

from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import Anything, Flag, Key, MapOf, OneOf, Text

KIND = ToolKind(
    name="postgres",
    doc="Runs SQL on PostgreSQL, in one transaction. Templates in the SQL are bound, never spliced.",
    keys={
        "query": Key(Text(templated=True), "One or many statements; the last one's rows are the output."),
        "command": Key(Text(templated=True), "The same as `query`."),
        "params": Key(OneOf((MapOf(Anything()), Text(templated=True))), "Values for `:name` and `%(name)s`."),
        "exactly_once": Key(Flag(), "Commit a marker with the statement, so a repeated task takes effect once."),
    },
    input=InputRole.ARGUMENTS,
    output="rows as maps, of the last statement",
    one_of=(("query", "command"),),
    sql=frozenset({"query", "command"}),
)
