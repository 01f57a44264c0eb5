"""A task's own fields, rendered: SQL to statements with parameters, shell to safe text, everything else to values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from noetl.errors import TemplateError
from noetl.expr import Template, TemplateValue, compile_command, has_template, render
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.playbook import Task
from noetl.pipeline import RunTask
from noetl.ports import Call


def call_of(
    move: RunTask,
    kind: ToolKind,
    *,
    step: str,
    iteration: int | str | None,
    progress: Mapping[str, Any] | None = None,
) -> Call:
    """What a tool is told. A TemplateError says that the task cannot be rendered."""
    task, scopes = move.task, move.scopes
    config = {name: _field(name, value, kind, scopes) for name, value in task.config.items()}
    if kind.input is InputRole.CONFIGURES:
        config = {**config, **move.own_input}
    if kind.sql:
        given = move.input if kind.input is InputRole.ARGUMENTS else {}
        config = _bind_sql(config, kind.sql, scopes, given)
        config |= {name: _bind_sql(part, kind.sql, scopes, {}) for name in kind.late if (part := config.get(name))}
    return Call(
        kind.name,
        scopes["execution_id"],
        step,
        task.name,
        config,
        move.input,
        move.own_input,
        spec_of(task, scopes),
        scopes["task_key"],
        move.attempt,
        scopes,
        iteration,
        progress,
    )


def spec_of(task: Task, scopes: Mapping[str, Any]) -> dict[str, Any]:
    """The effective spec, rendered. Schemas are no templates, and no tool's business."""
    return {
        name: render(layered.value, scopes) for name, layered in task.spec.items() if not name.startswith("validate.")
    }


def _field(name: str, value: Any, kind: ToolKind, scopes: Mapping[str, Any]) -> Any:
    if name in kind.shell and isinstance(value, TemplateValue):
        return _command(value.tree, scopes)
    if name in kind.sql and isinstance(value, TemplateValue):
        return value.tree
    if name in kind.literal or not isinstance(value, TemplateValue):
        return value
    found = value.evaluate(scopes)
    if name in kind.paths and not value.constant and _leads_out(str(found)):
        said = f"`{name}` leads out of the playbook's folder: {found}; only a path without a template may"
        raise TemplateError(said, expression=str(getattr(value.tree, "source", "")))
    return found


def _leads_out(path: str) -> bool:
    """Whether a path, told from its text alone, ends outside of the folder at which it starts."""
    parts = PurePosixPath(path.replace("\\", "/")).parts
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return path.startswith(("/", "\\", "~")) or "\0" in path


def _command(tree: Any, scopes: Mapping[str, Any]) -> Any:
    """Shell text, or a list of it; each template in it stands for one word."""
    if isinstance(tree, list):
        return [_command(part, scopes) for part in tree]
    source = getattr(tree, "source", tree)
    return compile_command(source).render(scopes) if isinstance(source, str) else source


def _bind_sql(config: Any, keys: frozenset[str], scopes: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """A map with the SQL under some of its keys bound to its values; `params` beside it wins over what is given."""
    if not isinstance(config, Mapping) or not keys & config.keys():
        return config
    params = config.get("params")
    names = {**given, **params} if isinstance(params, Mapping) else given
    return {name: _query(part, scopes, names) if name in keys else part for name, part in config.items()}


def _query(text: Any, scopes: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    from noetl.expr import compile_sql  # few playbooks need to know SQL

    if isinstance(text, Template):
        return compile_sql(text.source).bind(scopes, names)
    if not isinstance(text, str):
        return text
    if has_template(text):
        raise TemplateError("a statement that comes out of data cannot hold templates", expression=text)
    return compile_sql(text).bind(scopes, names)
