"""No schema takes long, whatever it says and whatever is held against it; and nothing is ever fetched."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from noetl.lang.grammar.json_schema import check_schema
from noetl.schemas import Schema, SchemaLimit, UnknownReference

#: far more than any of these takes, because machines that run tests are busy
SECONDS = 60.0
P61 = (1 << 61) - 1


def tower(keyword: str, height: int, *, width: int = 2, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Each storey refers to the next one twice: 2 to the power of the height."""
    defs: dict[str, Any] = {f"d{height}": {"not": {"type": "object"}} | (more or {})}
    for level in range(height):
        below = {"$ref": f"#/$defs/d{level + 1}"}
        given: Any = [below] * width
        if keyword == "not":
            given = {"allOf": [{"not": below}, {"not": below}]}
        elif keyword == "if":
            defs[f"d{level}"] = {"if": below, "then": below, "else": below}
            continue
        elif keyword == "dependentSchemas":
            given = {"a": below, "b": below}
        elif keyword == "properties":
            defs[f"d{level}"] = {"allOf": [{"properties": {"a": below}}, {"additionalProperties": below}]}
            continue
        defs[f"d{level}"] = {keyword: given}
    return {"$ref": "#/$defs/d0", "$defs": defs}


def nested(depth: int, key: str = "a") -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {key: value}
    return value


WIDE = {f"k{n}": n for n in range(20_000)}
TOO_MUCH: list[tuple[str, Any, Any]] = [
    ("allOf", tower("allOf", 60), 1),
    ("anyOf", tower("anyOf", 60), {}),
    ("oneOf", tower("oneOf", 60), 1),
    ("not", tower("not", 60), {}),
    ("if", tower("if", 60), 1),
    ("dependentSchemas", tower("dependentSchemas", 60), {"a": 1, "b": 2}),
    ("what is seen of a map", tower("anyOf", 60, more={"properties": {"a": True}}) | {"unevaluatedProperties": False}, {"a": 1}),
    ("a reference to itself", {"$ref": "#"}, 1),
    ("two references to each other", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, 1),
    ("a reference to itself in allOf", {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, 1),
    ("a dynamic reference to itself", {"$dynamicAnchor": "x", "anyOf": [{"$dynamicRef": "#x"}]}, 1),
    ("not of itself", {"not": {"$ref": "#"}}, 1),
    ("a value without end", {"properties": {"a": {"$ref": "#"}}}, nested(50_000)),
    ("items by many keywords", {"items": {"allOf": [{"type": "integer"}] * 500}}, list(range(10_000))),
    ("keys by many patterns", {"patternProperties": {f"^k{n}.*x$": True for n in range(500)}}, WIDE),
    ("extra keys by many patterns", {"patternProperties": {f"^k{n}.*x$": True for n in range(500)}, "additionalProperties": False}, WIDE),
    ("a pattern at its slowest", {"pattern": "a[ab]{900}c"}, "ab" * 1_000_000),
    ("a pattern at its slowest for each item", {"items": {"pattern": "a[ab]{900}c"}}, ["ab" * 500] * 10_000),
    ("items that are compared with long lists", {"items": {"enum": [list(range(1000))]}}, [list(range(1000))] * 10_000),
    ("items that are long lists", {"uniqueItems": True}, [list(range(1000))] * 10_000),
    ("keys that every item must have", {"items": {"required": [f"k{n}" for n in range(10_000)]}}, [{}] * 10_000),
    ("unevaluated keys of many schemas", {"allOf": [{"properties": dict.fromkeys(WIDE, True)}] * 500, "unevaluatedProperties": False}, WIDE),
    ("contains of contains", {"contains": {"contains": {"contains": {"const": 1}}}}, [[list(range(200))] * 200] * 200),
]  # fmt: skip
MUCH: list[tuple[str, Any, Any, bool]] = [
    ("a pattern that backtracks", {"pattern": "^(a+)+$"}, "a" * 100_000 + "!", False),
    ("another", {"pattern": "^(a|a)*$"}, "a" * 100_000 + "!", False),
    ("a key by a pattern that backtracks", {"patternProperties": {"^(a+)+$": False}}, {"a" * 50_000 + "!": 1}, True),
    ("distinct items", {"uniqueItems": True}, [f"{n}" for n in range(100_000)], True),
    ("items that are equal", {"uniqueItems": True}, ["a" * 10_000] * 1_000, False),
    ("integers that hash alike", {"uniqueItems": True}, [n * P61 for n in range(100_000)], True),
    ("lists of integers that hash alike", {"uniqueItems": True}, [[n * P61] for n in range(30_000)], True),
    ("a long enum of integers that hash alike", {"items": {"enum": [n * P61 for n in range(50_000)]}}, [P61] * 50_000, True),
    ("many violations", {"items": {"type": "string"}}, list(range(30_000)), False),
    ("a long text that is quoted", {"type": "integer"}, "x" * 10_000_000, False),
    ("a long list that is quoted", {"type": "integer"}, list(range(1_000_000)), False),
    ("long division", {"multipleOf": 3}, 7**5_000, False),
    ("data as deep as it may be", {"properties": {"a": {"$ref": "#"}}}, nested(200), True),
    ("alternatives one after the other", {"items": {"anyOf": [{"const": n} for n in range(100)]}}, [99] * 1_000, True),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), [one[1:] for one in TOO_MUCH], ids=[one[0] for one in TOO_MUCH])
