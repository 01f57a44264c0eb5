"""Our schemas against the library jsonschema: they accept the same values, in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
)
from jsonschema.exceptions import SchemaError
from thorough import up_to

from noetl.schemas import Schema, SchemaInvalid, SchemaLimit

DIALECTS: dict[str, Any] = {
    "http://json-schema.org/draft-04/schema#": Draft4Validator,
    "http://json-schema.org/draft-06/schema#": Draft6Validator,
    "http://json-schema.org/draft-07/schema#": Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": Draft202012Validator,
}
NAMES = ["a", "b", "ab", "x1"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from([0.0, 1.0, 1.5, 2.0, -0.5, 1e30, 10**30]),
    st.sampled_from(["", "a", "ab", "b1", "xyz", "ä"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)),
    max_leaves=8,
)
TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]
REFERENCES = ["#", "#/$defs/d", "#/definitions/e", "#d", "#/properties/a", "http://x.test/s", "s"]


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of any keywords, those of other dialects included."""
    small = st.integers(0, 3)
    by_name = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
    names = st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=2)
    patterns = st.sampled_from(["^a", "b$", "[0-9]", "."])
    every = {
        "type": st.one_of(
            st.sampled_from(TYPES), st.lists(st.sampled_from(TYPES), unique=True, min_size=1, max_size=2)
        ),
        "enum": st.lists(values, min_size=1, max_size=3, unique_by=repr),
        "const": values,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minimum": st.integers(-2, 3),
        "maximum": st.integers(-2, 3),
        "minLength": small,
        "maxLength": small,
        "pattern": patterns,
        "minItems": small,
        "maxItems": small,
        "uniqueItems": st.booleans(),
        "items": inner,
        "additionalItems": inner,
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "contains": inner,
        "minContains": small,
        "maxContains": small,
        "minProperties": small,
        "maxProperties": small,
        "required": names,
        "properties": by_name,
        "patternProperties": st.dictionaries(patterns, inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(st.sampled_from(NAMES), names, max_size=2),
        "dependentSchemas": by_name,
        "unevaluatedItems": inner,
        "unevaluatedProperties": inner,
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "anyOf": st.lists(inner, min_size=1, max_size=3),
        "oneOf": st.lists(inner, min_size=1, max_size=3),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "$defs": st.fixed_dictionaries({"d": inner}),
        "definitions": st.fixed_dictionaries({"e": inner}),
        "$ref": st.sampled_from(REFERENCES[:3]),
    }
    chosen = st.lists(st.sampled_from(sorted(every)), unique=True, min_size=1, max_size=4)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: every[name] for name in names}))


schemas = st.recursive(st.one_of(st.just({}), st.just({"type": "string"}), st.booleans()), keywords, max_leaves=6)


def theirs(validator: Any, schema: Any, value: Any) -> Any:
    try:
        validator.check_schema(schema)
    except SchemaError:
        return "no schema"
    try:
        return validator(schema).is_valid(value)
    except RecursionError:
        return "endless"
    except Exception as error:  # noqa: BLE001  a reference that leads nowhere has a private class
        return "nowhere" if "Unresolvable" in repr(error) or "PointerToNowhere" in repr(error) else repr(error)


def ours(schema: Any, value: Any) -> Any:
    from noetl.schemas import UnknownReference

    try:
        return Schema(schema).violations(value) == []
    except SchemaInvalid:
        return "no schema"
    except SchemaLimit:
        return "endless"
    except UnknownReference:
        return "nowhere"


@pytest.mark.parametrize("dialect", list(DIALECTS))
@settings(max_examples=up_to(1500, 60), deadline=None)
@given(schema=schemas, value=values)
def test_a_value_fits_a_schema_here_if_it_does_there(dialect: str, schema: Any, value: Any) -> None:
    if isinstance(schema, bool):
        return
    schema = {**schema, "$schema": dialect}
    expected = theirs(DIALECTS[dialect], schema, value)
    found = ours(schema, value)
    if expected in (True, False, "no schema") and found not in ("endless", "nowhere"):
        assert found == expected, json.dumps([schema, value])


