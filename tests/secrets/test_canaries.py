"""Random secrets, short and long, through every tool and failure path: none is found in any byte of the home, nor in any output."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import re
import string
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote, quote_plus

import pytest
import yaml
from waiting import wait_until

from noetl.cli.app import run as noetl
from noetl.results.zstd import ZstdError, decompress_blocks
from noetl.tools import registry

PER_STEP = 10
#: of a longer one, parts are looked for as well
LONG = 400
PYTHON_LEAK = """
import base64, json, sys, time, urllib.parse
def main(values):
    for value in values.values():
        middle = len(value) // 2
        print("out", value[:middle], end="", flush=True)
        time.sleep(0.002)
        print(value[middle:], "and", value, file=sys.stdout)
        print("err", json.dumps(value), file=sys.stderr)
    found = {}
    for name, value in values.items():
        data = value.encode()
        found[name] = [value, base64.b64encode(data).decode(), base64.b64encode(b"x" + data).decode(),
            base64.b64encode(b"xy" + data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex(),
            urllib.parse.quote(value, safe=""), urllib.parse.quote_plus(value), json.dumps(value), value[::-1],
            data.hex().upper(), "\\0".join(value), repr(value)]
        found["as a key " + value] = {value: 1}
    return found
"""
PYTHON_RAISES = """
class Odd(Exception): pass
def main(values):
    token = list(values.values())
    raise Odd(f"denied for {token} and {token[0]!r}")
"""
PYTHON_LEAVES = "import sys\ndef main(values):\n    sys.exit('no ' + ' '.join(values.values()))\n"
PYTHON_NOT_JSON = "def main(values):\n    return {v: {v} for v in values.values()}\n"
PYTHON_HANGS = (
    "import time\ndef main(values):\n    print(' '.join(values.values()), end='', flush=True)\n    time.sleep(60)\n"
)
PYTHON_LARGE = "def main(values):\n    rows = [list(values.values()), 'x' * 1000] * 200\n    return {'rows': rows, 'some': rows[0]}\n"
PYTHON_SPILLS = "def main(values):\n    return [{'n': n, **values} for n in range(1200)]\n"
PYTHON_SPILLS_A_MAP = "def main(values):\n    return {v: {'rows': [v, 'x' * 5000] * 30} for v in values.values()}\n"
SHELL_SPILLS = 'for n in 0 1 2 3 4 5 6 7 8 9; do eval "v=\\$c$n"; printf "%s" "$v" | base64; printf "%s" "$v" | base64 >&2; yes "$v" | head -n 100; done; head -c 1200000 /dev/zero | tr "\\0" x'
SHELL_LEAK = 'for n in 0 1 2 3 4 5 6 7 8 9; do eval "v=\\$c$n"; printf "%s" "$v" | cut -c1-7 | tr -d "\\n"; sleep 0.01; printf "%s\\n" "$v" | cut -c8-; printf "%s\\n" "$v" >&2; done'


class Echo(BaseHTTPRequestHandler):
    """Says back everything it was told, as APIs do in their errors; and speaks as Vault does."""

    secrets: ClassVar[dict[str, dict[str, Any]]] = {}

    def do_GET(self) -> None:
        if self.path.startswith("/v1/secret/data/"):
            data = self.secrets.get(self.path.rpartition("/")[2])
            self.answer(200 if data else 404, {"data": {"data": data, "metadata": {"version": 1}}})
            return
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        status = int(match[1]) if (match := re.match(r"/(\d{3})", self.path)) else 200
        note = "x" * (2_000_000 if "/large" in self.path else 120)
        self.answer(status, {"path": self.path, "headers": dict(self.headers), "note": note, "body": body})

    do_POST = do_GET  # noqa: N815  as the class wants it

    def answer(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("X-Echo", quote(str(self.headers.get("Authorization"))))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def steps() -> dict[str, dict[str, Any]]:
    """A way out for secrets each: `K` stands for the step's own credential."""
    values = {"values": "{{ keychain.K }}"}
    one = "{{ keychain.K.c0 }}"
    env = {f"c{n}": f"{{{{ keychain.K.c{n} }}}}" for n in range(PER_STEP)}
    each = " ".join(env.values())
    return {
        "noop": {"kind": "noop", "input": values, "output": "{{ input.values }}", "set": {"step.kept": "{{ output.data }}", "ctx.kept": "{{ output.data }}"}},
        "python": {"kind": "python", "input": values, "code": PYTHON_LEAK, "set": {"ctx.found": "{{ output.data }}"}},
        "raises": {"kind": "python", "input": values, "code": PYTHON_RAISES},
        "leaves": {"kind": "python", "input": values, "code": PYTHON_LEAVES},
        "not_json": {"kind": "python", "input": values, "code": PYTHON_NOT_JSON},
        "hangs": {"kind": "python", "input": values, "code": PYTHON_HANGS, "spec": {"timeout": 1}},
        "auth_python": {"kind": "python", "auth": "K", "code": "def main(auth):\n    print(auth)\n    return auth\n"},
        "http": {"kind": "http", "method": "POST", "url": "{{ workload.url }}/200", "auth": "K", "json": values, "set": {"ctx.http": "{{ output.http }}"}},
        "refused": {"kind": "http", "url": "{{ workload.url }}/401", "auth": "K", "headers": {"X-All": "{{ keychain.K | tojson | urlencode }}"}, "spec": {"policy": {"rules": [{"when": "{{ output.status == 'error' }}", "then": {"do": "retry", "attempts": 2, "delay": 0.01}}]}}},
        "unreachable": {"kind": "http", "url": "http://127.0.0.1:1/{{ keychain.K.c0 | urlencode }}", "params": values},
        "no_url": {"kind": "http", "url": one},
        "shell": {"kind": "shell", "cmd": SHELL_LEAK, "env": env},
        "shell_fails": {"kind": "shell", "cmd": f"echo {each} >&2; echo {each}; exit 3"},
        "shell_hangs": {"kind": "shell", "cmd": f"printf '%s' {each}; sleep 60", "spec": {"timeout": 0.5}},
        "shell_cannot": {"kind": "shell", "cmd": "true", "cwd": f"/nowhere/{one}"},
        "child": {"kind": "playbook", "path": "child", "input": values},
        "workbook": {"kind": "workbook", "task": "leaky", "input": values},
        "waits": {"kind": "wait", "until": one},
        "template": {"kind": "noop", "input": {"n": "{{ keychain.K.c0 + 1 }}", "m": "{{ keychain.K[keychain.K.c1] }}"}},
        "ruled": {"kind": "noop", "input": {"text": each, "b64": "{{ keychain.K.c2 | b64encode }}"}, "output": "{{ input }}", "spec": {"policy": {"rules": [{"else": {"then": {"do": "fail", "message": "no {{ output.data }}"}}}]}}},
        "secrets": {"kind": "secrets", "provider": "PROVIDER", "secret": "PLACE"},
        "large": {"kind": "python", "input": values, "code": PYTHON_LARGE, "set": {"step.big": "{{ output.data.rows }}", "ctx.some": "{{ output.data.some }}"}},
        "rows": {"kind": "python", "input": values, "code": "def main(values):\n    return [{'n': n, **values} for n in range(2000)]\n", "spec": {"result": {"select": {"first": "$[0]"}}}},
        "spills": {"kind": "python", "input": values, "code": PYTHON_SPILLS},
        "spills_a_map": {"kind": "python", "input": values, "code": PYTHON_SPILLS_A_MAP},
        "shell_spills": {"kind": "shell", "cmd": SHELL_SPILLS, "env": env},
        "http_spills": {"kind": "http", "method": "POST", "url": "{{ workload.url }}/200/large", "auth": "K", "json": values},
        "duckdb": {"kind": "duckdb", "query": "SELECT {{ keychain.K.c1 }} AS a, {{ keychain.K.c0 }} || i AS b FROM range(1500) r(i)"},
        "duckdb_fails": {"kind": "duckdb", "query": "SELECT CAST({{ keychain.K.c0 }} AS INTEGER), {{ keychain.K.c1 }}::DATE"},
        "transfer": {"kind": "transfer", "source": {"kind": "data", "data": [{"a": one, "b": "{{ keychain.K.c1 }}"}]}, "targets": [{"kind": "file", "path": "out.csv", "format": "csv"}]},
        "transfer_fails": {"kind": "transfer", "source": {"kind": "data", "data": [one]}, "targets": [{"kind": "file", "path": "no.csv", "format": "csv"}]},
        "resolve": {"kind": "resolve", "ref": one},
        "resolve_path": {"kind": "resolve", "ref": {"type": "blob", "locator": {"path": "x{{ keychain.K.c0 }}"}, "auth_reference": None, "meta": {}}},
        "validates": {"kind": "noop", "input": {"t": one, "u": "{{ keychain.K.c1 }}"}, "spec": {"validate": {"input": {"properties": {"t": {"type": "integer"}, "u": {"maxLength": 3}}}}}},
        "cuts": {"kind": "python", "input": values, "code": "def main(values):\n    raise KeyError(*(value[: len(value) * 3 // 4] for value in values.values()))\n"},
        "no_secret": {"kind": "secrets", "provider": "env", "secret": one},
        "plugin": {"kind": "canary_plugin", "text": each},
        "plugin_breaks": {"kind": "canary_plugin", "text": each, "breaks": True},
    }  # fmt: skip


def canaries(count: int) -> list[str]:
    chance = random.Random(20260131)
    plain = string.ascii_letters + string.digits
    odd = plain + "-_/+=.:&?%\"'\\ <>é"
    sizes = [800 if n % PER_STEP == 0 else chance.randint(12, 32) for n in range(count)]
    return ["".join(chance.choices(odd if n % 3 == 0 else plain, k=size)).strip() for n, size in enumerate(sizes)]


def encodings(canary: str) -> dict[str, bytes]:
    """What is searched for: in each of these somebody could read it."""
    data = canary.encode()
    found = {
        "raw": data,
        "base64url": base64.urlsafe_b64encode(data).rstrip(b"=")[:-1],
        "hex": data.hex().encode(),
        "HEX": data.hex().upper().encode(),
        "URL": quote(canary, safe="").encode(),
        "form": quote_plus(canary).encode(),
        "JSON": json.dumps(canary)[1:-1].encode(),
        "UTF-16-LE": canary.encode("utf-16-le"),
        "UTF-16-BE": canary.encode("utf-16-be"),
        "reversed": canary[::-1].encode(),
    }
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).rstrip(b"=")
        found[f"base64 behind {before}"] = whole[(0, 2, 3)[before] : -1]
        if len(data) > LONG:
            found[f"line of base64 behind {before}"] = whole[100:140]
    if len(data) > LONG:
        found["its beginning"], found["its middle"], found["its end"] = data[:20], data[300:340], data[-20:]
    return found


