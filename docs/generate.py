"""Write the pages that are made from the program itself: `python docs/generate.py`, or `make docs`.

With `--check` nothing is written; the exit code is 1 when a page is not as it would be made.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import fill

import click
import yaml
from dispatch_page import dispatch_page
from grammar_pages import grammar_page, tests_page, tools_page

from noetl.cli.app import cli
from noetl.cli.command_table import COMMANDS
from noetl.config import SETTINGS
from noetl.expr.sandbox.evaluation import DEFAULT_BUDGET
from noetl.expr.scopes import (
    FUNCTIONS,
    JINJA_FILTERS,
    OWN_FILTERS,
    OWN_FUNCTIONS,
    STEP_HELPERS,
    TESTS,
    EvaluationPoint,
    visible_names,
)
from noetl.lang.loader import load
from noetl.lang.printing.diagnostic_report import FileReport, render_text, summarize_problems
from noetl.model.events import EVENTS, Event
from noetl.model.slugs import SLUGS, Slug
from noetl.model.slugs.failures import FAILURES
from noetl.tools.registry import ToolKinds

ROOT = Path(__file__).parents[1]
_MARK = "<!-- written by docs/generate.py -->\n"


def pages() -> Mapping[str, Callable[[], str]]:
    """The generated pages, by their path in the repository."""
    return {
        "docs/reference/grammar.md": grammar_page,
        "docs/reference/tools.md": tools_page,
        "docs/reference/tests.md": tests_page,
        "docs/reference/diagnostics.md": diagnostics_page,
        "docs/reference/errors.md": errors_page,
        "docs/reference/events.md": events_page,
        "docs/reference/cli.md": cli_page,
        "docs/reference/api.md": api_page,
        "docs/reference/settings.md": settings_page,
        "docs/reference/templates.md": templates_page,
        "docs/reference/dispatch.md": dispatch_page,
        "docs/reference/files.md": files_page,
        "docs/mistakes.md": mistakes_page,
    }


def made(path: str) -> str:
    """The text a generated file should have."""
    return f"{_MARK}\n{pages()[path]().rstrip()}\n"


def generated() -> list[str]:
    """All files that are generated."""
    return list(pages())


# --- pages -----------------------------------------------------------------------------------------------------


def diagnostics_page() -> str:
    """Every slug, from the catalogue."""
    parts = [_DIAGNOSTICS_INTRO, "| slug | |", "|---|---|"]
    parts += [f"| [`{slug.code}`](#{slug.code}) | {slug.title} |" for slug in SLUGS.values()]
    return "\n".join([*parts, "", *map(_slug, SLUGS.values())])


def errors_page() -> str:
    """Every kind of error of a run, from the catalogue."""
    parts = [_ERRORS_INTRO, "| kind | | what to do |", "|---|---|---|"]
    parts += [f"| `{one.code}` | {one.title}. {one.meaning} | {one.mend} |" for one in FAILURES.values()]
    return "\n".join(parts)


_ERRORS_INTRO = """\
# Kinds of errors

What `error.kind` may be when a task, a step or an execution has failed. `noetl help KIND` says the same. Plugins add their own.
How to act on them: [route on errors](../howto/route-on-errors.md).
"""


def _slug(slug: Slug) -> str:
    parts = [f"## {slug.code}", f"{slug.title}. {slug.meaning} {slug.why}", slug.mend]
    if slug.wrong:
        parts += ["Wrong:", _fenced(slug.wrong, "yaml wrong"), "Right:", _fenced(slug.right, "yaml")]
    return "\n\n".join(parts) + "\n"


def cli_page() -> str:
    """The help of every command, as it is printed."""
    parts = [_CLI_INTRO]
    settings = {"resilient_parsing": True, "terminal_width": 100}
    with cli.make_context("noetl", [], **settings) as root:
        parts += ["## noetl", _fenced(cli.get_help(root), "text")]
        for name in COMMANDS:
            command = cli.get_command(root, name)
            assert command is not None
            with command.make_context(name, [], root, **settings) as context:
                parts += [f"## noetl {name}", _fenced(command.get_help(context), "text")]
                parts += list(_subcommands(name, command, context))
    return "\n\n".join(parts)


def api_page() -> str:
    """Every route, from the table that the server is made of."""
    from noetl.model.access import MAY
    from noetl.server.http.app import ROUTES

    parts = [_API_INTRO, "| | permission | paths | |\n|---|---|---|---|"]
    parts[-1] += "".join(
        f"\n| `{one.method} {one.path}` | {one.permission} | {one.paths} | {one.about} |" for one in ROUTES
    )
    parts += ["## Permissions", "| role | permissions |\n|---|---|"]
    parts[-1] += "".join(f"\n| `{role}` | {', '.join(sorted(may))} |" for role, may in MAY.items())
    for one in ROUTES:
        if one.query or hasattr(one.takes, "__struct_fields__"):
            parts.append(f"## {one.method} {one.path}")
            rows = [(f"`?{name}`", about) for name, about in one.query.items()]
            rows += [(f"`{name}`", "in the body") for name in getattr(one.takes, "__struct_fields__", ())]
            parts.append("| | |\n|---|---|" + "".join(f"\n| {name} | {about} |" for name, about in rows))
    return "\n\n".join(parts)


_API_INTRO = """\
# The API

