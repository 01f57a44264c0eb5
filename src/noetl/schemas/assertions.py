"""Keywords that look at a value by itself: its type, its size, what it may be."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final

from noetl.patterns import Pattern
from noetl.schemas.equality import identity
from noetl.schemas.judging import Judgement, Trail, quote, say
from noetl.schemas.places import Check, Place


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "null": lambda value: value is None,
    "number": _is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def type_(place: Place, given: Any) -> Check:
    """`type`: one of the seven, or several."""
    names = [given] if isinstance(given, str) else place.texts(given)
    for name in names:
        if name not in _TYPES:
            place.refuse(f"{quote(name)} is no type; the types are {', '.join(sorted(_TYPES))}")
    tests = [_TYPES[name] for name in names]
    if "integer" in names and not place.dialect.whole_floats:
        tests[names.index("integer")] = lambda value: isinstance(value, int) and not isinstance(value, bool)
    said = ", ".join(repr(name) for name in names)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        for test in tests:
            if test(value):
                return
        run.report(trail, "type", given, value, lambda: f"{quote(value)} is not of type {said}")

    return check


def enum(place: Place, given: Any) -> Check:
    """`enum`: one of these values."""
    if not isinstance(given, list):
        place.refuse("it must be a list")
    known = {identity(place.run, one) for one in given}

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        if identity(run, value) not in known:
            run.report(trail, "enum", given, value, lambda: f"{quote(value)} is not one of {quote(given)}")

    return check


def const(place: Place, given: Any) -> Check:
    """`const`: this value."""
    wanted = identity(place.run, given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        if identity(run, value) != wanted:
            run.report(trail, "const", given, value, lambda: f"{quote(given)} was expected")

    return check


# --- numbers ---------------------------------------------------------------------------------------------------------


def _bound(
    keyword: str, fails: Callable[[Any, Any], bool], said: str, strict: tuple[str, str, Callable[[Any, Any], bool]]
) -> Callable[[Place, Any], Check]:
    """A keyword that bounds numbers; in draft 4 another one, a boolean, makes it strict."""

    def compile_bound(place: Place, given: Any) -> Check:
        limit = place.number(given)
        name, words, strictly = strict
        is_strict = not place.dialect.bounds_are_numbers and place.schema.get(name) is True
        test, told = (strictly, words) if is_strict else (fails, said)

        def check(run: Judgement, value: Any, trail: Trail) -> None:
            if test(value, limit):
                run.report(trail, keyword, limit, value, lambda: f"{quote(value)} is {told} {limit!r}")

        return check

    return compile_bound


_BELOW = ("exclusiveMinimum", "less than or equal to the minimum of", lambda value, limit: value <= limit)
_ABOVE = ("exclusiveMaximum", "greater than or equal to the maximum of", lambda value, limit: value >= limit)
minimum = _bound("minimum", lambda value, limit: value < limit, "less than the minimum of", _BELOW)
maximum = _bound("maximum", lambda value, limit: value > limit, "greater than the maximum of", _ABOVE)


def _exclusive(keyword: str, said: str, fails: Callable[[Any, Any], bool]) -> Callable[[Place, Any], Check | None]:
    numeric = _bound(keyword, fails, said, (keyword, said, fails))

    def compile_exclusive(place: Place, given: Any) -> Check | None:
        if place.dialect.bounds_are_numbers:
            return numeric(place, given)
        place.flag(given)  # `minimum` and `maximum` ask for it
        return None

    return compile_exclusive


exclusive_minimum = _exclusive(*_BELOW)
exclusive_maximum = _exclusive(*_ABOVE)


def multiple_of(place: Place, given: Any) -> Check:
    """`multipleOf`: of the decimal number as it is written, so that 0.3 is a multiple of 0.1."""
    divisor = place.number(given)
    if divisor <= 0:
        place.refuse("it must be greater than 0")
    exact = divisor if isinstance(divisor, int) else _exact(divisor)
    size = _division_work(divisor)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(_division_work(value) + size)
        if isinstance(value, int) and isinstance(exact, int):
            fails = bool(value % exact)
        else:
            fails = (_exact(value) / exact).denominator != 1
        if fails:
            run.report(trail, "multipleOf", divisor, value, lambda: f"{quote(value)} is not a multiple of {divisor}")

    return check


def _exact(number: int | float) -> Fraction:
    return Fraction(number) if isinstance(number, int) else Fraction(repr(number))


def _division_work(number: int | float) -> int:
    """Long division grows with the square of the length."""
    return 100 if isinstance(number, float) else 1 + (number.bit_length() >> 6) ** 2


# --- sizes -----------------------------------------------------------------------------------------------------------


def _least(keyword: str, short: str) -> Callable[[Place, Any], Check]:
    def compile_least(place: Place, given: Any) -> Check:
        limit = place.count(given)

        def check(run: Judgement, value: Any, trail: Trail) -> None:
            if len(value) < limit:
                said = "should be non-empty" if limit == 1 else short
                run.report(trail, keyword, limit, value, lambda: f"{quote(value)} {said}")

        return check

    return compile_least


def _most(keyword: str, long: str) -> Callable[[Place, Any], Check]:
    def compile_most(place: Place, given: Any) -> Check:
        limit = place.count(given)

        def check(run: Judgement, value: Any, trail: Trail) -> None:
            if len(value) > limit:
                said = "is expected to be empty" if limit == 0 else long
                run.report(trail, keyword, limit, value, lambda: f"{quote(value)} {said}")

        return check

    return compile_most


min_length = _least("minLength", "is too short")
max_length = _most("maxLength", "is too long")
min_items = _least("minItems", "is too short")
max_items = _most("maxItems", "is too long")
min_properties = _least("minProperties", "does not have enough properties")
max_properties = _most("maxProperties", "has too many properties")


# --- text, lists, maps -----------------------------------------------------------------------------------------------


def pattern(place: Place, given: Any) -> Check:
    """`pattern`: found somewhere in a text."""
    wanted: Pattern = place.pattern(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(wanted.work_for(value))
        if not wanted.found_in(value):
            run.report(trail, "pattern", given, value, lambda: f"{quote(value)} does not match {quote(given)}")

    return check


def unique_items(place: Place, given: Any) -> Check | None:
    """`uniqueItems`: no two are equal."""
    if not place.flag(given):
        return None

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        known: set[str | bytes] = set()
        for item in value:
            known.add(identity(run, item))
        if len(known) < len(value):
            run.report(trail, "uniqueItems", given, value, lambda: f"{quote(value)} has non-unique elements")

    return check


def required(place: Place, given: Any) -> Check:
    """`required`: keys that a map must have."""
    names = place.texts(given)

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(len(names))
        for name in names:
            if name not in value:
                run.report(trail, "required", given, value, say(f"{quote(name)} is a required property"))

    return check


def dependent_required(place: Place, given: Any) -> Check:
    """`dependentRequired`: keys that a map must have when it has another."""
    wanted = {name: place.below(name).texts(names) for name, names in place.map_of(given).items()}

    def check(run: Judgement, value: Any, trail: Trail) -> None:
        run.pay(len(wanted))
        for name, names in wanted.items():
            if name in value:
                require(run, value, trail, name, names)

    return check


def require(run: Judgement, value: Any, trail: Trail, name: str, names: list[str]) -> None:
    """Report the keys that are missing beside another."""
    run.pay(len(names))
    for other in names:
        if other not in value:
            said = say(f"{quote(other)} is a dependency of {quote(name)}")
            run.report(trail, "dependentRequired", names, value, said)
