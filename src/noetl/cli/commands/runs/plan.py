"""noetl run --plan: what would run, without running anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from noetl.cli.files import one_file
from noetl.cli.output.printing import as_json, colorize, in_colour, note, out
from noetl.cli.playbook_files import load_data, refuse

#: how sure it is that a step runs, in words behind its name
_RUNS = {"yes": "", "perhaps": "  perhaps", "on failure": "  only after a failure"}
_TAKEN = {"yes": "→", "perhaps": "?", "on failure": "✗", "no": "·"}
#: characters of a value
_MOST = 160


def plan(data: bytes, name: str, payload: dict[str, Any], *, legacy: bool, as_data: bool) -> int:
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
    out(as_json(told) if as_data else "\n".join(_text(told, colour=in_colour(sys.stdout))) + "\n")
    return 0


def _text(told: Mapping[str, Any], *, colour: bool) -> Iterator[str]:
    yield f"{colorize(told['path'], 'bold', colour=colour)}: nothing is run"
    for one in told["keychain"]:
        yield f"  needs the credential {one['name']} ({one['kind']})"
    for number, step in enumerate(told["steps"], 1):
        yield ""
        name = colorize(f"{number}. {step['name']}", "bold", colour=colour)
        about = f"  {step['desc']}" if "desc" in step else ""
        yield f"{name}{colorize(_RUNS[step['runs']], 'dim', colour=colour)}{about}"
        yield from (f"   {line}" for line in _step(step))
    if told["not_run"]:
        yield f"\nwould not run: {', '.join(told['not_run'])}"


def _step(step: Mapping[str, Any]) -> Iterator[str]:
    for rule in step.get("admitted", ()):
        yield f"admitted when {rule}"
    if "joins" in step:
        yield f"waits for tokens from {', '.join(step['joins'])}"
    if "loop" in step:
        yield from _loop(step["loop"])
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


#: what is said behind an arc
_WHY = {"yes": "", "perhaps": "", "on failure": "  (only if it fails)", "no": "  (would not be taken)"}


def _loop(loop: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    count = "as many times as there will be items" if loop["count"] is None else f"{loop['count']:,} times"
    if depth:
        count = f"inside of the first, {count}"
    first = "; below is the first" if not depth and loop["count"] != 0 and "loop" not in loop else ""
    yield f"{'  ' * depth}{count}, {loop['mode']}, over {_short(loop['in'])} as iter.{loop['iterator']}{first}"
    if "loop" in loop:
        yield from _loop(loop["loop"], depth + 1)


def _values(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{name}:"
        for key, part in value.items():
            yield from (f"  {line}" for line in _values(str(key), part))
    elif value is not None and value != {}:
        yield f"{name}: {_short(value)}"


def _short(value: Any) -> str:
    import msgspec

    from noetl.lang import escape_controls

    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    text = escape_controls(" ".join(text.split()) if isinstance(value, str) else text)
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"