Of `noetl dev` and `noetl server`; how to use it: [serve, start and follow](../howto/serve-and-follow.md).
`GET /api/openapi.json` has the shapes of bodies and answers. Bodies are JSON. Errors are `application/problem+json` with
`status`, `title` and `detail`. Every route requires a token (`Authorization: Bearer noetl_…`), except those with the permission
`open`.

*paths* says how a token that is limited to some playbook paths is held to them: `checked`: what it may not see is not there
(404); `whole`: the route is about the whole server, and refuses it (403); `none`: the route is about no playbook.
"""


def _subcommands(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    for below, one in command.commands.items() if isinstance(command, click.Group) else ():
        with one.make_context(below, [], context, resilient_parsing=True, terminal_width=100) as inner:
            yield f"### noetl {name} {below}"
            yield _fenced(one.get_help(inner), "text")


def events_page() -> str:
    """Every event, from the table the engine is held against."""
    optional = [f"`{name}`" for name in Event.__struct_fields__ if name in _WHERE_IT_APPLIES]
    always = [f"`{name}`" for name in Event.__struct_fields__ if name not in _WHERE_IT_APPLIES]
    parts = [
        _EVENTS_INTRO,
        fill(f"Every event has {', '.join(always)}; where they apply also {', '.join(optional)}.", 118),
    ]
    parts += ["| event | of | |\n|---|---|---|"]
    parts[-1] += "".join(
        f"\n| [`{name}`](#{name.replace('.', '')}) | {about.entity_type} | {about.doc} |"
        for name, about in EVENTS.items()
    )
    for name, about in EVENTS.items():
        parts += [f"## {name}", about.doc]
        if about.payload:
            rows = "".join(f"\n| `{key}` | {holds} |" for key, holds in about.payload.items())
            parts.append(f"| payload | |\n|---|---|{rows}")
    return "\n\n".join(parts)


def templates_page() -> str:
    """Which names and filters a template has, and where."""
    everywhere = visible_names(EvaluationPoint.KEYCHAIN, False)
    parts = [
        _TEMPLATES_INTRO,
        "## Names",
        _words(everywhere - FUNCTIONS - OWN_FUNCTIONS, "Everywhere:"),
        _words(frozenset(f"{name}()" for name in OWN_FUNCTIONS), "The language's own functions, also everywhere:"),
        _words(FUNCTIONS, "Functions of Jinja2:"),
    ]
    parts += [
        _words(STEP_HELPERS, "Helpers over `steps`, where the table names them:"),
        "\n".join(_scopes(everywhere)),
        _WORKBOOK,
        _MEANINGS,
    ]
    parts += ["## Filters", _words(OWN_FILTERS, "The language's own:"), _words(JINJA_FILTERS, "Jinja2's:")]
    parts += ["## Tests", _words(TESTS, "After `is`:")]
    limits = f"{DEFAULT_BUDGET.steps:,} units of work and make {DEFAULT_BUDGET.size:,} characters or bytes"
    parts += [f"## Limits\n\nOne evaluation may take {limits}; beyond that it ends with an error."]
    return "\n\n".join(parts)


def _scopes(everywhere: frozenset[str]) -> Iterator[str]:
    yield "| place | names beside those | in a loop also |"
    yield "|---|---|---|"
    for boundary in EvaluationPoint:
        if boundary.name == "WORKBOOK":
            continue  # a workbook's tasks are tasks like any other, less what is their caller's
        plain, looped = visible_names(boundary, False), visible_names(boundary, True)
        names = sorted(plain - everywhere - STEP_HELPERS)
        helpers = ["the helpers"] if plain >= STEP_HELPERS else []
        shown = ", ".join([*(f"`{name}`" for name in names), *helpers])
        yield f"| {boundary.value} | {shown} | {', '.join(f'`{name}`' for name in sorted(looped - plain))} |"


def mistakes_page() -> str:
    """Playbooks with a mistake each, and what the program says to each."""
    parts = [_MISTAKES_INTRO]
    for number, one in enumerate(mistakes(), 1):
        text = one["playbook"]
        loaded = load(text, ToolKinds(), name="playbook.yaml")
        said = (
            render_text(loaded.source, loaded.diagnostics)
            + "\n"
            + summarize_problems([FileReport(loaded.source, loaded.diagnostics)])
        )
        parts += [f"## {number}. {one['title']}", one["about"].strip()]
        parts += [_fenced(text, "yaml wrong"), _fenced(said, "text"), f"Instead: {one['instead'].strip()}"]
    return "\n\n".join(parts)


def mistakes() -> list[dict[str, str]]:
    """The table the page of mistakes is made from."""
    found: list[dict[str, str]] = yaml.safe_load((ROOT / "docs" / "mistakes.yaml").read_text(encoding="utf-8"))
    return found


def files_page() -> str:
    """Every module and the first paragraph of its docstring, by package."""
    lines, folder = [_FILES_INTRO], None
    for path in sorted((ROOT / "src" / "noetl").rglob("*.py"), key=lambda one: (one.parent.parts, one.name)):
        place = path.parent.relative_to(ROOT / "src").as_posix()
        if place != folder:
            lines += ["", f"## {place}", ""]
            folder = place
        about = (
            (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].replace("\n", " ")
        )
        lines.append(f"* `{path.name}`: {about}")
    return "\n".join(lines)


def settings_page() -> str:
    """Every variable of the environment, and the keys of `noetl.toml`."""
    files = {"": "", "home": "of `NOETL_HOME`", "project": "any"}
    rows = [
        f"| `{name}` | {one.doc} | {one.default} | {files[one.file]} |" for name, one in SETTINGS.items()
    ]  # fmt: skip
    return "\n".join([_SETTINGS_INTRO, "| variable | meaning | default | `noetl.toml` |", "|---|---|---|---|", *rows])


_SETTINGS_INTRO = """\
# Settings