def streams(data: bytes) -> Iterator[bytes]:
    """The bytes, and what is compressed within them."""
    yield data
    for match in re.finditer(rb"\x1f\x8b\x08", data):
        try:
            yield zlib.decompressobj(31).decompress(data[match.start() :])
        except zlib.error:
            continue
    for match in re.finditer(rb"\x28\xb5\x2f\xfd", data):
        found = bytearray()
        with suppress(ZstdError):
            for block in decompress_blocks(io.BytesIO(data[match.start() :])):
                found += block
        yield bytes(found)


#: whatever holds a needle of at least twice this length has a piece of this length that is all of the needle
PIECE = 5


def hits(places: dict[str, bytes], secrets: list[str]) -> list[tuple[str, str, str]]:
    needles = [(name, secret, needle) for secret in secrets for name, needle in encodings(secret).items()]
    assert min(len(needle) for _, _, needle in needles) >= 2 * PIECE
    # Thousands of needles, each sought through megabytes, would take a minute: most streams share no piece with any.
    by_piece: dict[bytes, list[int]] = {}
    for number, (_, _, needle) in enumerate(needles):
        for piece in {needle[start : start + PIECE] for start in range(len(needle) - PIECE + 1)}:
            by_piece.setdefault(piece, []).append(number)
    found = []
    for place, data in places.items():
        for stream in streams(data):
            pieces = {stream[start : start + PIECE] for start in range(0, len(stream), PIECE)}
            for number in sorted({number for piece in pieces & by_piece.keys() for number in by_piece[piece]}):
                name, secret, needle = needles[number]
                found += [(place, name, secret)] if needle in stream else []
    return found


