"""A JSON Schema compiled: its keywords to functions, its references to what they lead to. Nothing is ever fetched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import unquote, urldefrag, urljoin

from noetl.schemas.applicators import SchemaReference
from noetl.schemas.dialects import HOLDS_LIST, HOLDS_MAP, HOLDS_ONE, LATEST, dialect_of
from noetl.schemas.judging import Judgement, SchemaLimit, Seen, Trail, UnknownReference, Violation, quote
from noetl.schemas.places import Check, Dialect, Place, SchemaInvalid, SchemaNode

#: tenths of a microsecond that compiling a schema may take, and holding a value against it: about half a second
STEPS: Final = 5_000_000

Path = tuple[str | int, ...]
#: type → the keywords that look at its values
_CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
}
#: where a boolean stands for a schema in draft 4, too
_BOOLEANS_OF_DRAFT_4: Final = (("additionalItems",), ("additionalProperties",))


class Schema:
    """A compiled schema, for any number of values."""

    __slots__ = ("_document", "_root")

    def __init__(self, source: Any, *, steps: int = STEPS) -> None:
        self._document = _Document(source, Judgement(steps))
        self._root = self._document.root

    @property
    def size(self) -> int:
        """How many schemas and keywords there are in it."""
        return self._document.size

    def violations(self, value: Any, *, steps: int = STEPS) -> list[Violation]:
        """What the schema forbids of a value, in the order of the places.

        SchemaLimit: it is too much work. UnknownReference: the schema leads out of itself.
        """
        run = Judgement(steps)
        try:
            self._root.check(run, value, None)
        except RecursionError:
            raise SchemaLimit from None
        return run.violations


class _Document:
    def __init__(self, source: Any, run: Judgement) -> None:
        self.run = run
        self.dialect = _dialect(source)
        #: address → schema resource
        self._resources: dict[str, Any] = {}
        #: (address, name) → schema
        self._anchors: dict[tuple[str, str], Any] = {}
        self._dynamic: dict[tuple[str, str], Any] = {}
        #: id of a schema → the address that references in it start from; the source keeps all of them alive
        self._bases: dict[int, str] = {}
        self._nodes: dict[int, SchemaNode] = {}
        self._anchored: dict[tuple[str, str], SchemaNode] = {}
        self._open: deque[tuple[Any, Path, str, SchemaNode]] = deque()
        self._source = source
        self._compiled: list[tuple[SchemaNode, dict[str, list[Check]]]] = []
        self._tracks = False
        self.size = 1
        self._index(source)
        self.root = self.compile(source, (), "")
        self._compile_all()

    # --- names -------------------------------------------------------------------------------------------------------

    def _index(self, source: Any) -> None:
        """Find every name that a schema gives itself."""
        self._resources[""] = source
        pending: list[tuple[Any, str]] = [(source, "")]
        while pending:
            schema, base = pending.pop()
            self.run.pay(10)
            if not isinstance(schema, dict) or id(schema) in self._bases:
                continue
            base = self._base_of(schema, base)
            self._bases[id(schema)] = base
            for key, found in (("$anchor", self._anchors), ("$dynamicAnchor", self._dynamic)):
                if isinstance(name := schema.get(key), str):
                    self._anchors[base, name] = found[base, name] = schema
            if schema.get("$recursiveAnchor") is True:
                self._dynamic[base, ""] = schema
            pending.extend((one, base) for one in self._schemas_in(schema))

    def _base_of(self, schema: dict[str, Any], base: str) -> str:
        """The address of a schema, which may name itself."""
        name = schema.get(self.dialect.id_key)
        if not isinstance(name, str) or (self.dialect.lone_ref and "$ref" in schema):
            return base
        self.run.pay(100 + len(name))
        address, fragment = urldefrag(_join(base, name))
        if fragment and self.dialect.lone_ref:
            self._anchors[base, fragment] = schema
            if address in ("", base):
                return base
        self._resources.setdefault(address, schema)
        return address

    def _schemas_in(self, schema: dict[str, Any]) -> Iterator[Any]:
        for name, given in schema.items():
            if name not in self.dialect.keywords and name not in HOLDS_MAP:
                continue
            if isinstance(given, dict) and name in HOLDS_MAP:
                yield from given.values()
            elif isinstance(given, dict) and name in HOLDS_ONE:
                yield given
            elif isinstance(given, list) and name in HOLDS_LIST:
                yield from given

    # --- what keywords ask for ---------------------------------------------------------------------------------------

    def compile(self, schema: Any, path: Path, base: str) -> SchemaNode:
        """The node of a schema; it gets its keywords before anything is held against it."""
        if isinstance(schema, bool):
            return self._boolean(schema, path, base)
        node = self._nodes.get(id(schema))
        if node is None:
            base = self._bases.get(id(schema), base)
            node = self._nodes[id(schema)] = SchemaNode(base)
            self._open.append((schema, path, base, node))
        return node

    def refer(self, reference: str, path: Path, base: str) -> SchemaNode:
        """The node that a reference leads to."""
        self.run.pay(50 + len(reference))
        address, fragment = (base, reference[1:]) if reference.startswith("#") else urldefrag(_join(base, reference))
        if address not in self._resources:
            dialect = dialect_of(address)
            if dialect is None or fragment:
                raise UnknownReference(reference)
            node = SchemaNode(address)
            node.check = _is_schema
            return node
        resource = self._resources[address]
        if fragment and not fragment.startswith("/"):
            found = self._anchors.get((address, unquote(fragment)))
            if found is None:
                raise UnknownReference(reference)
            return self.compile(found, path, address)
        found, base = self._follow(resource, unquote(fragment), address, reference)
        if not isinstance(found, (dict, bool)):
            raise SchemaInvalid(path, f"`{reference}` leads to {quote(found)}, which is no schema")
        return self.compile(found, path, base)

    def _follow(self, schema: Any, pointer: str, base: str, reference: str) -> tuple[Any, str]:
        """What a JSON pointer leads to, and the address that references in it start from."""
        for part in pointer.split("/")[1:]:
            self.run.pay(2)
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(schema, list) and key.isdecimal() and int(key) < len(schema):
                schema = schema[int(key)]
            elif isinstance(schema, dict) and key in schema:
                schema = schema[key]
            else:
                raise UnknownReference(reference)
            base = self._bases.get(id(schema), base)
        return schema, base

    def refer_dynamically(self, reference: str, base: str) -> str | None:
        """The anchor that a dynamic reference looks for; None: it is like any other."""
        address, fragment = (base, reference[1:]) if reference.startswith("#") else urldefrag(_join(base, reference))
        return fragment if (address, fragment) in self._dynamic else None

    def anchored(self, resource: str, anchor: str) -> SchemaNode | None:
        """The node of a dynamic anchor of a schema resource."""
        return self._anchored.get((resource, anchor))

    # --- compiling ---------------------------------------------------------------------------------------------------

    def _compile_all(self) -> None:
        self._compile_open()
        for (resource, name), schema in self._dynamic.items():
            self._anchored[resource, name] = self.compile(schema, (), resource)
        self._compile_open()
        for node, checks in self._compiled:
            node.check = _checker(node, checks, tracks=self._tracks, enters=bool(self._dynamic))
        for node, checks in self._compiled if not self._dynamic else ():
            _replace_reference(node, checks)

    def _compile_open(self) -> None:
        while self._open:
            schema, path, base, node = self._open.popleft()
            self.run.pay(20)
            self.size += 1
            if not isinstance(schema, dict):
                raise SchemaInvalid(path, f"a schema is a map, not {quote(schema)}")
            self._compiled.append((node, self._keywords(schema, path, base)))

    def _boolean(self, schema: bool, path: Path, base: str) -> SchemaNode:  # noqa: FBT001  it is the schema
        if not self.dialect.booleans and path[-1:] not in _BOOLEANS_OF_DRAFT_4:
            raise SchemaInvalid(path, "a schema is a map in draft 4, not a boolean")
        node = SchemaNode(base)
        node.check = _nothing if schema else _never
        return node

    def _keywords(self, schema: dict[Any, Any], path: Path, base: str) -> dict[str, list[Check]]:
        checks: dict[str, list[Check]] = {}
        lone = self.dialect.lone_ref and "$ref" in schema
        found = [(name, keyword) for name in schema if (keyword := self.dialect.keywords.get(name)) is not None]
        if len(found) > 1:
            found.sort(key=lambda one: one[1].last)
        for name, keyword in found:
            self.run.pay(60)
            self.size += 1
            self._tracks = self._tracks or keyword.last
            check = keyword.compile(Place(self, schema, (*path, name), base), schema[name])
            if check is not None and (name == "$ref" or not lone):
                checks.setdefault(keyword.looks_at, []).append(check)
        return checks


def _dialect(source: Any) -> Dialect:
    if not isinstance(source, dict):
        return LATEST
    address = source.get("$schema", "")
    if not isinstance(address, str):
        raise SchemaInvalid((), "`$schema` must be text")
    return dialect_of(address) or LATEST


def _join(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


# --- a node's check --------------------------------------------------------------------------------------------------


def _nothing(_run: Judgement, _value: Any, _trail: Trail) -> None:
    return None


def _never(run: Judgement, value: Any, trail: Trail) -> None:
    run.report(trail, "false", None, value, lambda: f"{quote(value)} is not allowed here")


def _is_schema(run: Judgement, value: Any, trail: Trail) -> None:
    """The schema of schemas: whether a value is one."""
    try:
        inner = Judgement(run.left)
        _Document(value, inner)
        run.left = inner.left
    except SchemaInvalid as wrong:
        said = wrong.said
        run.report(trail, "$ref", None, value, lambda: f"{quote(value)} is not a JSON Schema: {said}")


def _checker(
    node: SchemaNode, checks: dict[str, list[Check]], *, tracks: bool, enters: bool
) -> Callable[[Judgement, Any, Trail], Seen | None]:
    """All keywords of one schema: those that look at values of the type at hand."""
    by_class: dict[type, tuple[Check, ...]] = {}
    everything = tuple(checks.get("", ()))
    for name, classes in _CLASSES.items():
        for one in classes:
            # What looks at everything has no reason to come first or last, only `unevaluated…` has.
            by_class[one] = (*everything, *checks.get(name, ()))

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        found = by_class.get(value.__class__)
        if found is None:
            found = _of_subclass(by_class, value, everything)
        run.left -= 3 + 3 * len(found)
        if run.left < 0:
            raise SchemaLimit
        for one in found:
            one(run, value, trail)

    def check_and_watch(run: Judgement, value: Any, trail: Trail) -> Seen | None:
        outer = run.seen
        run.seen = mine = Seen() if tracks else None
        entered = enters and (not run.resources or run.resources[-1] != node.resource)
        if entered:
            run.resources.append(node.resource)
        check(run, value, trail)
        if entered:
            run.resources.pop()
        run.seen = outer
        return mine

    return check_and_watch if tracks or enters else check


def _of_subclass(
    by_class: dict[type, tuple[Check, ...]], value: Any, everything: tuple[Check, ...]
) -> tuple[Check, ...]:
    if isinstance(value, bool):
        return everything
    return next((found for one, found in by_class.items() if isinstance(value, one)), everything)


def _replace_reference(node: SchemaNode, checks: dict[str, list[Check]]) -> None:
    """A schema that is a reference and nothing else becomes what it refers to: one step less on the way down."""
    only = checks.get("", [])
    if len(checks) == 1 and len(only) == 1 and isinstance(only[0], SchemaReference):
        node.check = only[0].node.check