Every setting of a NoETL process: a variable of the environment, and for most of them a key of the file
`noetl.toml`. The environment goes before the files.

There are two files. The one in `NOETL_HOME` may hold every key that the last column names. The one in the
current folder belongs to a project: it is laid over the first, and may hold only the keys marked *any*. It
cannot name stores, servers or hosts. Secrets are in no file.

A key is the name of the variable, or the same without `NOETL_` in lower case. A list is written with
commas in the environment, and may be a list in the file:

```toml
catalog = ["books", "../shared/books"]
durability = "power"
```

Relative paths in a file start at the folder of that file.
"""


_FILES_INTRO = """\
# Files

Every module of `src/noetl`, with the first paragraph of its docstring. [ARCHITECTURE.md](../../ARCHITECTURE.md) explains how the
packages work together and which files to read first."""


# --- words -----------------------------------------------------------------------------------------------------


def _fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def _words(words: frozenset[str], before: str) -> str:
    return fill(f"{before} {', '.join(f'`{word}`' for word in sorted(words))}.", 118, break_long_words=False)


_DIAGNOSTICS_INTRO = """# Diagnostics

Every problem has a slug. `noetl help SLUG` prints its entry. All problems of a file are told at once; `--strict` makes
errors of warnings; `--fix` mends what can be mended without a doubt. A slug `legacy-…` names a construct of an older
dialect by its old word; `noetl migrate` rewrites it.
"""
#: the fields of an event that not every event has
_WHERE_IT_APPLIES = {"parent_id", "step_run_id", "task_run_id", "iteration", "attempt"}
_EVENTS_INTRO = """# Events