def test_the_search_itself_finds_what_is_there() -> None:
    [secret] = canaries(1)
    packed = gzip.compress(json.dumps({"a": [secret]}).encode())
    assert hits({"file": b"junk" + packed + b"junk"}, [secret])
    assert hits({"file": b"junk" + base64.b64encode(b"u:" + secret.encode() + b"!")}, [secret])


@pytest.mark.parametrize("before", range(PIECE))
def test_the_search_finds_every_spelling_wherever_it_begins(before: int) -> None:
    secrets = canaries(30)
    for secret in secrets:
        spelled = encodings(secret)
        found = hits({name: b"\0" * before + needle for name, needle in spelled.items()}, [secret])
        assert {(name, name, secret) for name in spelled} <= set(found)
    text = b" ".join(secret.encode() for secret in secrets)
    assert {secret for _, _, secret in hits({"file": text}, secrets)} == set(secrets)


def write_playbooks(folder: Path, secrets: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One step for each way out, with ten secrets of its own; they come from the environment, files, the store, Vault."""
    tools = steps()
    keychain, workflow = [], []
    for number, (name, tool) in enumerate(tools.items()):
        mine = {f"c{n}": secret for n, secret in enumerate(secrets[number * PER_STEP : (number + 1) * PER_STEP])}
        mine["token"] = mine["c0"]
        source = ("env", "file", "store", "vault")[number % 4]
        place = {"env": f"CANARY_{number}", "file": f"{name}.json", "store": name, "vault": f"secret/{name}"}[source]
        if source == "env":
            monkeypatch.setenv(place, json.dumps(mine))
        elif source == "file":
            (folder / place).write_text(json.dumps(mine))
        elif source == "store":
            (folder / "value.json").write_text(json.dumps(mine))
            assert noetl(["credential", "add", place, "--file", "value.json"]) == 0
            (folder / "value.json").unlink()
        else:
            Echo.secrets[name] = mine
        keychain.append({"name": name, "kind": "generic", "from": {source: place}})
        following = list(tools)[number + 1] if number + 1 < len(tools) else "end"
        arcs = [
            {"step": following},
            {"step": following, "when": "{{ event.name == 'step.failed' and event.error.message != '' }}"},
        ]
        task = json.loads(
            json.dumps(tool).replace("keychain.K", f"keychain.{name}").replace('"auth": "K"', f'"auth": "{name}"')
        )
        if task.get("provider") == "PROVIDER":
            task |= {"provider": source, "secret": place}
        workflow.append({"step": name, "tool": task, "next": {"arcs": arcs}})
    leaky = {"kind": "python", "code": "def main(values):\n    print(values)\n    return [*values.values()]\n"}
    head = {"apiVersion": "noetl.io/v2", "kind": "Playbook"}
    whole = head | {
        "metadata": {"name": "leaky"},
        "keychain": keychain,
        "workbook": {"leaky": leaky},
        "workload": {"url": ""},
    }
    whole["workflow"] = [*workflow, {"step": "end"}]
    (folder / "leaky.yaml").write_text(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True))
    child = head | {"metadata": {"name": "child"}, "workflow": [{"step": "start", "tool": {"kind": "noop"}}]}
    (folder / "child.yaml").write_text(yaml.safe_dump(child))


PLUGIN = """
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import ok
from noetl.model.shape import Anything, Key
KIND = ToolKind(name="canary_plugin", doc="Leaks.", keys={"text": Key(Anything(), ""), "breaks": Key(Anything(), "")},
    input=InputRole.CONFIGURES, output="text")
async def run(call, world):
    for letter in call.config["text"]:
        world.log(call, "stdout", letter)
    await world.progress(call, {"at": call.config["text"]})
    if call.config.get("breaks"):
        raise RuntimeError("broke at " + call.config["text"])
    return ok({"text": call.config["text"], "scopes": str(call.scopes["keychain"])}, own=call.config["text"])
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed plugin that tells everything it knows."""
    site = tmp_path / "site"
    (site / "canary_plugin-1.0.dist-info").mkdir(parents=True)
    (site / "canary_plugin.py").write_text(PLUGIN)
    (site / "canary_plugin-1.0.dist-info" / "METADATA").write_text("Name: canary-plugin\nVersion: 1.0\n")
    (site / "canary_plugin-1.0.dist-info" / "entry_points.txt").write_text(
        "[noetl.tools]\ncanary_plugin = canary_plugin\n"
    )
    monkeypatch.syspath_prepend(str(site))
    registry._plugins.cache_clear()
    registry._module.cache_clear()
    yield
    registry._plugins.cache_clear()
    registry._module.cache_clear()


@pytest.mark.slow
@pytest.mark.usefixtures("plugin")
def test_no_secret_reaches_a_byte_of_the_home_or_of_any_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], echo: str
) -> None:
    secrets = canaries(PER_STEP * len(steps()))
    assert len(set(secrets)) == 380
    home = tmp_path / "home"
    monkeypatch.setenv("NOETL_HOME", str(home))
    monkeypatch.setenv("VAULT_ADDR", echo)
    monkeypatch.setenv("VAULT_TOKEN", "hvs.canary-of-the-vault-itself")
    folder = tmp_path / "playbooks"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write_playbooks(folder, secrets, monkeypatch)
    secrets.append("hvs.canary-of-the-vault-itself")
    assert noetl(["run", "leaky.yaml", "--set", f"url={echo}"]) == 0
    assert noetl(["run", "leaky.yaml", "--set", f"url={echo}", "--json"]) == 0
    for looking in (
        ["show"],
        ["show", "--json"],
        ["events"],
        ["events", "--json"],
        ["logs"],
        ["logs", "--json"],
        ["state"],
        ["why"],
    ):
        assert noetl([looking[0], "last", *looking[1:]]) == 0, looking
    for looking in (["ps", "--json"], ["fsck"], ["credential", "list"], ["credential", "list", "--json"]):
        assert noetl(looking) == 0, looking
    out, err = capfdbinary.readouterr()
    assert b"denied for" in out
    assert out.count(b"[redacted]") > 500
    places = {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}
    assert "noetl.db" in places
    assert any(name.startswith("results/") for name in places)
    assert hits({**places, "stdout": out, "stderr": err}, secrets) == []
    ended = json.loads(re.search(rb'^\{"execution_id".*$', out, re.MULTILINE)[0])  # type: ignore[index]
    assert {name: info["status"] for name, info in ended["steps"].items() if info["status"] == "done"}.keys() == {
        "noop", "python", "auth_python", "http", "shell", "workbook", "secrets", "large", "rows", "plugin", "end",
        "spills", "spills_a_map", "shell_spills", "http_spills", "duckdb", "transfer",
    }  # fmt: skip
    assert {name.rpartition(".")[2] for name in places if name.startswith("results/")} >= {"zst", "parquet"}


KILLED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: killed}
keychain: [{name: api, kind: bearer, from: {env: CANARY}}]
workflow:
- step: start
  tool:
    kind: shell
    env: {T: "{{ keychain.api.token }}"}
    cmd: 'yes "line $T" | head -n 1000; [ -e marker ] || { touch marker; sleep 60; }'
"""


@pytest.mark.slow
def test_a_process_that_is_killed_while_it_spills_leaves_no_secret_and_can_be_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    canary = canaries(1)[0]
    home = tmp_path / "home"
    monkeypatch.setenv("NOETL_HOME", str(home))
    monkeypatch.setenv("CANARY", canary)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "killed.yaml").write_text(KILLED)
    with subprocess.Popen([sys.executable, "-m", "noetl", "run", "killed.yaml"]) as process:
        wait_until((tmp_path / "marker").exists)
        time.sleep(0.5)  # what was written is on its way through the pipe
        process.kill()
    for resumed in (False, True):
        assert not resumed or noetl(["resume", "--all"]) == 0
        places = {str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()}
        out, err = capfdbinary.readouterr()
        assert hits({**places, "stdout": out, "stderr": err}, [canary]) == []
    assert any(name.endswith(".zst") for name in places)