def test_what_would_take_long_is_refused_soon(schema: Any, value: Any) -> None:
    began = time.process_time()
    with pytest.raises(SchemaLimit):
        Schema(schema).violations(value)
    assert time.process_time() - began < SECONDS


@pytest.mark.parametrize(("schema", "value", "fits"), [one[1:] for one in MUCH], ids=[one[0] for one in MUCH])
def test_what_only_looks_long_is_done(schema: Any, value: Any, fits: bool) -> None:
    began = time.process_time()
    found = Schema(schema).violations(value)
    assert (found == []) is fits
    assert all(len(one.message) < 1_000 for one in found)
    assert time.process_time() - began < SECONDS


LARGE: list[tuple[str, Any]] = [
    ("many keywords", {"allOf": [{"type": "string", "minLength": n} for n in range(200_000)]}),
    ("many patterns", {"patternProperties": {rf"^[\pL\pN]{{1,60}}{n}$": True for n in range(1_000)}}),
    ("a long enum", {"enum": [[n, {"a": n}] for n in range(500_000)]}),
    ("many names", {"$defs": {f"d{n}": {"$id": f"http://x.test/{n}"} for n in range(1_000_000)}}),
    ("many references", {"allOf": [{"$ref": "#/$defs/" + "a/" * 100} for _ in range(200_000)]}),
]


@pytest.mark.parametrize("schema", [one[1] for one in LARGE], ids=[one[0] for one in LARGE])
def test_a_schema_that_is_too_large_is_refused_soon(schema: Any) -> None:
    began = time.process_time()
    assert "too large" in (check_schema(schema) or "")
    assert time.process_time() - began < SECONDS


def test_a_schema_may_be_nested_without_end() -> None:
    schema: Any = {"type": "string"}
    for _ in range(20_000):
        schema = {"not": schema}
    assert check_schema(schema) is None
    with pytest.raises(SchemaLimit):
        Schema(schema).violations(1)


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/s", "https://x.test/s#/a", "file:///etc/passwd", "other.json"]
)
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, reference: str, keyword: str) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise AssertionError("it opened a socket or a file")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr("builtins.open", refuse)
    schema = Schema({"properties": {"a": {keyword: reference}}})
    assert schema.violations({}) == []
    with pytest.raises(UnknownReference):
        schema.violations({"a": 1})
