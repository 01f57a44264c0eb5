"""Values as far as they are known before a run; an unknown value says where it will come from.

A template whose reads are all known is evaluated. In any other the known parts are, and the rest is marked:
`‹from step fetch: ctx.total›`, `‹secret: keychain.api.token›`, `‹at run time: now()›`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from noetl.errors import TemplateError
from noetl.expr import (
    FUNCTIONS,
    Guard,
    Template,
    TemplateFacts,
    TemplateValue,
    compile_command,
    compile_sql,
    sql_literal,
    template,
)
from noetl.model.kinds import ToolKind
from noetl.model.playbook import Assignment, Playbook, Step

#: `ctx.total` → the steps that write it, and the like inside of a step
Writers = Mapping[tuple[str, str], tuple[str, ...]]


class KnownValues(msgspec.Struct, frozen=True):
    """What is known at a place."""

    scopes: Mapping[str, Any]
    #: scopes of which only the keys that are there are known
    partial: frozenset[str] = frozenset()
    #: a scope → who will write it: `step fetch`, `task get`
    origins: Mapping[str, str] = {}
    writers: Writers = {}

    def with_scopes(self, **more: Any) -> KnownValues:
        """The same with more scopes that are known in whole."""
        return msgspec.structs.replace(self, scopes={**self.scopes, **more})

    def knows(self, facts: TemplateFacts) -> bool:
        """Whether all that something reads is known."""
        free = all(call.name in FUNCTIONS for call in facts.calls)
        return free and all(self._knows(read.path) for read in facts.reads)

    def _knows(self, path: tuple[str, ...]) -> bool:
        root = path[0]
        if root not in self.scopes:
            return False
        if root not in self.partial:
            return True
        return len(path) > 1 and path[1] in self.scopes[root] and (root, path[1]) not in self.writers

    def mark(self, source: str, facts: TemplateFacts) -> str:
        """What is shown in the place of an expression that is not known yet."""
        words = " ".join(source.split())
        if any(read.path[0] == "keychain" for read in facts.reads):
            names = dict.fromkeys(".".join(read.path) for read in facts.reads if read.path[0] == "keychain")
            return f"‹secret: {', '.join(names)}›"
        found = dict.fromkeys(
            origin for read in facts.reads if not self._knows(read.path) for origin in self._origins(read.path)
        )
        for call in facts.calls:
            found |= dict.fromkeys(f"step {name}" for name in call.args if name)
        return f"‹{'from ' + ' and '.join(found) if found else 'at run time'}: {words}›"

    def _origins(self, path: tuple[str, ...]) -> tuple[str, ...]:
        if len(path) > 1 and (path[0], path[1]) in self.writers:
            return self.writers[path[0], path[1]]
        if path[0] == "steps" and len(path) > 1:
            return (f"step {path[1]}",)
        origin = self.origins.get(path[0])
        return (origin,) if origin is not None else ()


def evaluate_partially(value: Any, sight: KnownValues) -> Any:
    """A compiled value as far as it is known."""
    if isinstance(value, TemplateValue):
        return evaluate_partially(value.tree, sight)
    if isinstance(value, Template):
        return _template(value, sight)
    if isinstance(value, Mapping):
        return {key: evaluate_partially(part, sight) for key, part in value.items()}
    return [evaluate_partially(part, sight) for part in value] if isinstance(value, list | tuple) else value


def is_known(value: Any, sight: KnownValues) -> bool:
    """Whether a compiled value is known in whole."""
    facts = getattr(value, "facts", None)
    return facts is None or sight.knows(facts)


def _template(one: Template, sight: KnownValues) -> Any:
    try:
        if sight.knows(one.facts):
            return one.evaluate(sight.scopes)
    except TemplateError as error:
        return f"‹error: {error.message}›"
    if one.parts is None or one.is_expression:
        source = one.expression.source if one.expression is not None else one.source
        return sight.mark(source, one.facts)
    return "".join(part if isinstance(part, str) else _part(part[0].source, sight) for part in one.parts)


def _part(source: str, sight: KnownValues) -> str:
    """An expression inside of a text, as it will stand there."""
    facts = template(f"{{{{ {source} }}}}").facts
    if not sight.knows(facts):
        return sight.mark(source, facts)
    # A second expression makes it text, in which a map is written as JSON and null as nothing.
    return str(_template(template(f"{{{{ {source} }}}}{{{{ '' }}}}"), sight))


def config_of(kind: ToolKind | None, config: Mapping[str, Any], sight: KnownValues) -> dict[str, Any]:
    """The keys of a task; code is told by its length, a command as the shell will get it."""
    made: dict[str, Any] = {}
    for name, value in config.items():
        if kind is not None and name in kind.literal and isinstance(value, str) and "\n" in value.strip():
            made[name] = f"‹{len(value.strip().splitlines())} lines›"
        elif kind is not None and name in kind.shell and isinstance(value, TemplateValue) and is_known(value, sight):
            made[name] = _command(value.tree, sight)
        elif kind is not None and name in kind.sql and isinstance(value, TemplateValue) and is_known(value, sight):
            made[name] = _statement(value, sight)
        else:
            made[name] = evaluate_partially(value, sight)
    return made


def _statement(value: TemplateValue, sight: KnownValues) -> Any:
    """SQL with its values as literals, so that it can be seen which they are; those of `params` have their names."""
    source = getattr(value.tree, "source", value.tree)
    try:
        statement = compile_sql(source) if isinstance(source, str) else None
        if statement is None or statement.names:
            return evaluate_partially(value, sight)
        return statement.bind(sight.scopes).render("$1", sql_literal)[0]
    except TemplateError as error:
        return f"‹error: {error.message}›"


def _command(tree: Any, sight: KnownValues) -> Any:
    if isinstance(tree, list):
        return [_command(part, sight) for part in tree]
    source = getattr(tree, "source", tree)
    try:
        return compile_command(source).render(sight.scopes) if isinstance(source, str) else source
    except TemplateError as error:
        return f"‹error: {error.message}›"


def holds(when: Guard | None, sight: KnownValues, *, by_default: bool) -> bool | None:
    """Whether a condition holds; None: that is not known yet."""
    if when is None:
        return by_default
    if not when.is_constant and not sight.knows(when.facts):
        return None
    try:
        return when.evaluate(sight.scopes)
    except TemplateError:
        return None


# --- who writes what -------------------------------------------------------------------------------------------------


def ctx_writers(playbook: Playbook) -> dict[tuple[str, str], tuple[str, ...]]:
    """The steps that write each key of `ctx`."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for step in playbook.steps:
        arcs = [one for arc in step.router.arcs for one in arc.set]
        for one in [*step.set, *arcs, *(one for _, one in _task_writes(step))]:
            if one.scope == "ctx" and one.path:
                _add(found, (one.scope, one.path[0]), f"step {step.name}")
    return found


def step_writers(step: Step) -> dict[tuple[str, str], tuple[str, ...]]:
    """The tasks of a step that write each key of `step` and `iter`."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for task, one in _task_writes(step):
        if one.scope != "ctx" and one.path:
            _add(found, (one.scope, one.path[0]), f"task {task}")
    return found


def _task_writes(step: Step) -> list[tuple[str, Assignment]]:
    made: list[tuple[str, Assignment]] = []
    for task in step.all_tasks:
        rules = task.policy.rules if task.policy is not None else ()
        made += [(task.name, one) for one in (*task.set, *(one for rule in rules for one in rule.then.set))]
    return made


def _add(found: dict[tuple[str, str], tuple[str, ...]], key: tuple[str, str], who: str) -> None:
    if who not in found.get(key, ()):
        found[key] = (*found.get(key, ()), who)
