"""Template, Guard and Expression: compiled once, evaluated many times; compiling reports every problem and raises none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from noetl.errors import TemplateError, TemplateLimit
from noetl.expr.compiler.expressions import compile_expression
from noetl.expr.compiler.name_access import describe, name_code, path_code
from noetl.expr.compiler.statements import Action, compile_statements, marker_of, text_of
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET, Budget, Code, Evaluation
from noetl.expr.sandbox.plain_data import plain, to_text
from noetl.expr.sandbox.undefined import Missing, not_data_error
from noetl.expr.syntax import nodes
from noetl.expr.syntax.facts import (
    NO_FACTS,
    HasFacts,
    PathRead,
    TemplateFacts,
    TemplateProblem,
    facts_of,
    facts_of_statements,
    join_facts,
    length_problem,
)
from noetl.expr.syntax.parser import NeedsJinja, parse
from noetl.expr.syntax.segments import Hole, has_template, split

# One `{{ … }}`: its facts without running it, and its code once it runs.


#: a dotted path, which is what most expressions are; told apart without parsing
_PATH: Final = re.compile(r"\s*([A-Za-z_]\w*)((?:\.[A-Za-z_]\w*)*)\s*", re.ASCII)
_NOT_A_ROOT: Final = frozenset(
    "and or not if else in is true false none True False None".split()  # noqa: SIM905  a list of words reads better so
)
#: what a longer source or message is cut to where it is quoted
_QUOTED: Final = 200


class Expression:
    """Of one source text; shared by all templates that contain it."""

    __slots__ = ("_code", "_facts", "_is_part", "_path", "_tree", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        match = _PATH.fullmatch(source)
        self._path: tuple[str, ...] | None = None
        if match is not None and match[1] not in _NOT_A_ROOT:
            self._path = (match[1], *match[2].split(".")[1:])
        self._is_part: bool | None = True if self._path is not None else None
        self._facts: TemplateFacts | None = None
        self._tree: nodes.Expr | TemplateProblem | None = None
        self._code: Code | None = None

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters, with offsets into the source."""
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    @property
    def path(self) -> tuple[str, ...] | None:
        """Its names, when it is a dotted path and nothing else."""
        return self._path

    @property
    def key(self) -> str:
        """Its text without the space around it: the same for equal expressions."""
        return self.source.strip()

    @property
    def marker(self) -> str | None:
        """`sql` or `raw` when that is the last filter."""
        if self._path is not None or "|" not in self.source:
            return None
        tree = self._parse()
        return None if isinstance(tree, TemplateProblem) else marker_of(tree)

    def evaluate(self, run: Evaluation) -> Any:
        """The value as it comes: it may be undefined, or not plain."""
        if self._code is None:
            self._code = self._compile()
        return self._code(run)

    def plain_value(self, run: Evaluation) -> Any:
        """The value as plain data."""
        value = self.evaluate(run)
        if value.__class__ in (dict, list) and self._yields_a_part():
            return value  # a part of the scopes as it is: nothing was made, so there is nothing to check
        return plain(run, value)

    def _yields_a_part(self) -> bool:
        """Whether it is a path and nothing else, such as `_prev['items'][0].rows`."""
        if self._is_part is None:
            tree = self._parse()
            self._is_part = not isinstance(tree, TemplateProblem) and describe(tree) != ""
        return self._is_part

    def _parse(self) -> nodes.Expr | TemplateProblem:
        if self._tree is None:
            self._tree = length_problem("expression", self.source)
        if self._tree is None:
            try:
                self._tree = parse(self.source)
            except (NeedsJinja, RecursionError, ValueError):
                from noetl.expr.syntax.jinja import parse_expression

                self._tree = parse_expression(self.source)
        return self._tree

    def _find_facts(self) -> TemplateFacts:
        if self._path is not None:
            offset = len(self.source) - len(self.source.lstrip())
            return TemplateFacts(reads=(PathRead(self._path, offset, exact=True),))
        tree = self._parse()
        if isinstance(tree, TemplateProblem):
            return TemplateFacts(problems=(tree,))
        try:
            return facts_of(tree)
        except RecursionError:
            return TemplateFacts(problems=(TemplateProblem("template-syntax", "the template is nested too deeply", 0),))

    def _compile(self) -> Code:
        if self._path is not None:
            root, *names = self._path
            return path_code(root, tuple(names)) if names else name_code(root)
        tree = self._parse()
        if isinstance(tree, TemplateProblem):
            raise TemplateError(tree.message)
        return compile_expression(tree)


