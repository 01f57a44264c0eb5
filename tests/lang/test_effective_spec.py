"""Specs laid over each other: the inner wins, except where a key restricts; every value knows its origin."""

from typing import Any

import pytest

from noetl.lang.building.effective_spec import effective_spec
from noetl.lang.loader import load
from noetl.tools.registry import ToolKinds

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\n"


def laid(outer: dict[str, Any], inner: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    return {key: (one.value, one.origin) for key, one in effective_spec([("outer", outer), ("inner", inner)]).items()}


@pytest.mark.parametrize(
    ("outer", "inner", "result"),
    [
        ({"timeout": 1}, {"timeout": 2}, {"timeout": (2, "inner")}),
        ({"timeout": 1}, {}, {"timeout": (1, "outer")}),
        ({"result": {"store": "blob", "ttl": 1}}, {"result": {"ttl": 2}},
         {"result.store": ("blob", "outer"), "result.ttl": (2, "inner")}),
        ({"result": {"select": {"a": "$.a"}}}, {"result": {"select": {"b": "$.b"}}},
         {"result.select.a": ("$.a", "outer"), "result.select.b": ("$.b", "inner")}),
        ({"tags": [1, 2]}, {"tags": [3]}, {"tags": ([3], "inner")}),
        ({"timeout": 9}, {"timeout": {"read": 3}}, {"timeout.read": (3, "inner")}),
        ({"timeout": {"read": 3, "connect": 1}}, {"timeout": 5}, {"timeout": (5, "inner")}),
        ({"timeout": {"read": 3}}, {"timeout": {"connect": 1}}, {"timeout.read": (3, "outer"), "timeout.connect": (1, "inner")}),
        ({"validate": {"input": {"type": "object"}}}, {"validate": {"input": {"minimum": 1}}},
         {"validate.input": ({"minimum": 1}, "inner")}),
        ({"policy": {"x": 1}, "mode": "parallel", "until": True}, {"max_in_flight": 2}, {}),
    ],
    ids=["scalar", "left alone", "map", "deep map", "list", "map over scalar", "scalar over map", "two maps", "schema", "own keys"],
)  # fmt: skip
def test_the_inner_layer_wins_and_maps_merge(outer: Any, inner: Any, result: Any) -> None:
    assert laid(outer, inner) == result


@pytest.mark.parametrize(
    ("key", "outer", "inner", "kept"),
    [
        ("isolation", "strict", "none", ("strict", "outer")),
        ("isolation", "none", "process", ("process", "inner")),
        ("isolation", "process", "process", ("process", "outer")),
        ("network", "off", "on", ("off", "outer")),
        ("network", "on", "off", ("off", "inner")),
    ],
)
def test_a_key_that_restricts_keeps_the_strictest_value(
    key: str, outer: str, inner: str, kept: tuple[str, str]
) -> None:
    assert laid({key: outer}, {key: inner}) == {key: kept}


@pytest.mark.parametrize(
    ("outer", "inner", "kept"), [(10, 20, (10, "outer")), (20, 10, (10, "inner")), (1, 0.5, (0.5, "inner"))]
)
def test_of_limits_the_smaller_counts(outer: float, inner: float, kept: tuple[float, str]) -> None:
    assert laid({"limits": {"cpu_s": outer}}, {"limits": {"cpu_s": inner}}) == {"limits.cpu_s": kept}


def test_limits_of_different_names_are_all_kept() -> None:
    assert laid({"limits": {"cpu_s": 1}}, {"limits": {"memory_mb": 2}}) == {
        "limits.cpu_s": (1, "outer"),
        "limits.memory_mb": (2, "inner"),
    }


@pytest.mark.parametrize(
    ("outer", "inner", "common"),
    [
        (["a.com", "b.com"], ["b.com", "c.com"], ["b.com"]),
        (["*.a.com"], ["x.a.com", "a.com", "xa.com"], ["x.a.com"]),
        (["*.a.com"], ["*.b.a.com"], ["*.b.a.com"]),
        (["a.com"], ["b.com"], []),
        (["a.com"], [], []),
    ],
)
def test_allowed_hosts_intersect(outer: list[str], inner: list[str], common: list[str]) -> None:
    assert laid({"allow_hosts": outer}, {"allow_hosts": inner}) == {"allow_hosts": (common, "outer ∩ inner")}


@pytest.mark.parametrize(
    ("outer", "inner", "common"),
    [(["x.a.com"], ["*.a.com"], ["x.a.com"]), (["*"], ["a.com"], ["a.com"]), (["a.com"], ["*"], ["a.com"])],
)
def test_a_wider_pattern_within_does_not_lose_what_both_allow(
    outer: list[str], inner: list[str], common: list[str]
) -> None:
    assert laid({"allow_hosts": outer}, {"allow_hosts": inner})["allow_hosts"][0] == common


@pytest.mark.parametrize("nothing", [{}, None])
def test_an_empty_inner_map_lifts_no_limits(nothing: Any) -> None:
    assert laid({"limits": {"cpu_s": 1}}, {"limits": nothing})["limits.cpu_s"] == (1, "outer")


def test_an_empty_inner_value_lifts_no_restriction_of_hosts() -> None:
    assert laid({"allow_hosts": ["a.com"]}, {"allow_hosts": None})["allow_hosts"] == (["a.com"], "outer")


def test_a_task_cannot_lift_the_limits_of_the_executor() -> None:
    executor = "executor: {spec: {limits: {memory_mb: 10}, allow_hosts: [a.com]}}\n"
    text = f"{HEAD}{executor}workflow:\n  - step: a\n    tool:\n      kind: noop\n      spec:\n        limits:\n        allow_hosts:\n"
    loaded = load(text, ToolKinds())
    assert loaded.net is None or {"limits.memory_mb", "allow_hosts"} <= {
        key for key, one in loaded.net.steps["a"].tasks[0].spec.items() if one.value
    }


def spec_of(executor: str, step: str) -> dict[str, tuple[Any, str]]:
    loaded = load(f"{HEAD}executor: {{spec: {executor}}}\nworkflow:\n  - {step}\n", ToolKinds())
    assert loaded.net is not None, loaded.diagnostics
    return {key: (one.value, one.origin) for key, one in loaded.net.steps["a"].tasks[0].spec.items()}


def test_layers_lie_from_the_executor_to_the_task() -> None:
    found = spec_of(
        "{retries: 1, pool_size: 1, verify: false, isolation: process}",
        "{step: a, spec: {retries: 2, pool_size: 2}, loop: {in: [1], iterator: i, spec: {retries: 3, mode: parallel}},"
        " tool: {kind: http, url: u, spec: {timeout: 4, isolation: none}}}",
    )
    assert found == {
        "retries": (3, "loop.spec"),
        "pool_size": (2, "step.spec"),
        "verify": (False, "executor.spec"),
        "isolation": ("process", "executor.spec"),
        "timeout": (4, "task.spec"),
    }


def test_a_default_timeout_by_kind_is_for_that_kind_only() -> None:
    executor = "{policy: {defaults: {timeouts: {http: 7}}}}"
    origin = "executor.spec.policy.defaults.timeouts.http"
    assert spec_of(executor, "{step: a, tool: {kind: http, url: u}}") == {"timeout": (7, origin)}
    assert spec_of(executor, "{step: a, tool: {kind: noop}}") == {}
    assert spec_of(executor, "{step: a, tool: {kind: http, url: u, spec: {timeout: 1}}}") == {
        "timeout": (1, "task.spec")
    }


def test_a_default_timeout_by_kind_is_nearer_than_that_of_all_kinds() -> None:
    executor = "{timeout: 30, policy: {defaults: {timeouts: {http: 7}}}}"
    assert spec_of(executor, "{step: a, tool: {kind: http, url: u}}")["timeout"][0] == 7
    assert spec_of(executor, "{step: a, tool: {kind: noop}}") == {"timeout": (30, "executor.spec")}
    assert spec_of(executor, "{step: a, spec: {timeout: 1}, tool: {kind: http, url: u}}")["timeout"][0] == 1


def test_a_default_timeout_reaches_the_kind_by_its_alias() -> None:
    assert (
        spec_of("{policy: {defaults: {timeouts: {shell: 7}}}}", "{step: a, tool: {kind: script, cmd: ls}}")["timeout"][
            0
        ]
        == 7
    )


def test_the_policy_of_a_step_is_not_its_tasks() -> None:
    found = spec_of("{}", "{step: a, spec: {policy: {lifecycle: {timeout_s: 3}}, priority: 5}, tool: {kind: noop}}")
    assert found == {"priority": (5, "step.spec")}
