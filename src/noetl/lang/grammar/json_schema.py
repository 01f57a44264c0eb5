"""The grammar table as JSON Schema (2020-12), for editors; and whether a schema in a playbook is one.

Everything comes from the shapes of `lang.grammar.document_shape` and of the tool kinds. What holds between the keys of one map is
in `_BETWEEN_KEYS`, the counterpart of `lang.grammar.invariants`. Choices are written as `if`/`then` on what the author has
already written, so that an editor completes the keys of that kind and reports against it alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any, TypeAlias

from noetl.lang.grammar.document_shape import NAME_PATTERN, PLAYBOOK, SHAPES, SUGAR, SUGAR_SHAPES, TASK_KEYS
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.shape import (
    Anything,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    OneOf,
    Record,
    Shape,
    ShapeRef,
    Text,
    When,
    Word,
)

Schema: TypeAlias = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATE: Schema = {"type": "string", "pattern": r"\{\{|\{%"}
_CONDITION: Schema = {
    "anyOf": [{"type": "boolean"}, {"type": "string", "pattern": r"^\s*(\{\{[\s\S]*\}\}|true|false)\s*$"}]
}


def playbook_schema(kinds: Mapping[str, ToolKind]) -> Schema:
    """The JSON Schema of a playbook whose tasks are of these kinds."""
    return _SchemaBuilder(kinds).document()


def schema_of(root: Record, named: Mapping[str, Shape], title: str) -> Schema:
    """The JSON Schema of a document of another grammar; `named` holds the shapes that it refers to by name."""
    maker = _SchemaBuilder({}, named)
    made = {"$schema": DIALECT, "title": title, **maker.object_schema(root), "patternProperties": {"^x-": True}}
    return {**made, "$defs": dict(sorted(maker.defs.items()))}


def check_schema(value: Any) -> str | None:
    """What is wrong with a value that should be a JSON Schema itself; None if nothing is."""
    from noetl.schemas import Schema, SchemaInvalid, SchemaLimit

    if not isinstance(value, Mapping | bool):
        return "a schema is a map"
    try:
        Schema(value)
    except SchemaInvalid as wrong:
        place = ".".join(str(part) for part in wrong.path)
        return f"`{place}`: {wrong.said}" if place else wrong.said
    except SchemaLimit:
        return "it is too large: nobody could check it in half a second"
    except RecursionError:
        return "the schema is nested too deeply"
    return None


class _SchemaBuilder:
    def __init__(self, kinds: Mapping[str, ToolKind], named: Mapping[str, Shape] = SHAPES) -> None:
        self.named = named
        self.kinds = [kinds[name] for name in kinds]
        self.defs: dict[str, Schema] = {}
        #: the name under `$defs` of each record that was met, by identity: records hold maps and cannot be hashed
        self.names: dict[int, str] = {}
        self.by_type: dict[type[Shape], Callable[[Any], Schema]] = {
            Record: self.record,
            ListOf: self.list_of,
            MapOf: lambda shape: {"type": ["object", "null"], "additionalProperties": self.make(shape.value)},
            OneOf: self.one_of,
            ShapeRef: self.use,
            Text: lambda shape: (
                {"type": "string", "pattern": f"^{NAME_PATTERN}$"} if shape.name else {"type": "string"}
            ),
            Number: self.number,
            Flag: lambda shape: _or_template({"type": "boolean"}, templated=shape.templated),
            Word: self.word,
            When: lambda _shape: dict(_CONDITION),
            Anything: lambda _shape: {},
        }

    def document(self) -> Schema:
        root = self.object_schema(PLAYBOOK)
        self.defs["Sugar"] = self.sugar()
        head = {"$schema": DIALECT, "title": "NoETL playbook", **root, "patternProperties": {"^x-": True}}
        return {**head, "$defs": dict(sorted(self.defs.items()))}

    def make(self, shape: Shape) -> Schema:
        return self.by_type[type(shape)](shape)

    # --- collections -------------------------------------------------------------------------------------------

    def record(self, shape: Record) -> Schema:
        name = self.names.get(id(shape))
        if name is None:
            name = self.names[id(shape)] = _free_name(_name_of(shape.title), self.defs)
            self.define(name, shape)
        return {"$ref": f"#/$defs/{name}"}

    def define(self, name: str, shape: Shape) -> None:
        self.defs[name] = {}  # taken, before what is inside asks for it
        made = self.object_schema(shape) if isinstance(shape, Record) else self.make(shape)
        self.defs[name] = {**made, **_BETWEEN_KEYS.get(name, {})}

    def object_schema(self, shape: Record) -> Schema:
        required = [name for name, key in shape.keys.items() if key.required]
        return {
            **({"description": shape.doc} if shape.doc else {}),
            "type": "object" if required else ["object", "null"],
            "properties": self.properties(shape.keys),
            **({"required": required} if required else {}),
            **({"allOf": conditions} if (conditions := _between(shape)) else {}),
            "additionalProperties": False,
        }

    def properties(self, keys: Mapping[str, Key]) -> Schema:
        return {name: self.key(key) for name, key in keys.items() if not key.hidden and not key.reserved}

    def key(self, key: Key) -> Schema:
        made = {"description": key.doc, **self.make(key.shape)}
        if key.default is not None:
            made["default"] = key.default
        return made

    def list_of(self, shape: ListOf) -> Schema:
        if shape.at_least:
            return {"type": "array", "minItems": shape.at_least, "items": self.make(shape.item)}
        return {"type": ["array", "null"], "items": self.make(shape.item)}

    def one_of(self, shape: OneOf) -> Schema:
        """Alternatives are told apart by the type of the value, so the first list or map among them decides."""
        chosen = next((one for one in shape.shapes if isinstance(one, ListOf)), None) or next(
            (one for one in shape.shapes if isinstance(one, Record | MapOf | ShapeRef)), None
        )
        others = [self.make(one) for one in shape.shapes if one is not chosen] + [{"type": "null"}]
        rest = {"anyOf": others}
        if chosen is None:
            return rest
        given = "array" if isinstance(chosen, ListOf) else "object"
        return {"if": {"type": given}, "then": self.make(chosen), "else": rest}

    def use(self, shape: ShapeRef) -> Schema:
        if shape.name not in self.defs:
            if shape.name == "Task":
                self.define_tasks("Task", single=True)
            elif shape.name == "TaskItem":
                self.defs["TaskItem"] = _TASK_ITEM
                self.define_tasks("ListedTask", single=False)
            else:
                self.define(shape.name, self.named[shape.name])
        return {"$ref": f"#/$defs/{shape.name}"}

    # --- scalars -----------------------------------------------------------------------------------------------

    def number(self, shape: Number) -> Schema:
        made: Schema = {"type": "integer" if shape.integer else "number"}
        if shape.minimum is not None:
            made["minimum"] = shape.minimum
        if shape.maximum is not None:
            made["maximum"] = shape.maximum
        return _or_template(made, templated=shape.templated)

    def word(self, shape: Word) -> Schema:
        made: Schema = {"const": shape.words[0]} if len(shape.words) == 1 else {"enum": list(shape.words)}
        return _or_template(made, templated=shape.templated)

    # --- tasks -------------------------------------------------------------------------------------------------

    def define_tasks(self, name: str, *, single: bool) -> None:
        """A task: its kind decides which other keys it may have."""
        self.defs[name] = {}
        by_kind = []
        for kind in self.kinds:
            as_name = single and kind.name_means is not None
            own = f"{name}.{kind.name}" if as_name else f"task.{kind.name}"
            if own not in self.defs:
                self.defs[own] = self.task(kind, name_stands_for=kind.name_means if as_name else None)
            given = {"required": ["kind"], "properties": {"kind": {"enum": [kind.name, *kind.aliases]}}}
            by_kind.append({"if": given, "then": {"$ref": f"#/$defs/{own}"}})
        words = [word for kind in self.kinds for word in (kind.name, *kind.aliases)]
        self.defs[name] = {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"description": TASK_KEYS["kind"].doc, "enum": words}},
            "allOf": by_kind,
        }

    def task(self, kind: ToolKind, *, name_stands_for: str | None) -> Schema:
        properties = self.properties({**TASK_KEYS, **kind.keys})
        configures = kind.input is InputRole.CONFIGURES
        if configures:
            properties["input"]["then"] = {"type": "object", "properties": self.properties(kind.keys)}
        conditions = [
            _one_of_keys(group, inside_input=configures, or_name=name_stands_for in group) for group in kind.one_of
        ]
        for group in (*kind.one_of, *kind.at_most_one):
            conditions += [{"not": {"required": list(pair)}} for pair in combinations(group, 2)]
        made: Schema = {
            "description": kind.doc,
            "type": "object",
            "properties": properties,
            "required": ["kind"],
            "additionalProperties": False,
        }
        if conditions:
            made["allOf"] = conditions
        if configures:
            made["dependentSchemas"] = {name: _not_under_input(name) for name in kind.keys}
        return made

    def sugar(self) -> Schema:
        by_word = []
        for word in SUGAR:
            beside = {name: self.key(TASK_KEYS[name]) for name in ("name", "desc")}
            own = {word: self.make(SUGAR_SHAPES[word]), **beside}
            by_word.append(
                {"if": {"required": [word]}, "then": {"properties": own, "additionalProperties": False}},
            )
        return {"type": "object", "allOf": by_word}


def _between(shape: Record) -> list[Schema]:
    """What holds between the keys of a record, by its kind."""
    found: list[Schema] = []
    for kind, variant in shape.variants.items():
        rules: list[Schema] = [{"anyOf": [{"required": [key]} for key in group]} for group in variant.needs]
        rules += [
            {"properties": {key: _or_template({"enum": list(words)}, templated=True)}}
            for key, words in variant.words.items()
        ]
        found += [{"if": _is("kind", kind), "then": {"allOf": rules}}] if rules else []
    found += [{"if": _is(key, word), "then": {"required": [needed]}} for key, word, needed in shape.implied]
    return found


def _is(key: str, word: str) -> Schema:
    return {"required": [key], "properties": {key: {"const": word}}}


def _or_template(made: Schema, *, templated: bool) -> Schema:
    return {"anyOf": [made, dict(_TEMPLATE)]} if templated else made


def _one_of_keys(group: Iterable[str], *, inside_input: bool, or_name: bool) -> Schema:
    ways: list[Schema] = [{"required": [name]} for name in group]
    if inside_input:
        ways += [{"required": ["input"], "properties": {"input": {"type": "object", "required": [n]}}} for n in group]
        ways.append({"required": ["input"], "properties": {"input": {"type": "string"}}})
    if or_name:
        ways.append({"required": ["name"]})
    return ways[0] if len(ways) == 1 else {"anyOf": ways}


def _not_under_input(name: str) -> Schema:
    return {"properties": {"input": {"not": {"type": "object", "required": [name]}}}}


def _name_of(title: str) -> str:
    """`a step's `policy`` as `StepPolicy`."""
    words = re.findall(r"[A-Za-z]+", title.replace("'s", ""))
    return "".join(word.capitalize() for word in words if word not in ("a", "an", "the"))


def _free_name(name: str, taken: Mapping[str, Schema]) -> str:
    return next(free for number in range(1, 100) if (free := f"{name}{number if number > 1 else ''}") not in taken)


def _either(*groups: tuple[str, ...]) -> Schema:
    return {"oneOf": [{"required": list(group)} for group in groups]}


_PARALLEL: Schema = {"properties": {"mode": {"const": "parallel"}}, "required": ["mode"]}
_IS_PARALLEL: Schema = {
    "anyOf": [
        _PARALLEL,
        {
            "not": {"required": ["mode"]},
            "required": ["policy"],
            "properties": {"policy": {"type": "object", **_PARALLEL}},
        },
    ]
}
_WHEN_OR_ELSE: Schema = {
    "oneOf": [{"required": ["when", "then"]}, {"required": ["else"], "not": {"required": ["when"]}}]
}
#: what holds between the keys of a map, by its name under `$defs`
_BETWEEN_KEYS: Mapping[str, Schema] = {
    "Step": {
        "if": {"not": {"properties": {"step": {"const": "end"}}}},
        "then": {"anyOf": [{"required": ["tool"]}, {"required": ["next"]}]},
    },
    "Arc": _either(("step",), ("terminate",)),
    "Next": {
        "anyOf": [
            {"required": ["arcs"]},
            {"required": ["spec"], "properties": {"spec": {"type": "object", "required": ["synthesize"]}}},
        ]
    },
    "Rule": _WHEN_OR_ELSE,
    "AdmitRule": _WHEN_OR_ELSE,
    "BranchOfChoose": _WHEN_OR_ELSE,
    "Then": {"if": {"required": ["do"], "properties": {"do": {"const": "jump"}}}, "then": {"required": ["to"]}},
    "LoopSpec": {
        "if": _IS_PARALLEL,
        "then": {"properties": {"until": False}},
        "else": {"properties": {"policy": {"properties": {"reduce": False}}}},
    },
    "Set": {
        "propertyNames": {"pattern": r"^(ctx|step|iter)(\.[^.]+)*$"},
        "properties": {scope: {"type": "object"} for scope in ("ctx", "step", "iter")},
    },
}
_TASK_ITEM: Schema = {
    "description": "A task, a task under its label (`fetch: {kind: http}`), or `choose`, `while`, `until`.",
    "type": "object",
    "if": {"required": ["kind"]},
    "then": {"$ref": "#/$defs/ListedTask"},
    "else": {
        "if": {"anyOf": [{"required": [word]} for word in SUGAR]},
        "then": {"$ref": "#/$defs/Sugar"},
        "else": {
            "minProperties": 1,
            "maxProperties": 1,
            "propertyNames": {"pattern": f"^{NAME_PATTERN}$", "not": {"enum": list(TASK_KEYS)}},
            "additionalProperties": {"$ref": "#/$defs/ListedTask"},
        },
    },
}
