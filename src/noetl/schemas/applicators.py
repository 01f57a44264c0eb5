"""Keywords that hold schemas: for the members of a value, or for the value itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.schemas.assertions import require
from noetl.schemas.judging import Judgement, Trail, UnknownReference, quote
from noetl.schemas.places import Check, Place, SchemaNode

# --- the value itself ------------------------------------------------------------------------------------------------


def all_of(place: Place, given: Any) -> Check:
    """`allOf`."""
    nodes = place.nodes(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        for node in nodes:
            run.merge(node.check(run, value, trail))

    return check


def any_of(place: Place, given: Any) -> Check:
    """`anyOf`: where somebody asks what was seen, every schema that fits has seen something."""
    nodes = place.nodes(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        fits = False
        for node in nodes:
            fits = run.holds(node.check, value) or fits
            if fits and run.seen is None:
                return
        if not fits:
            said = "is not valid under any of the given schemas"
            run.report(trail, "anyOf", given, value, lambda: f"{quote(value)} {said}")

    return check


def one_of(place: Place, given: Any) -> Check:
    """`oneOf`."""
    nodes = place.nodes(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        fits = [at for at, node in enumerate(nodes) if run.holds(node.check, value)]
        if not fits:
            said = "is not valid under any of the given schemas"
            run.report(trail, "oneOf", given, value, lambda: f"{quote(value)} {said}")
        elif len(fits) > 1:
            said = " and ".join(quote(given[at]) for at in fits[:2])
            run.report(trail, "oneOf", given, value, lambda: f"{quote(value)} is valid under each of {said}")

    return check


def not_(place: Place, given: Any) -> Check:
    """`not`: what it has seen does not count."""
    node = place.node(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        seen, run.seen = run.seen, None
        holds = run.holds(node.check, value)
        run.seen = seen
        if holds:
            said = f"should not be valid under {quote(given)}"
            run.report(trail, "not", given, value, lambda: f"{quote(value)} {said}")

    return check


def if_(place: Place, given: Any) -> Check:
    """`if`, with `then` and `else`."""
    node = place.node(given)
    then, otherwise = (
        Place(place.owner, place.schema, place.path[:-1], place.base).node(place.schema[name], name)
        if name in place.schema
        else None
        for name in ("then", "else")
    )

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        chosen = then if run.holds(node.check, value) else otherwise
        if chosen is not None:
            run.merge(chosen.check(run, value, trail))

    return check


def beside_if(place: Place, given: Any) -> None:
    """`then` and `else` by themselves: void, but schemas all the same."""
    place.node(given)


def dependent_schemas(place: Place, given: Any) -> Check:
    """`dependentSchemas`: for a map that has some key."""
    nodes = place.named_nodes(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(len(nodes))
        for name, node in nodes.items():
            if name in value:
                run.merge(node.check(run, value, trail))

    return check


def dependencies(place: Place, given: Any) -> Check:
    """`dependencies` of older drafts: keys or a schema."""
    names = {name: place.below(name).texts(one) for name, one in place.map_of(given).items() if isinstance(one, list)}
    nodes = {name: place.node(one, name) for name, one in given.items() if name not in names}

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(len(given))
        for name in given:
            if name not in value:
                continue
            if name in names:
                require(run, value, trail, name, names[name])
            else:
                nodes[name].check(run, value, trail)

    return check


# --- references ------------------------------------------------------------------------------------------------------


class SchemaReference:
    """A reference that leads somewhere."""

    __slots__ = ("node",)

    def __init__(self, node: SchemaNode) -> None:
        self.node = node

    def __call__(self, run: Judgement, value: Any, trail: Trail) -> None:
        """What the node says counts here."""
        run.merge(self.node.check(run, value, trail))


def ref(place: Place, given: Any) -> Check:
    """`$ref`."""
    return _following(place, place.text(given))


def _following(place: Place, reference: str) -> Check:
    try:
        node = place.owner.refer(reference, place.path, place.base)
    except UnknownReference:
        return _leading_nowhere(reference)

    return SchemaReference(node)


def _leading_nowhere(reference: str) -> Check:
    def check(_run: Judgement, _value: Any, _trail: Trail) -> None:
        raise UnknownReference(reference)

    return check


def dynamic_ref(place: Place, given: Any) -> Check:
    """`$dynamicRef`, and `$recursiveRef`: the outermost schema resource on the way that has such an anchor."""
    reference = place.text(given)
    follow = _following(place, reference)
    anchor = place.owner.refer_dynamically(reference, place.base)
    if anchor is None:
        return follow
    anchored = place.owner.anchored

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        for resource in run.resources:
            run.pay(1)
            node = anchored(resource, anchor)
            if node is not None:
                run.merge(node.check(run, value, trail))
                return
        follow(run, value, trail)

    return check


# --- members of maps -------------------------------------------------------------------------------------------------


def properties(place: Place, given: Any) -> Check:
    """`properties`."""
    nodes = place.named_nodes(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        fewer = nodes if len(nodes) <= len(value) else value
        run.pay(len(fewer))
        for name in fewer:
            if name in value and name in nodes:
                if run.seen is not None:
                    run.seen.names.add(name)
                nodes[name].check(run, value[name], (name, trail))

    return check


def pattern_properties(place: Place, given: Any) -> Check:
    """`patternProperties`."""
    wanted = [(place.below(name).pattern(name), place.node(one, name)) for name, one in place.map_of(given).items()]

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        for pattern, node in wanted:
            for name, part in value.items():
                run.pay(10 + pattern.work_for(name))
                if pattern.found_in(name):
                    if run.seen is not None:
                        run.seen.names.add(name)
                    node.check(run, part, (name, trail))

    return check


def additional_properties(place: Place, given: Any) -> Check:
    """`additionalProperties`: of the keys that `properties` and `patternProperties` beside it do not name."""
    node = place.node(given)
    named = place.schema.get("properties")
    names = frozenset(named) if isinstance(named, dict) else frozenset()
    spelled = place.schema.get("patternProperties")
    patterns = [place.below(one).pattern(one) for one in spelled] if isinstance(spelled, dict) else []

    def is_extra(run: Judgement, name: str) -> bool:
        if name in names:
            return False
        for pattern in patterns:
            run.pay(10 + pattern.work_for(name))
            if pattern.found_in(name):
                return False
        return True

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(len(value))
        extras = [name for name in value if is_extra(run, name)]
        if run.seen is not None:
            run.seen.names.update(extras)
        if given is not False:
            for name in extras:
                node.check(run, value[name], (name, trail))
        elif extras:
            verb = "was" if len(extras) == 1 else "were"
            run.report(
                trail,
                "additionalProperties",
                given,
                value,
                lambda: f"Additional properties are not allowed ({_names(extras)} {verb} unexpected)",
            )

    return check


def _names(names: list[str]) -> str:
    shown = ", ".join(quote(name) for name in sorted(names)[:8])
    return shown if len(names) <= 8 else f"{shown}, …"


def property_names(place: Place, given: Any) -> Check:
    """`propertyNames`."""
    node = place.node(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        for name in value:
            node.check(run, name, trail)

    return check


def unevaluated_properties(place: Place, given: Any) -> Check:
    """`unevaluatedProperties`: of the keys that nothing beside it has looked at."""
    node = place.node(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        assert run.seen is not None
        run.pay(len(value))
        left = [name for name in value if name not in run.seen.names]
        run.seen.names.update(left)
        if given is not False:
            for name in left:
                node.check(run, value[name], (name, trail))
        elif left:
            verb = "was" if len(left) == 1 else "were"
            run.report(
                trail,
                "unevaluatedProperties",
                given,
                value,
                lambda: f"Unevaluated properties are not allowed ({_names(left)} {verb} unexpected)",
            )

    return check


# --- members of lists ------------------------------------------------------------------------------------------------


def _first_items(run: Judgement, value: Any, trail: Trail, nodes: list[SchemaNode]) -> None:
    """The first items of a list, each by a schema of its own."""
    for index, (item, node) in enumerate(zip(value, nodes, strict=False)):
        node.check(run, item, (index, trail))
    if run.seen is not None:
        run.seen.until = max(run.seen.until, min(len(value), len(nodes)))


def prefix_items(place: Place, given: Any) -> Check:
    """`prefixItems`."""
    nodes = place.nodes(given)
    return lambda run, value, trail: _first_items(run, value, trail, nodes)


def items(place: Place, given: Any) -> Check:
    """`items`: of those that `prefixItems` beside it does not reach."""
    beside = place.schema.get("prefixItems")
    return _rest(place, "items", given, len(beside) if isinstance(beside, list) else 0)


def items_of_older_drafts(place: Place, given: Any) -> Check:
    """`items`: one schema for all, or a list of schemas for the first ones."""
    if not isinstance(given, list):
        return _rest(place, "items", given, 0)
    nodes = [place.node(schema, index) for index, schema in enumerate(given)]
    return lambda run, value, trail: _first_items(run, value, trail, nodes)


def additional_items(place: Place, given: Any) -> Check | None:
    """`additionalItems`: of those that a list of `items` beside it does not reach."""
    beside = place.schema.get("items")
    if not isinstance(beside, list):
        place.node(given)  # void, but a schema all the same
        return None
    return _rest(place, "additionalItems", given, len(beside))


def _rest(place: Place, keyword: str, given: Any, first: int) -> Check:
    node = place.node(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        if len(value) <= first:
            return
        if run.seen is not None:
            run.seen.until = len(value)
        if given is False:
            said = f"Expected at most {first} items but found {len(value)}"
            run.report(trail, keyword, given, value, lambda: said)
            return
        for index in range(first, len(value)):
            node.check(run, value[index], (index, trail))

    return check


def contains(place: Place, given: Any) -> Check:
    """`contains`, with `minContains` and `maxContains`."""
    node = place.node(given)
    bounded = "minContains" in place.dialect.keywords
    least = place.schema.get("minContains", 1) if bounded else 1
    most = place.schema.get("maxContains") if bounded else None
    counts = place.dialect.name == "2020-12"  # as looked at; before it did not

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        seen, run.seen = run.seen, None
        fits = [index for index, item in enumerate(value) if run.holds(node.check, item)]
        run.seen = seen
        if seen is not None and counts:
            seen.indexes.update(fits)
        if most is not None and len(fits) > most:
            said = f"Too many items match the given schema (expected at most {most})"
            run.report(trail, "maxContains", most, value, lambda: said)
        elif len(fits) < least and not fits:
            said = "does not contain items matching the given schema"
            run.report(trail, "contains", given, value, lambda: f"{quote(value)} {said}")
        elif len(fits) < least:
            said = f"Too few items match the given schema (expected at least {least} but only {len(fits)} matched)"
            run.report(trail, "minContains", least, value, lambda: said)

    return check


def unevaluated_items(place: Place, given: Any) -> Check:
    """`unevaluatedItems`: of the items that nothing beside it has looked at."""
    node = place.node(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        assert run.seen is not None
        run.pay(len(value))
        left = [index for index in range(run.seen.until, len(value)) if index not in run.seen.indexes]
        run.seen.until = len(value)
        if given is not False:
            for index in left:
                node.check(run, value[index], (index, trail))
        elif left:
            shown = ", ".join(quote(value[index]) for index in left[:8]) + (", …" if len(left) > 8 else "")
            said = f"Unevaluated items are not allowed ({shown} {'was' if len(left) == 1 else 'were'} unexpected)"
            run.report(trail, "unevaluatedItems", given, value, lambda: said)

    return check


#: keywords whose value is no more than checked
Shape = Callable[[Place, Any], object]


def checked(shape: Shape) -> Callable[[Place, Any], None]:
    """A keyword that asserts nothing, and whose value still has to be of some shape."""

    def compile_keyword(place: Place, given: Any) -> None:
        shape(place, given)

    return compile_keyword
