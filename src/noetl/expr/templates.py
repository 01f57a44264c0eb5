"""Template and Guard: compiled once, evaluated many times; every problem is told, none is raised, before that."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any

from noetl.errors import TemplateError
from noetl.expr.closures.statements import Action, compile_statements, text_of
from noetl.expr.expression import Expression, evaluation_error, expression, quote_expression, shorten
from noetl.expr.facts import NO_FACTS, HasFacts, TemplateFacts, TemplateProblem, join_facts, length_problem
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET, Budget, Evaluation
from noetl.expr.sandbox.plain_data import not_data_error, to_text
from noetl.expr.sandbox.undefined import Missing
from noetl.expr.syntax import nodes
from noetl.expr.syntax.reads import facts_of_statements
from noetl.expr.syntax.segments import Hole, has_template, split

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
        raise not_data_error(value, run)
    return bool(value)


@lru_cache(maxsize=32_768)
def template(text: str) -> Template:
    """The template of a text; what is wrong with it is in its `problems`."""
    return Template(text)


@lru_cache(maxsize=32_768)
def guard(text: str | bool) -> Guard:  # noqa: FBT001  `when: true` is a boolean
    """The guard of a `when`; what is wrong with it is in its `problems` and `form_ok`."""
    return Guard(text)