TREE = {
    "$id": "http://x.test/tree",
    "$dynamicAnchor": "node",
    "type": "object",
    "properties": {"data": True, "children": {"type": "array", "items": {"$dynamicRef": "#node"}}},
}
RECURSIVE = {
    "$schema": "https://json-schema.org/draft/2019-09/schema",
    "$id": "http://x.test/strict",
    "$recursiveAnchor": True,
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {
        "tree": {
            "$id": "http://x.test/tree",
            "$recursiveAnchor": True,
            "type": "object",
            "properties": {"data": True, "children": {"type": "array", "items": {"$recursiveRef": "#"}}},
        }
    },
}
STRICT = {
    "$id": "http://x.test/strict",
    "$dynamicAnchor": "node",
    "$ref": "tree",
    "unevaluatedProperties": False,
    "$defs": {"tree": TREE},
}
REFERRING: list[Any] = [
    TREE,
    STRICT,
    RECURSIVE,
    {**STRICT, "$dynamicAnchor": "other"},
    {**RECURSIVE, "$recursiveAnchor": False},
    {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "object", "required": ["children"]}}},
    {"$ref": "#here", "$defs": {"d": {"$anchor": "here", "type": "array"}}},
    {"$id": "http://x.test/a/b", "$ref": "c", "$defs": {"d": {"$id": "c", "$ref": "#/$defs/e", "$defs": {"e": {"type": "array"}}}}},
    {"$id": "urn:x:root", "$ref": "#/$defs/d", "$defs": {"d": {"type": "array"}}},
    {"properties": {"children": {"items": {"$ref": "#"}}}, "additionalProperties": {"type": "string"}},
    {"$ref": "#/x-of-mine/one", "x-of-mine": {"one": {"type": "array"}}},
    {"$ref": "#/$defs/nothing", "$defs": {}},
    {"$ref": "http://x.test/away"},
    {"$ref": "https://json-schema.org/draft/2020-12/schema"},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/d", "type": "string", "definitions": {"d": {"type": "array"}}},
    {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#d", "definitions": {"x": {"$id": "#d", "type": "array"}}},
    {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://x.test/r", "allOf": [{"$ref": "d"}], "definitions": {"x": {"id": "d", "type": "array"}}},
    {"dependentSchemas": {"data": {"properties": {"more": True}}}, "properties": {"data": True}, "unevaluatedProperties": False},
    {"anyOf": [{"properties": {"data": {"type": "integer"}}, "required": ["data"]}, {"properties": {"more": True}, "required": ["more"]}], "unevaluatedProperties": False},
    {"if": {"properties": {"data": {"const": 1}}, "required": ["data"]}, "then": {"properties": {"children": True}}, "else": {"properties": {"more": True}}, "unevaluatedProperties": False},
    {"not": {"not": {"properties": {"data": True}}}, "unevaluatedProperties": False},
    {"prefixItems": [True], "contains": {"type": "string"}, "unevaluatedItems": False},
    {"oneOf": [{"prefixItems": [{"type": "integer"}]}, {"prefixItems": [{"type": "string"}, True]}], "unevaluatedItems": {"type": "null"}},
    {"allOf": [{"items": True}], "unevaluatedItems": False},
    {"contains": {"type": "string"}, "minContains": 2, "maxContains": 3},
    {"contains": {"type": "string"}, "minContains": 0},
]  # fmt: skip
TOLD: list[Any] = [
    [],
    [1],
    ["a"],
    [1, "a"],
    ["a", "b", None],
    ["a", "b", "c", "d"],
    {},
    {"data": 1},
    {"data": 2},
    {"more": 1},
    {"data": 1, "more": 2},
    {"data": 1, "children": []},
    {"children": [{"data": 1}]},
    {"children": [{"date": 1}]},
    {"children": [1]},
    {"type": "object"},
    {"type": "strng"},
    "text",
    1,
    None,
]


@pytest.mark.parametrize("schema", REFERRING, ids=lambda schema: json.dumps(schema)[:60])
def test_references_lead_where_they_lead_there(schema: Any) -> None:
    validator = DIALECTS[schema.get("$schema", "https://json-schema.org/draft/2020-12/schema")]
    assert [ours(schema, value) for value in TOLD] == [theirs(validator, schema, value) for value in TOLD]


EDGES: list[tuple[Any, Any]] = [
    ({"uniqueItems": True}, [1, True, "1", None, [1], {"a": 1}, 0, False, [True]]),
    ({"uniqueItems": True}, [1, 1.0]),
    ({"uniqueItems": True}, [{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]),
    ({"uniqueItems": True}, [10**30, 1e30, 10**30 + 1]),
    ({"enum": [[1], {"a": True}]}, [1.0]),
    ({"enum": [[1], {"a": True}]}, {"a": 1}),
    ({"const": 1}, True),
    ({"const": 0}, False),
    ({"const": 1e30}, 10**30),
    ({"type": "integer"}, 1.0),
    ({"type": "integer"}, True),
    ({"type": "number"}, False),
    ({"minLength": 2}, "\U0001f600"),
    ({"maximum": 2.5}, 10**40),
    ({"multipleOf": 0.01}, 0.75),
    ({"multipleOf": 7}, 10**40),
    ({"multipleOf": 0.5}, 1e308),
    ({"pattern": "^a$"}, "a\nb"),
    ({"pattern": "b"}, "abc"),
    ({"pattern": ""}, ""),
    ({"minProperties": 1, "propertyNames": {"maxLength": 1}}, {"ab": 1}),
]


@pytest.mark.parametrize(("schema", "value"), EDGES, ids=repr)
def test_numbers_texts_and_equality_are_what_they_are_there(schema: Any, value: Any) -> None:
    assert ours(schema, value) == theirs(Draft202012Validator, schema, value)


def test_a_multiple_is_one_of_the_number_as_it_is_written() -> None:
    assert Schema({"multipleOf": 0.1}).violations(0.3) == []
    assert Schema({"multipleOf": 0.0001}).violations(0.00751) != []
