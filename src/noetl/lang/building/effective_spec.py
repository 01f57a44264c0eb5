"""The effective spec of a task, with the origin of every value.

Layers from the outside in: the kind's defaults, `executor.spec`, `step.spec`, `loop.spec`, `task.spec`. Scalars: the
inner wins. Maps merge deeply. Lists are replaced. Keys that restrict take the most restrictive value of all layers.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.model.playbook import LayeredValue

Layer = tuple[str, Mapping[str, Any]]

#: keys that belong to one scope and are not inherited
OWN_TO_A_SCOPE = frozenset({"policy", "mode", "max_in_flight", "until", "complete_when", "complete_rest"})
#: maps that are one value: a schema is not merged with another
_WHOLE = frozenset({"validate.input", "validate.output"})
_RESTRICTIVE = frozenset({"isolation", "network", "allow_hosts"})
_STRICTNESS = {"isolation": ("none", "process", "strict"), "network": ("on", "off")}


def effective_spec(layers: Iterable[Layer]) -> dict[str, LayeredValue]:
    """Dotted key → value and origin, of all layers laid over each other."""
    result: dict[str, LayeredValue] = {}
    for origin, spec in layers:
        if not spec:
            continue
        for key, value in _leaves(spec, ""):
            _lay(result, key, LayeredValue(value, origin))
    return result


def restrictions(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What an effective spec forbids: all that holds for whatever is called on its behalf."""
    return {key: value for key, value in spec.items() if key in _RESTRICTIVE or key.startswith("limits.")}


def restrict_spec(spec: Mapping[str, Any], outer: Mapping[str, Any]) -> Mapping[str, Any]:
    """An effective spec under the restrictions of its caller."""
    if not outer:
        return spec
    result = {key: LayeredValue(value, "") for key, value in outer.items()}
    for key, value in spec.items():
        _lay(result, key, LayeredValue(value, ""))
    return {key: layered.value for key, layered in result.items()}


def _leaves(spec: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    for name, value in spec.items():
        key = f"{prefix}{name}"
        if not prefix and name in OWN_TO_A_SCOPE:
            continue
        if value is None or value == {}:
            continue  # nothing said: it must not lift what an outer layer restricts
        if isinstance(value, Mapping) and value and key not in _WHOLE:
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _lay(result: dict[str, LayeredValue], key: str, inner: LayeredValue) -> None:
    outer = result.get(key)
    if outer is not None and (kept := _stricter_value(key, outer, inner)) is not None:
        result[key] = kept
        return
    # A scalar over a map (`timeout: 5` over `timeout: {read: 3}`), or the reverse, replaces it.
    for other in [other for other in result if other.startswith(f"{key}.") or key.startswith(f"{other}.")]:
        del result[other]
    result[key] = inner


def _stricter_value(key: str, outer: LayeredValue, inner: LayeredValue) -> LayeredValue | None:
    """The more restrictive of two values, or None when the inner one simply wins."""
    order = _STRICTNESS.get(key)
    if order is not None and outer.value in order and inner.value in order:
        return max(outer, inner, key=lambda layered: order.index(layered.value))
    if key.startswith("limits.") and _is_number(outer.value) and _is_number(inner.value):
        return min(outer, inner, key=lambda layered: float(layered.value))
    if key == "allow_hosts" and isinstance(outer.value, list) and isinstance(inner.value, list):
        common = [host for host in inner.value if _allows_host(host, outer.value)]
        common += [host for host in outer.value if host not in common and _allows_host(host, inner.value)]
        return LayeredValue(common, f"{outer.origin} ∩ {inner.origin}")
    return None


def _allows_host(host: str, allowed: list[str]) -> bool:
    return any(
        pattern in (host, "*") or (pattern.startswith("*.") and host.endswith(pattern[1:])) for pattern in allowed
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
