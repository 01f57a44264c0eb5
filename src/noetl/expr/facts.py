"""What is known of a template without running it: its problems, what it reads, what it calls."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

#: of one expression, or of a text with statements; text with expressions in it may be of any length
MOST_CHARACTERS = 100_000


class TemplateProblem(msgspec.Struct, frozen=True, gc=False):
    """Something wrong with a template, told without raising."""

    #: `template-syntax` or `unknown-filter`
    code: str
    #: a plain sentence
    message: str
    #: where it stands, in characters from the start of the source; best effort
    offset: int


def length_problem(what: str, source: str) -> TemplateProblem | None:
    """What is wrong with a source that would take long to read, if it is that long."""
    if len(source) <= MOST_CHARACTERS:
        return None
    message = f"this {what} is {len(source):,} characters long; {MOST_CHARACTERS:,} are the limit"
    return TemplateProblem("template-syntax", message, 0)


class PathRead(msgspec.Struct, frozen=True, gc=False):
    """A path of names that a template reads."""

    #: the root name and the literal parts after it: `output.data.rows[0]` is ("output", "data", "rows", "0")
    path: tuple[str, ...]
    #: where the root name stands, in characters from the start of the source
    offset: int
    #: False when something computed follows the path, as in `ctx[workload.which]`
    exact: bool


class FunctionCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a bare function: `done('fetch')`."""

    name: str
    #: the literal text arguments, those inside literal lists included; None where one is computed
    args: tuple[str | None, ...]
    offset: int


class TemplateFacts(msgspec.Struct, frozen=True, gc=False):
    """Everything static about one template or expression."""

    problems: tuple[TemplateProblem, ...] = ()
    reads: tuple[PathRead, ...] = ()
    calls: tuple[FunctionCall, ...] = ()
    #: the names of the filters used
    filters: frozenset[str] = frozenset()

    def shift(self, by: int) -> TemplateFacts:
        """The same facts, of a text that stands `by` characters further on."""
        if not by:
            return self
        # Most have one of these and nothing else, and there are many of them: the empty ones cost nothing.
        return TemplateFacts(
            self.problems and tuple([TemplateProblem(p.code, p.message, p.offset + by) for p in self.problems]),
            self.reads and tuple([PathRead(r.path, r.offset + by, r.exact) for r in self.reads]),
            self.calls and tuple([FunctionCall(c.name, c.args, c.offset + by) for c in self.calls]),
            self.filters,
        )


NO_FACTS = TemplateFacts()


class HasFacts:
    """Whatever has facts: each of them can be asked for by itself."""

    __slots__ = ()

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters together."""
        raise NotImplementedError

    @property
    def problems(self) -> tuple[TemplateProblem, ...]:
        """What is wrong with it."""
        return self.facts.problems

    @property
    def reads(self) -> tuple[PathRead, ...]:
        """The paths it reads."""
        return self.facts.reads

    @property
    def calls(self) -> tuple[FunctionCall, ...]:
        """The bare functions it calls."""
        return self.facts.calls

    @property
    def filters(self) -> frozenset[str]:
        """The names of the filters it uses."""
        return self.facts.filters


def join_facts(parts: Iterable[TemplateFacts]) -> TemplateFacts:
    """The facts of several parts as one, in order."""
    found = [part for part in parts if part is not NO_FACTS]
    if len(found) == 1:
        return found[0]
    return TemplateFacts(
        tuple(problem for part in found for problem in part.problems),
        tuple(read for part in found for read in part.reads),
        tuple(call for part in found for call in part.calls),
        frozenset(name for part in found for name in part.filters),
    )