@lru_cache(maxsize=32_768)
def expression(source: str) -> Expression:
    """The expression of a source text."""
    return Expression(source)


def quote_expression(source: str) -> str:
    """An expression as messages show it."""
    return f"`{{{{ {shorten(source)} }}}}`"


def shorten(text: str) -> str:
    """A text as messages show it: on one line, and not too long."""
    text = " ".join(text.split())
    return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


def evaluation_error(error: Exception, shown: str, source: str) -> TemplateError:
    """Whatever went wrong in an evaluation, as the error that leaves it: with the expression quoted."""
    if isinstance(error, TemplateError):
        found = error
        reason = error.message
    elif isinstance(error, RecursionError):
        found = TemplateLimit(reason := "it is nested too deeply")
    elif isinstance(error, MemoryError):
        found = TemplateLimit(reason := "it grew too large")
    else:
        found = TemplateError(reason := shorten(str(error)) or type(error).__name__)
    if not found.expression:
        found.message = f"in {shown}: {reason}"
        found.args = (found.message,)
        found.expression = source
    return found


#: a piece of a template: literal text, or an expression and where its source starts
Part = str | tuple[Expression, int]


class Template(HasFacts):
    """A text of the playbook. What is exactly one `{{ … }}` keeps its value's type; anything else is text."""

    __slots__ = ("_action", "_body", "_facts", "_lone", "_parts", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._facts: TemplateFacts | None = None
        self._body: tuple[nodes.Statement, ...] | TemplateProblem | None = None
        self._action: Action | None = None
        self._parts: tuple[Part, ...] | None = _parts_of(source)
        self._lone: Expression | None = _lone(self._parts or ())

    def __str__(self) -> str:
        return self.source

    @property
    def is_constant(self) -> bool:
        """Whether there is no template syntax in it at all."""
        return not self.source or (self._parts is not None and self._parts == (self.source,))

    @property
    def is_expression(self) -> bool:
        """Whether it is exactly one `{{ … }}`, white space around it aside."""
        return self._lone is not None

    @property
    def expression(self) -> Expression | None:
        """The expression, when the template is exactly one."""
        return self._lone

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """Literal text and expressions in order; None when there are statements or comments."""
        return self._parts

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters together, computed at the first question."""
        if self._facts is None:
            self._facts = self._find_facts()
        return self._facts

    def evaluate(self, scopes: Mapping[str, Any], budget: Budget | None = None) -> Any:
        """The value. Maps and lists that come straight from the scopes are not copied."""
        value = self._value(scopes, budget or DEFAULT_BUDGET)
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                message = f"in `{self.source}`: the text has half a character, {value[error.start]!a}"
                raise TemplateError(message) from None
        return value

    def _value(self, scopes: Mapping[str, Any], budget: Budget) -> Any:
        lone = self._lone
        if lone is not None:
            run = Evaluation(scopes, budget, tolerant=False)
            try:
                return lone.plain_value(run)
            except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
                raise evaluation_error(error, quote_expression(lone.source), self.source) from None
        if self._parts is None:
            return self._evaluate_statements(scopes, budget)
        return self._evaluate_text(scopes, budget)

    def _evaluate_text(self, scopes: Mapping[str, Any], budget: Budget) -> str:
        run = Evaluation(scopes, budget, tolerant=False)
        texts: list[str] = []
        spent: list[tuple[int, int, Expression]] = []
        for part in self._parts or ():
            if isinstance(part, str):
                texts.append(part)
                continue
            spent.append((run.steps, run.size, part[0]))
            try:
                texts.append(to_text(run, part[0].evaluate(run)))
            except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
                blamed = _costliest(run, spent) if run.steps < 0 or run.size < 0 else part[0]
                raise evaluation_error(error, quote_expression(blamed.source), self.source) from None
        return "".join(texts)

    def _evaluate_statements(self, scopes: Mapping[str, Any], budget: Budget) -> str:
        try:
            if self._action is None:
                self._action = self.action(keep_values=False)
            return text_of(Evaluation(scopes, budget, tolerant=False), self._action)
        except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
            raise evaluation_error(error, f"`{shorten(self.source)}`", self.source) from None

    def action(self, *, keep_values: bool) -> Action:
        """The compiled statements, for templates that have some."""
        body = self._parse()
        if isinstance(body, TemplateProblem):
            raise TemplateError(body.message)
        return compile_statements(body, keep_values=keep_values)

    def _parse(self) -> tuple[nodes.Statement, ...] | TemplateProblem:
        if self._body is None:
            from noetl.expr.syntax.jinja import parse_template

            self._body = length_problem("template", self.source) or parse_template(self.source)
        return self._body

    def _find_facts(self) -> TemplateFacts:
        if self._parts is not None:
            found = [part[0].facts.shift(part[1]) for part in self._parts if not isinstance(part, str)]
            if len(found) == 1:
                return found[0]
            return join_facts(found) if found else NO_FACTS
        body = self._parse()
        if isinstance(body, TemplateProblem):
            return TemplateFacts(problems=(body,))
        try:
            return facts_of_statements(body)
        except RecursionError:
            return TemplateFacts(problems=(TemplateProblem("template-syntax", "the template is nested too deeply", 0),))


def _costliest(run: Evaluation, spent: list[tuple[int, int, Expression]]) -> Expression:
    """Of expressions that share a budget, the one that used most of it; the last need not be that."""
    levels = [one[0] if run.steps < 0 else one[1] for one in spent]
    levels.append(run.steps if run.steps < 0 else run.size)
    used = [before - after for before, after in pairwise(levels)]
    return spent[used.index(max(used))][2]


def _parts_of(source: str) -> tuple[Part, ...] | None:
    if not has_template(source):
        return (source,)
    segments = split(source)
    if segments is None:
        return None
    return tuple((expression(s.source), s.offset) if isinstance(s, Hole) else s for s in segments)


def _lone(parts: tuple[Part, ...]) -> Expression | None:
    """The one expression, when there is nothing but white space beside it."""
    found = [part for part in parts if not isinstance(part, str) or not part.isspace()]
    return found[0][0] if len(found) == 1 and not isinstance(found[0], str) else None


class Guard(HasFacts):
    """A `when`: one `{{ … }}`, or a literal true or false. An undefined is false, and so is comparing with one."""

    __slots__ = ("_constant", "_expression", "form_ok", "source", "template")

    def __init__(self, source: str | bool) -> None:  # noqa: FBT001  `when: true` is a boolean
        self.source = source if isinstance(source, str) else str(source).lower()
        #: the template behind it, None for a literal
        self.template: Template | None = None
        self._expression: Expression | None = None
        self._constant = _LITERALS.get(source.strip()) if isinstance(source, str) else source
        if self._constant is None and isinstance(source, str):
            self.template = template(source)
            self._expression = self.template.expression
        #: False when it is neither an expression nor a literal
        self.form_ok = self._constant is not None or self._expression is not None

    @property
    def is_constant(self) -> bool:
        """Whether it is a literal true or false."""
        return self._constant is not None

    @property
    def is_expression(self) -> bool:
        """Whether it is one `{{ … }}`."""
        return self._expression is not None

    @property
    def facts(self) -> TemplateFacts:
        """Problems, reads, calls and filters together."""
        return NO_FACTS if self.template is None else self.template.facts

    def evaluate(self, scopes: Mapping[str, Any], budget: Budget | None = None) -> bool:
        """Whether it holds."""
        lone = self._expression
        if lone is None:
            if self._constant is not None:
                return self._constant
            raise TemplateError("a `when` is one `{{ … }}` or a literal true or false", expression=str(self.source))
        try:
            run = Evaluation(scopes, budget or DEFAULT_BUDGET, tolerant=True)
            value = lone.evaluate(run)
            return value if value.__class__ is bool else _truth(run, value)
        except Exception as error:  # noqa: BLE001  nothing but TemplateError leaves an evaluation
            raise evaluation_error(error, quote_expression(lone.source), str(self.source)) from None


_LITERALS = {"true": True, "false": False}


def _truth(run: Evaluation, value: Any) -> bool:
    if isinstance(value, Missing):
        return False
    if callable(value):  # it would always hold
        raise not_data_error(value, run.scopes)
    return bool(value)


@lru_cache(maxsize=32_768)
def template(text: str) -> Template:
    """The template of a text; what is wrong with it is in its `problems`."""
    return Template(text)


@lru_cache(maxsize=32_768)
def guard(text: str | bool) -> Guard:  # noqa: FBT001  `when: true` is a boolean
    """The guard of a `when`; what is wrong with it is in its `problems` and `form_ok`."""
    return Guard(text)
