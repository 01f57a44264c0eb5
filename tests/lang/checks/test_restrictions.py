"""Bounds that bind nothing, and bounds that cannot be kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"
TRANSFER = "{kind: transfer, source: {kind: %s}, targets: [{kind: %s}]%s}"


def told(tool: str, executor: str = "{}") -> list[tuple[str, str]]:
    text = f"{HEAD}executor: {{spec: {executor}}}\nworkflow: [{{step: a, tool: {tool}}}]\n"
    return [(one.code, one.message) for one in load(text, ToolKinds()).diagnostics]


@pytest.mark.parametrize(
    "spec", ["isolation: strict", "limits: {memory_mb: 50}", "network: 'off'", "allow_hosts: [a.b]"]
)
def test_what_duckdb_keeps_is_not_called_without_effect(spec: str) -> None:
    assert told(f"{{kind: duckdb, query: SELECT 1, spec: {{{spec}}}}}") == []


def test_what_binds_nothing_is_said() -> None:
    ((code, message),) = told("{kind: duckdb, query: SELECT 1, spec: {limits: {cpu_s: 5}}}")
    assert (code, message.partition(":")[0]) == ("no-effect", "`kind")
    assert [code for code, _ in told("{kind: noop, spec: {isolation: strict}}")] == ["no-effect"]
    assert told("{kind: noop}", "{isolation: strict}") == []


@pytest.mark.parametrize(
    ("executor", "said"),
    [
        ("{network: 'off'}", "`network: off` of `executor.spec` leaves none"),
        ("{isolation: strict}", "`isolation: strict` of `executor.spec` leaves none"),
    ],
)
def test_a_transfer_over_a_network_that_is_forbidden_is_an_error(executor: str, said: str) -> None:
    ((code, message),) = told(TRANSFER % ("http, url: x", "file, path: o.json", ""), executor)
    assert code == "not-kept"
    assert message.startswith(f"the source (http) needs a network, and {said}")
    ((_, message),) = told(TRANSFER % ("data, data: []", "s3, bucket: b, path: o.json", ""), executor)
    assert message.startswith("target 1 (s3) needs a network")
    assert told(TRANSFER % ("data, data: []", "file, path: o.json", ""), executor) == []


def test_requests_to_some_hosts_can_be_kept_and_connections_to_some_cannot() -> None:
    hosts = ", spec: {allow_hosts: [a.example]}"
    assert told(TRANSFER % ("http, url: x", "file, path: o.json", hosts)) == []
    assert [
        code
        for code, _ in told(
            TRANSFER % ("postgres, auth: '{{ workload.db }}', query: SELECT 1", "file, path: o.json", hosts)
        )
    ] == ["not-kept"]
    assert told(TRANSFER % ("http, url: x", "file, path: o.json", ", spec: {isolation: strict, network: 'on'}")) == []


def test_a_kind_that_does_not_say_that_it_keeps_the_network_off_is_an_error() -> None:
    kinds = {**ToolKinds(), "noop": replace(ToolKinds()["noop"], keeps_network=False)}
    text = f"{HEAD}workflow: [{{step: a, tool: {{kind: noop, spec: {{network: 'off'}}}}}}]\n"
    (found,) = load(text, kinds).diagnostics
    assert (found.code, found.message) == (
        "not-kept",
        "`kind: noop` cannot keep `network: off`: the task is not going to be run",
    )