What the log of an execution consists of: `noetl events ID --json` prints one per line, as it is stored. Events are never
changed. `seq` counts from 1 without a gap. `event_id` is the execution's id and `seq`; `parent_id` is the event that caused
this one. `entity_id` is the step for events of steps, loops and arcs, `step.task` for tasks, and the playbook's path for the
rest. `iteration` counts from 0; in nested loops it is text, `"2.0"`. A key of a payload is there when it has something to
say."""
_CLI_INTRO = """# The command line

Exit codes: 0 done, 1 the execution failed or something is not as it should be (`--check`), 2 the playbook or the command
line is invalid, 130 interrupted, 143 terminated. An execution is meant by its ID, by the beginning of it, or by `last`.
Output is coloured at a terminal and plain otherwise; `NO_COLOR` holds."""
_TEMPLATES_INTRO = """# Templates

Jinja2, sandboxed. A string that is exactly one `{{ … }}` yields the expression's own value: a number stays a number, a
list a list. Any other string yields text, in which maps and lists appear as JSON, booleans as `true` and `false`, and
null as nothing. Templates stand in values, never in keys; Python `code` is never a template.

A missing attribute is undefined, at any depth: `{{ output.data.paging.more | default(false) }}` always works. An
undefined that reaches a value is an error. In a `when`, an undefined is false, and so is any comparison with it; whatever
else is done with one is an error there too, so write `{{ ctx.rows | default([]) | length == 0 }}`. See
[decision 0001](../decisions/0001-undefined-in-templates.md)."""
_WORKBOOK = "A workbook's tasks see nothing of their caller: no `iter` and no `steps`; `step` is the call's own."
_MEANINGS = """## What the names hold

| name | value |
|---|---|
| `_prev` | `output.data` of the task before in the same pipeline; null in the first task |
| `_task` | the name of the current task |
| `_attempt` | the number of the current try, from 1; it starts at 1 again when a `jump` returns to the task |
| `steps.NAME.status` | how a step stands: `done`, `ok`, `running`, `started_at`, `finished_at`, `error` (the message, or null), `failure` (the error as a map with `kind` and `message`, or null); of a loop also `total`, `completed`, `succeeded`, `failed` |

`steps` has the status of other steps, not their data. Publish data with `set: {ctx.NAME: …}`.

### Helpers

Each takes the name of a step, or a list of names, and looks at the latest run of the step.

| helper | true when |
|---|---|
| `done('a')` | the step has ended, well or not |
| `ok('a')` | it has ended well |
| `fail('a')` | it has failed |
| `running('a')` | it is scheduled or runs |
| `loop_done('a')` | its loop has ended |
| `all_done(['a', 'b'])`, `any_done(['a', 'b'])` | all of them are done; at least one is |
| `quiet()` | in admission rules: no other token or running step can still reach this step; gates that wait only for each other are opened one at a time, when nothing else can move |

After a cancelled run, `done`, `ok`, `fail` and `running` are false.

### output

| part | value |
|---|---|
| `output.status` | `ok` or `error` |
| `output.data` | the result; null after an error |
| `output.ref` | a reference to the result in the result store; null where the result is in the log only |
| `output.error` | null, or `kind`, `message`, `retryable`, and what the kind adds |
| `output.meta` | `attempt`, `duration_ms`, `started_at`, `finished_at`; of `playbook` also `execution_id`, that of the child |
| `output.http` | of `http`: `status`, and `headers` with names in lower case |
| `output.pg` | of `postgres`: `code`, `sqlstate`, `message`, `rowcount` |
| `output.py` | of `python`, after an exception: `exception_type`, `exception` |
| `output.loop` | of a step with a loop: `total`, `completed` (failures included), `succeeded`, `failed` |

The output of a step is that of its last task that ran. The data of a loop is the list of its iterations' data, in order; a
failed iteration contributes null."""
_MISTAKES_INTRO = """# Common mistakes

Each with what `noetl validate` says to it."""


def main(arguments: list[str]) -> int:
    """Write or check all pages."""
    stale = [
        path
        for path in generated()
        if not (ROOT / path).exists() or (ROOT / path).read_text(encoding="utf-8") != made(path)
    ]
    for path in stale:
        if "--check" in arguments:
            sys.stdout.write(f"{path} is out of date; `make docs` writes it\n")
            continue
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(made(path), encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
