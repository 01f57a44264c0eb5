"""The keywords of JSON Schema, from draft 4 to 2020-12, as one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from noetl.schemas import applicators as inside, assertions as plain
from noetl.schemas.places import Check, Dialect, Place, SchemaInvalid


class Keyword(NamedTuple):
    """What a keyword means."""

    compile: Callable[[Place, Any], Check | None]
    #: the type of the values that it looks at; empty: all
    looks_at: str = ""
    #: it comes after all others of its schema
    last: bool = False


def _ignored(_place: Place, _given: Any) -> None:
    return None


def _definitions(place: Place, given: Any) -> None:
    place.named_nodes(given)


_ANY_LIST = inside.checked(lambda place, given: given if isinstance(given, list) else place.refuse("it must be a list"))
_TEXT = inside.checked(Place.text)
_FLAG = inside.checked(Place.flag)

_DRAFT_4: Final[dict[str, Keyword]] = {
    "$schema": Keyword(_TEXT),
    "id": Keyword(_TEXT),
    "$ref": Keyword(inside.ref),
    "title": Keyword(_TEXT),
    "description": Keyword(_TEXT),
    "format": Keyword(_TEXT),
    "definitions": Keyword(_definitions),
    "type": Keyword(plain.type_),
    "enum": Keyword(plain.enum),
    "multipleOf": Keyword(plain.multiple_of, "number"),
    "minimum": Keyword(plain.minimum, "number"),
    "maximum": Keyword(plain.maximum, "number"),
    "exclusiveMinimum": Keyword(plain.exclusive_minimum, "number"),
    "exclusiveMaximum": Keyword(plain.exclusive_maximum, "number"),
    "minLength": Keyword(plain.min_length, "string"),
    "maxLength": Keyword(plain.max_length, "string"),
    "pattern": Keyword(plain.pattern, "string"),
    "minItems": Keyword(plain.min_items, "array"),
    "maxItems": Keyword(plain.max_items, "array"),
    "uniqueItems": Keyword(plain.unique_items, "array"),
    "items": Keyword(inside.items_of_older_drafts, "array"),
    "additionalItems": Keyword(inside.additional_items, "array"),
    "minProperties": Keyword(plain.min_properties, "object"),
    "maxProperties": Keyword(plain.max_properties, "object"),
    "required": Keyword(plain.required, "object"),
    "properties": Keyword(inside.properties, "object"),
    "patternProperties": Keyword(inside.pattern_properties, "object"),
    "additionalProperties": Keyword(inside.additional_properties, "object"),
    "dependencies": Keyword(inside.dependencies, "object"),
    "allOf": Keyword(inside.all_of),
    "anyOf": Keyword(inside.any_of),
    "oneOf": Keyword(inside.one_of),
    "not": Keyword(inside.not_),
}
_DRAFT_6: Final = {
    **{name: keyword for name, keyword in _DRAFT_4.items() if name != "id"},
    "$id": Keyword(_TEXT),
    "examples": Keyword(_ANY_LIST),
    "const": Keyword(plain.const),
    "contains": Keyword(inside.contains, "array"),
    "propertyNames": Keyword(inside.property_names, "object"),
}
_DRAFT_7: Final = {
    **_DRAFT_6,
    "$comment": Keyword(_TEXT),
    "readOnly": Keyword(_FLAG),
    "writeOnly": Keyword(_FLAG),
    "contentMediaType": Keyword(_TEXT),
    "contentEncoding": Keyword(_TEXT),
    "if": Keyword(inside.if_),
    "then": Keyword(inside.beside_if),
    "else": Keyword(inside.beside_if),
}
_DRAFT_2019: Final = {
    **{name: keyword for name, keyword in _DRAFT_7.items() if name != "dependencies"},
    "$anchor": Keyword(_TEXT),
    "$recursiveAnchor": Keyword(_FLAG),
    "$recursiveRef": Keyword(inside.dynamic_ref),
    "$vocabulary": Keyword(inside.checked(Place.map_of)),
    "$defs": Keyword(_definitions),
    "deprecated": Keyword(_FLAG),
    "minContains": Keyword(inside.checked(Place.count)),
    "maxContains": Keyword(inside.checked(Place.count)),
    "dependentRequired": Keyword(plain.dependent_required, "object"),
    "dependentSchemas": Keyword(inside.dependent_schemas, "object"),
    "unevaluatedItems": Keyword(inside.unevaluated_items, "array", last=True),
    "unevaluatedProperties": Keyword(inside.unevaluated_properties, "object", last=True),
}
_GONE_BY_2020: Final = frozenset({"additionalItems", "$recursiveAnchor", "$recursiveRef"})
_DRAFT_2020: Final = {
    **{name: keyword for name, keyword in _DRAFT_2019.items() if name not in _GONE_BY_2020},
    "$dynamicAnchor": Keyword(_TEXT),
    "$dynamicRef": Keyword(inside.dynamic_ref),
    "prefixItems": Keyword(inside.prefix_items, "array"),
    "items": Keyword(inside.items, "array"),
}
#: where schemas stand in the value of a keyword, for those who look for names before anything is compiled
HOLDS_ONE: Final = frozenset(
    """additionalItems additionalProperties contains else if items not propertyNames then unevaluatedItems
    unevaluatedProperties""".split()  # noqa: SIM905  a list of words reads better so
)
HOLDS_LIST: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
HOLDS_MAP: Final = frozenset(
    {"$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"}
)

LATEST: Final = Dialect("2020-12", _DRAFT_2020)
_BY_NAME: Final = {
    "draft-04": Dialect(
        "draft-04", _DRAFT_4, "id", lone_ref=True, whole_floats=False, bounds_are_numbers=False, booleans=False
    ),
    "draft-06": Dialect("draft-06", _DRAFT_6, lone_ref=True),
    "draft-07": Dialect("draft-07", _DRAFT_7, lone_ref=True),
    "draft/2019-09": Dialect("2019-09", _DRAFT_2019),
    "draft/2020-12": LATEST,
}


def dialect_of(address: str) -> Dialect | None:
    """The dialect that is meant by the address of its schema; None: it is none of JSON Schema's own."""
    rest = address.removesuffix("#").removeprefix("https://").removeprefix("http://")
    name = rest.removeprefix("json-schema.org/").removesuffix("/schema")
    if rest != f"json-schema.org/{name}/schema":
        return None
    if name == "draft-03":
        raise SchemaInvalid(("$schema",), "draft 3 of JSON Schema is not supported, draft 4 is the oldest that is")
    return _BY_NAME.get(name)
