"""The statements of a query, and how they have to be run: together in one transaction, or each by itself. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from noetl.drivers.postgres import task_failure
from noetl.expr import BoundQuery, Finished, Parameter, QuotedBody, StatementBreak
from noetl.tools.postgres.parameters import array, literal

#: statements by their first word in which PostgreSQL takes parameters; in others values become literals
_BINDS: Final = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "WITH", "TABLE"})
_REMARKS: Final = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_WORD: Final = re.compile(r"\w+")
#: so many words say what a statement is
_HEAD: Final = 8
#: what PostgreSQL refuses inside a transaction, by how it begins
_ALONE: Final = re.compile(
    r"VACUUM|(CREATE|DROP) (DATABASE|TABLESPACE)|ALTER (SYSTEM|DATABASE \w+ SET TABLESPACE)"
    r"|(CREATE|ALTER|DROP) SUBSCRIPTION|(CREATE( UNIQUE)?|DROP) INDEX CONCURRENTLY|REINDEX (DATABASE|SYSTEM)"
    r"|REINDEX \w+ CONCURRENTLY|ALTER TABLE .*DETACH PARTITION .*CONCURRENTLY|CLUSTER$"
)
_TRANSACTION: Final = re.compile(r"(BEGIN|START TRANSACTION|COMMIT|END|ROLLBACK|ABORT|PREPARE TRANSACTION)\b")
_BEGINS: Final = re.compile(r"BEGIN|START TRANSACTION")
_ENDS: Final = re.compile(r"(COMMIT|END)( WORK| TRANSACTION)?$")
_COPIES: Final = re.compile(r"\b(TO\s+STDOUT|FROM\s+STDIN)\b", re.IGNORECASE)
_RETURNING: Final = re.compile(r"\bRETURNING\b", re.IGNORECASE)
_BODY: Final = re.compile(r"\bBEGIN\s+ATOMIC\b", re.IGNORECASE)
#: what may leave something behind in a session, beside statements that are no plain queries
_LINGERS: Final = re.compile(r"\b(set_config|pg_(try_)?advisory_lock\w*|temp|temporary)\b", re.IGNORECASE)
_IN: Final = re.compile(r"\b(NOT\s+)?IN\s*(\(\s*)?$", re.IGNORECASE)
_CLOSES: Final = re.compile(r"\s*\)")
#: what was found out about so many texts is remembered, if they are no longer than this: loops run the same one again
_REMEMBERED, _SHORT_TEXT = 256, 10_000


class SqlStatement(msgspec.Struct, frozen=True):
    """One statement of a query."""

    query: BoundQuery
    #: its place among the others, and the line of the query on which it begins, both from 1
    number: int
    line: int
    #: its first words, in capitals
    head: str

    @property
    def verb(self) -> str:
        """Its first word."""
        return self.head.partition(" ")[0]

    @property
    def text(self) -> str:
        """What the author wrote of it, values left out."""
        return "".join(part if isinstance(part, str) else "?" for part in self.query.parts)

    def render(self, *, shared: bool = False) -> tuple[str, list[Any]]:
        """Its text and its parameters.

        Equal expressions are one parameter where the type of their value is known. A text has the type that its place
        wants, and two places may want two: it is one parameter only if all are to be `shared`.
        """
        query = _expand_lists(self.query)
        if self.verb not in _BINDS:
            return query.render("$1", literal)
        return query.render("$1", shares=lambda value: shared or isinstance(value, (int, float, Mapping)))


class StatementPlan(msgspec.Struct, frozen=True):
    """How the statements of a task are run."""

    statements: tuple[SqlStatement, ...]
    #: how the transaction begins; None: each statement stands for itself
    begin: str | None
    #: whether something may stay behind in the session
    lingers: bool


def plan(query: BoundQuery | None, *, once: bool, timeout: bool) -> StatementPlan:
    """The plan of a task. Failing: these statements cannot be run so."""
    singles = _split(query.parts) if query is not None else []
    begin, singles = _strip_transaction(singles)
    for one in singles:
        _check(one)
    alone = next((one for one in singles if _ALONE.match(one.head)), None)
    if alone is not None and (once or begin):
        why = "`exactly_once` needs a transaction" if once else "the query asks for a transaction"
        raise task_failure("sql", f"{why}, and `{_short(alone.text)}` cannot run in one", statement=alone.number)
    together = once or timeout or begin is not None or not _needs_no_transaction(singles)
    atomic = alone is None and together
    lingers = any(one.verb not in _BINDS or _read(one.text).lingers for one in singles)
    return StatementPlan(tuple(singles), (begin or "BEGIN") if atomic else None, lingers)


def _needs_no_transaction(singles: Sequence[SqlStatement]) -> bool:
    """Whether a single statement needs no transaction around it: nothing can fail once it has happened.

    A procedure, or a block of code, may have transactions of its own, which it could not have within another.
    """
    if len(singles) != 1:
        return not singles
    (one,) = singles
    return one.verb in ("CALL", "DO") or (
        one.verb in ("INSERT", "UPDATE", "DELETE", "MERGE") and not _RETURNING.search(one.text)
    )


def _strip_transaction(singles: list[SqlStatement]) -> tuple[str | None, list[SqlStatement]]:
    """Statements without the `BEGIN` and `COMMIT` around them: they are one transaction in any case."""
    if not singles or not _BEGINS.match(singles[0].head):
        return None, singles
    begin = singles[0].text.strip()
    singles = singles[1:]
    if singles and _ENDS.fullmatch(singles[-1].head):
        singles = singles[:-1]
    return begin, singles


def _check(one: SqlStatement) -> None:
    if _TRANSACTION.match(one.head) and not one.head.startswith(("ROLLBACK TO", "ROLLBACK WORK TO")):
        said = (
            f"`{_short(one.text)}` in the middle of a task: its statements are one transaction; "
            "what is to be committed before belongs into a task of its own"
        )
        raise task_failure("sql", said, statement=one.number, line=one.line)
    if one.verb == "COPY" and _COPIES.search(_REMARKS.sub(" ", one.text)):
        said = (
            f"`{_short(one.text)}` needs a client that sends or takes a stream; "
            "`SELECT` yields rows, and `kind: transfer` moves them"
        )
        raise task_failure("sql", said, statement=one.number, line=one.line)


def _split(parts: Sequence[Finished]) -> list[SqlStatement]:
    """The single statements, each with its place; the body of an SQL function is no more than one."""
    found: list[SqlStatement] = []
    held: list[Finished] = []
    line = 1
    for part in [*parts, StatementBreak()]:
        text = "".join(one if isinstance(one, str) else "?" for one in held) if isinstance(part, StatementBreak) else ""
        if isinstance(part, StatementBreak) and not _read(text).is_open:
            begins, head = line, _read(text).head
            line += text.count("\n")
            if head or any(not isinstance(one, str) for one in held):
                begins += text[: len(text) - len(text.lstrip())].count("\n")
                found.append(SqlStatement(BoundQuery(tuple(held)), len(found) + 1, begins, head))
            held = []
        else:
            held.append(";" if isinstance(part, StatementBreak) else part)
    return found


class _Read(NamedTuple):
    """What the text of a statement says, without its values."""

    #: its first words, in capitals
    head: str
    #: a `;` behind it ends a statement in the body of a function, and not the one that makes it
    is_open: bool
    #: it may leave something behind in its session
    lingers: bool


def _read(text: str) -> _Read:
    return _analyze_cached(text) if len(text) <= _SHORT_TEXT else _analyze(text)


def _analyze(text: str) -> _Read:
    code = _REMARKS.sub(" ", text)
    head = " ".join(_WORD.findall(code)[:_HEAD]).upper()
    opened = _BODY.search(code)
    is_open = (
        opened is not None
        and head.startswith("CREATE")
        and not re.search(r";\s*END\s*$", code[opened.end() :], re.IGNORECASE)
    )
    return _Read(head, is_open, _LINGERS.search(text) is not None)


_analyze_cached = lru_cache(maxsize=_REMEMBERED)(_analyze)


def _short(text: str) -> str:
    line = " ".join(_REMARKS.sub(" ", text).split())
    return line if len(line) <= 60 else line[:60] + "…"


def _expand_lists(query: BoundQuery) -> BoundQuery:
    """`x IN {{ list }}` as `x = ANY (array)`: that holds for lists of any length, empty ones too."""
    parts: list[Finished] = list(query.parts)
    for place, part in enumerate(parts):
        if (
            isinstance(part, (str, QuotedBody, StatementBreak))
            or not isinstance(part.value, (list, tuple))
            or not place
        ):
            continue
        before, after = parts[place - 1], parts[place + 1] if place + 1 < len(parts) else ""
        found = _IN.search(before) if isinstance(before, str) else None
        if found is None or not isinstance(before, str) or not isinstance(after, str):
            continue
        closing = _CLOSES.match(after)
        if found[2] and closing is None:
            continue  # one element of several
        parts[place - 1] = before[: found.start()] + ("<> ALL (" if found[1] else "= ANY (")
        parts[place] = Parameter(array(part.value))
        rest = after[closing.end() :] if found[2] and closing is not None else after
        parts[place + 1 : place + 2] = [")" + rest]
    return BoundQuery(tuple(parts))
