"""noetl run: runs a playbook from its file to its end, or with --plan says what would run."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from noetl.cli.catalog_folders import catalog_option, open_folders
from noetl.cli.commands.runs.run_request import RunRequest
from noetl.cli.files import STDIN, is_unicode, near, one_file, read
from noetl.cli.output.printing import as_json, colorize, in_colour, note, out
from noetl.cli.playbook_files import FILE, load_data, refuse
from noetl.errors import UsageError

if TYPE_CHECKING:
    from noetl.app import LocalNode
    from noetl.cli.output.progress import QuietScreen, Screen
    from noetl.model.net import Net
    from noetl.ports import PlaybookSource, Summary
    from noetl.server.core import LiveExecution


#: how sure it is that a step runs, in words behind its name
_RUNS = {"yes": "", "perhaps": "  perhaps", "on failure": "  only after a failure"}
_TAKEN = {"yes": "→", "perhaps": "?", "on failure": "✗", "no": "·"}
#: what is said behind an arc
_WHY = {"yes": "", "perhaps": "", "on failure": "  (only if it fails)", "no": "  (would not be taken)"}
#: characters of a value
_MOST = 160
#: of a text of several lines, such as a script or a query, so many are shown
_MOST_LINES = 20


def _check_key(_context: click.Context, _option: click.Parameter, key: str | None) -> str | None:
    from noetl.server.core import LONGEST_KEY

    if key is not None and not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise UsageError(f"--key takes 1 to {LONGEST_KEY} printable ASCII characters")
    return key


@click.command()
@click.argument("file", metavar="FILE|PATH", type=FILE)
@click.option("--payload", metavar="JSON|@FILE", help="What the run is given: laid over the playbook's workload.")
@click.option("--set", "settings", metavar="a.b=1", multiple=True, help="One value of the payload; may be repeated.")
@click.option(
    "--key", metavar="KEY", callback=_check_key, help="Start this run once, however often the command is repeated."
)
@catalog_option
@click.option("--legacy", is_flag=True, help="Accept older dialects as they are.")
@click.option("--detach", is_flag=True, help="With --server: print the execution's id, and do not wait for its end.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what would run, and run nothing.")
@click.option("--json", "as_document", is_flag=True, help="Print one JSON document at the end and nothing else.")
def command(  # noqa: PLR0913  it has as many options
    *,
    file: str,
    payload: str | None,
    settings: tuple[str, ...],
    key: str | None,
    folders: tuple[str, ...],
    legacy: bool,
    detach: bool,
    only_plan: bool,
    as_document: bool,
) -> int:
    """Run a playbook to its end, with progress on stderr.

    FILE is a playbook's file; PATH is that of a playbook that was run before, which is run as it was then.

    Every step is recorded as it happens: a run that is killed goes on with `noetl resume`. Ctrl-C cancels it for good, a
    second one ends everything at once. The exit code is 0 when the run completed, 1 when it failed, 2 when the playbook is
    invalid, 130 when it was interrupted.

    With --key, the same command can be repeated safely, as by a job that is retried: the run of a key is started once. A later
    command waits for its end and reports it, and resumes it if its process has gone. The same key for another playbook or
    another payload is refused.

    With --server, the server runs it: its text is sent, and those of the playbooks that it calls. It goes on there when this
    command is killed, or with --detach; `noetl events ID --follow` follows it again.
    """
    from noetl.cli.commands.runs.payload import check_settings, payload_of
    from noetl.cli.target import client

    given, there = payload_of(payload, settings), client()
    if detach and there is None:
        raise UsageError(
            "--detach leaves a run to a server, and none is named: `noetl dev` starts one, --server names it"
        )
    if key is not None and only_plan:
        raise UsageError("--plan runs nothing, so it takes no --key")
    known = _find_recorded(file)
    if known is None:
        data, path, name = _read(file), Path(file).absolute(), file
    else:
        data, path, name, legacy = known.text.encode(), Path(known.file), near(known.file), known.legacy
        if not as_document:
            _note_source(known, name)
    check_settings(data, settings)
    if only_plan:
        return _print_plan(data, name, given, legacy=legacy, as_data=as_document)
    request = RunRequest(
        name, path, data, given, legacy, file if known is not None else None, key, open_folders(folders)
    )
    if there is not None:
        from noetl.cli.commands.runs.remote_runs import send

        return asyncio.run(send(there, request, detach=detach, as_document=as_document))
    return asyncio.run(_run(request, as_document=as_document))


def _find_recorded(path: str) -> PlaybookSource | None:
    """The playbook that was last run under a path; None: a file is meant."""
    from noetl.cli.executions import open_command_log
    from noetl.cli.target import servers
    from noetl.config import settings

    if path == STDIN or os.path.lexists(path):
        if not is_unicode(path):
            raise UsageError(f"{path!a}: the name of this file is not UTF-8, so it cannot be recorded; rename it")
        return None
    if not is_unicode(path) or not (servers() or settings().has_records):
        return None
    with open_command_log() as log:
        return log.latest(path)


def _read(file: str) -> bytes:
    try:
        return read(one_file(file))
    except UsageError as error:
        if file == STDIN or Path(file).suffix or os.path.lexists(file):
            raise
        raise UsageError(f"{error}, nor was a playbook run under that path") from None


def _note_source(known: PlaybookSource, name: str) -> None:
    from noetl.cli.executions import was_edited

    edited = f"; it was edited since, `noetl run {name}` runs it as it is now" if was_edited(known) else ""
    note(f"runs what was recorded of {name}{edited}")


async def _run(request: RunRequest, *, as_document: bool) -> int:
    from noetl.app import open_local_node
    from noetl.cli.commands.runs.follow import follow, load_runnable, report_end
    from noetl.cli.local_audit import record
    from noetl.cli.output.progress import progress

    async with open_local_node() as node:
        source, net = load_runnable(node.catalog, request, as_document=as_document)
        with progress(node.service.watchers, quiet=as_document) as shown:
            calls = await _keep_calls(node, request, net)
            if request.key is None:
                is_new = True
                shown.roots.append(await node.start(source, net, request.payload, calls=calls))
            else:
                is_new = await _start_once(node, request, source, net, shown, calls=calls)
            started = [f"{live.id} {live.state.path}" for live in shown.roots] if is_new else []
            recording = asyncio.ensure_future(record(node.log, "execution.start", *started))
            interrupted = await follow(node, shown)
        await recording
        return await report_end(node, shown.roots, interrupted=interrupted, as_document=as_document)


async def _keep_calls(node: LocalNode, request: RunRequest, net: Net) -> dict[str, str]:
    """Keep the playbooks of the catalog that are called, so that the run has the same ones when it is resumed.

    Without a catalog they are in the caller's folder, and are read when they are called.
    """
    if not request.folders.folders or request.path is not None:
        return {}
    calls: dict[str, str] = {}
    for one in request.collect_calls(net):
        source, _ = node.catalog.read(Path(one.file), one.text.encode(), legacy=request.legacy)
        await node.keep(source)
        calls |= dict.fromkeys(one.names, source.hash)
    return calls


# noetl run --key

#: seconds between two looks at a run that another process has
_POLL_S = 0.2


async def _start_once(
    node: LocalNode, request: RunRequest, source: PlaybookSource, net: Net, shown: Screen | QuietScreen, **more: Any
) -> bool:
    """Start the run of a key; one that was started before is waited for, and resumed if no process has it. Whether it is new."""
    from noetl.ports import Summary
    from noetl.server.core import KeyReused

    try:
        found = await node.start_once(request.start_key(), source, net, request.payload, **more)
    except KeyReused as error:
        raise UsageError(f"{error}; use another key") from None
    if isinstance(found, Summary):
        note(f"{found.execution_id} was started with this key before")
        shown.on_resume(await _join(node, found))
        return False
    shown.roots.append(found)
    return True


async def _join(node: LocalNode, summary: Summary) -> LiveExecution:
    """Wait while another process has the run, then read its end; where there is none, resume it here."""
    from noetl.ports import OVER
    from noetl.server.core import OwnedElsewhere

    found: Summary | None = summary
    while found is not None:
        if found.status in OVER or not found.is_attended:
            try:
                return await node.resume(found.execution_id)
            except OwnedElsewhere:
                pass  # another process was faster, and is waited for
        await asyncio.sleep(_POLL_S)
        found = await asyncio.to_thread(node.log.summary, summary.execution_id)
    raise UsageError(f"{summary.execution_id} was removed before its end was read")


# noetl run --plan


def _print_plan(data: bytes, name: str, payload: dict[str, Any], *, legacy: bool, as_data: bool) -> int:
    """Print what would run; where the playbook or the payload is invalid, that."""
    from noetl.cli.commands.runs.payload import check_payload, find_unknown_keys
    from noetl.lang import dry_run
    from noetl.model.scope import merge_maps
    from noetl.tools import ToolKinds

    loaded = load_data(data, one_file(name).name, legacy=legacy)
    if loaded.net is None:
        refuse(loaded, json=as_data)
    refused = check_payload(loaded, payload)
    if refused is not None:
        refuse(refused, json=as_data)
    workload = loaded.net.playbook.workload
    for stranger in find_unknown_keys(workload, payload):
        note(stranger)
    told = dry_run(loaded.net, merge_maps(workload, payload), ToolKinds())
    out(as_json(told) if as_data else "\n".join(_plan_text(told, colour=in_colour(sys.stdout))) + "\n")
    return 0


def _plan_text(told: Mapping[str, Any], *, colour: bool) -> Iterator[str]:
    yield f"{colorize(told['path'], 'bold', colour=colour)}: nothing is run"
    for one in told["keychain"]:
        yield f"  needs the credential {one['name']} ({one['kind']})"
    for number, step in enumerate(told["steps"], 1):
        yield ""
        name = colorize(f"{number}. {step['name']}", "bold", colour=colour)
        about = f"  {step['desc']}" if "desc" in step else ""
        yield f"{name}{colorize(_RUNS[step['runs']], 'dim', colour=colour)}{about}"
        yield from (f"   {line}" for line in _plan_step(step))
    if told["not_run"]:
        yield f"\nwould not run: {', '.join(told['not_run'])}"


def _plan_step(step: Mapping[str, Any]) -> Iterator[str]:
    for rule in step.get("admitted", ()):
        yield f"admitted when {rule}"
    if "joins" in step:
        yield f"waits for tokens from {', '.join(step['joins'])}"
    if "loop" in step:
        yield from _plan_loop(step["loop"])
    yield from _values("input", step.get("input"))
    for task in step["tasks"]:
        auth = f", auth {task['auth']}" if "auth" in task else ""
        yield f"{task['name']}: {task['kind']}{auth}"
        more = {name: task[name] for name in ("input", "output") if name in task}
        for name, value in {**task["with"], **more}.items():
            yield from (f"  {line}" for line in _values(name, value))
    if "plans" in step:
        yield f"plans further steps: {_short(step['plans'])}"
    for arc in step["next"]:
        condition = f" when {arc['when']}" if "when" in arc else ""
        yield f"{_TAKEN[arc['taken']]} {arc['to']}{condition}{_WHY[arc['taken']]}"


def _plan_loop(loop: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    count = "as many times as there will be items" if loop["count"] is None else f"{loop['count']:,} times"
    if depth:
        count = f"inside of the first, {count}"
    first = "; below is the first" if not depth and loop["count"] != 0 and "loop" not in loop else ""
    yield f"{'  ' * depth}{count}, {loop['mode']}, over {_short(loop['in'])} as iter.{loop['iterator']}{first}"
    if "loop" in loop:
        yield from _plan_loop(loop["loop"], depth + 1)


def _values(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{name}:"
        for key, part in value.items():
            yield from (f"  {line}" for line in _values(str(key), part))
    elif isinstance(value, str) and "\n" in value.strip():
        yield f"{name}: |"
        lines = value.strip("\n").splitlines()
        yield from (f"  {_short_line(line)}" for line in lines[:_MOST_LINES])
        if len(lines) > _MOST_LINES:
            yield f"  … {len(lines) - _MOST_LINES} more lines"
    elif value is not None and value != {}:
        yield f"{name}: {_short(value)}"


def _short(value: Any) -> str:
    import msgspec

    from noetl.lang import escape_controls

    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return _cut(escape_controls(" ".join(text.split()) if isinstance(value, str) else text))


def _short_line(line: str) -> str:
    from noetl.lang import escape_controls

    return _cut(escape_controls(line.rstrip()))


def _cut(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
