"""Retry blocks of every age as one rule: `{when: …, then: {do: retry, …}}`."""

from __future__ import annotations

from noetl.lang.legacy.lowering import Lowering
from noetl.lang.legacy.rename import Chain, Renamed, rewrite
from noetl.lang.node import Base, Entry, ListNode, MapNode, Node, Scalar, make, plain, text_of

_ATTEMPTS = ("max_attempts", "attempts", "max")
_RETRIES = ("max_retries", "retries", "count")
_DELAY = ("initial_delay", "delay", "delay_seconds", "interval", "backoff_seconds", "wait")
_CONDITION = ("retry_when", "when", "condition", "expr")
_UNDERSTOOD = frozenset(
    (*_ATTEMPTS, *_RETRIES, *_DELAY, *_CONDITION, "backoff", "strategy", "backoff_strategy", "max_delay", "max_backoff")
) | {
    "max_interval",
    "backoff_multiplier",
    "multiplier",
    "backoff_factor",
    "jitter",
    "retryable_status_codes",
    "status_codes",
    "on_status",
    "retry_on",
    "enabled",
}
_ERROR = "output.status == 'error'"


def retry_rule(doc: Lowering, found: Entry, holder: Entry | None = None) -> MapNode | None:
    """The rule a `retry` block stands for; None when it says not to retry. What is left open is noted at `holder`."""
    near = found.key
    value = found.value
    if isinstance(value, Scalar):
        return _simple(value, near)
    if not isinstance(value, MapNode):
        doc.todo(holder, "write the retry as a rule under `spec.policy.rules`", near)
        return None
    block = value
    inner = block.get("on_error") or block.get("error")
    if isinstance(inner, MapNode):
        block = inner
    then: dict[str, object] = {"do": "retry"}
    attempts = _first(block, _ATTEMPTS)
    if attempts is not None:
        then["attempts"] = attempts
    elif isinstance(retries := plain(_first(block, _RETRIES)), int):
        then["attempts"] = retries + 1  # attempts count the first try
    _backoff(block, then)
    left = [one.name for one in block.entries if one.name not in _UNDERSTOOD]
    if block is not value:
        left += [one.name for one in value.entries if one.name not in ("on_error", "error")]
    if left:
        said = f"the retry also said {', '.join(f'`{name}`' for name in left)}"
        doc.todo(holder, said, near)
    return _rule(_condition(block), then, near)


def _simple(value: Scalar, near: Base) -> MapNode | None:
    if value.value is True:
        return _rule(_ERROR, {"do": "retry"}, near)
    if isinstance(value.value, int) and not isinstance(value.value, bool) and value.value > 0:
        return _rule(_ERROR, {"do": "retry", "attempts": value.value}, near)
    return None


def _backoff(block: MapNode, then: dict[str, object]) -> None:
    multiplier = plain(_first(block, ("backoff_multiplier", "multiplier", "backoff_factor")))
    word = text_of(block, "backoff") or text_of(block, "strategy") or text_of(block, "backoff_strategy")
    if word in ("none", "fixed", "linear", "exponential"):
        then["backoff"] = word
    elif word == "constant":
        then["backoff"] = "fixed"
    elif isinstance(multiplier, int | float) and multiplier > 1:
        then["backoff"] = "exponential"
    delay = _first(block, _DELAY)
    if delay is not None:
        then["delay"] = delay
    longest = _first(block, ("max_delay", "max_backoff", "max_interval"))
    if longest is not None:
        then["max_delay"] = longest
    if plain(block.get("jitter")) is True:
        then["jitter"] = True


def _condition(block: MapNode) -> str:
    condition = _first(block, _CONDITION)
    if isinstance(condition, Scalar) and isinstance(condition.value, str):
        text = condition.text.strip()
        text = text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") else text
        return rewrite("{{ " + text + " }}", _of_the_call)[3:-3]
    codes = _first(block, ("retryable_status_codes", "status_codes", "on_status", "retry_on"))
    numbers = plain(codes) if isinstance(codes, ListNode) else None
    if isinstance(numbers, list) and numbers and all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        return f"{_ERROR} and output.http.status in {numbers}"
    return _ERROR


def _of_the_call(chain: Chain) -> Renamed | None:
    """Names that a retry block could use without saying whose they are."""
    if chain.parts[0] == "status_code":
        return Renamed(1, "output.http.status")
    if chain.parts[0] in ("response", "result", "this") and chain.parts[1:2] in (("status_code",), ("status",)):
        return Renamed(2, "output.http.status")
    if chain.parts[0] == "error":
        return Renamed(1, "output.error")
    return None


def _rule(condition: str, then: dict[str, object], near: Base) -> MapNode:
    made = make({"when": "{{ " + condition + " }}", "then": then}, near=near)
    assert isinstance(made, MapNode)
    return made


def _first(block: MapNode, names: tuple[str, ...]) -> Node | None:
    return next((found for name in names if (found := block.get(name)) is not None), None)
