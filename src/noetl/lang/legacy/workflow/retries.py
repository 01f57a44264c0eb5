"""Retry blocks of every age as one rule: `{when: …, then: {do: retry, …}}`."""

from __future__ import annotations

from noetl.lang.grammar.foreign_error_kinds import FOREIGN_KINDS, STATUS_CONDITIONS
from noetl.lang.legacy.lowered_document import Lowering, quote_entries
from noetl.lang.legacy.name_rewrite import ChainRename, NameChain, rewrite
from noetl.lang.reading.node import MapEntry, MapNode, NodeBase, Scalar, make, plain_value

_ATTEMPTS = ("max_attempts", "attempts", "max")
_RETRIES = ("max_retries", "retries", "count")
_DELAY = ("initial_delay", "delay", "delay_seconds", "interval", "backoff_seconds", "wait")
_LONGEST = ("max_delay", "max_backoff", "max_interval")
_MULTIPLIER = ("backoff_multiplier", "multiplier", "backoff_factor")
_BACKOFF = ("backoff", "strategy", "backoff_strategy")
_CONDITION = ("retry_when", "when", "condition", "expr")
_CAUSES = ("retryable_status_codes", "status_codes", "on_status", "retry_on")
_WORDS = {"none": "none", "fixed": "fixed", "constant": "fixed", "linear": "linear", "exponential": "exponential"}
_ERROR = "output.status == 'error'"


def retry_rule(doc: Lowering, found: MapEntry, holder: MapEntry | None = None) -> MapNode | None:
    """The rule a `retry` block stands for; None when it says not to retry. What is left open is noted at `holder`."""
    near = found.key
    value = found.value
    if isinstance(value, Scalar) and (value.value is None or isinstance(value.value, bool | int)):
        return _simple(value.value, near)
    if not isinstance(value, MapNode):
        doc.todo(holder, f"write the retry as a rule under `spec.policy.rules`: {quote_entries([found])}", near)
        return None
    block = _RetryBlock(value)
    if block.value("enabled") is False:
        return None
    then: dict[str, object] = {"do": "retry"}
    attempts = _attempts(block)
    if attempts is not None:
        then["attempts"] = attempts
    _backoff(block, then)
    condition = _condition(block)
    if block.value("enabled") is True:
        block.take("enabled")
    if block.left:
        doc.todo(holder, f"the retry also said {quote_entries(block.left)}", near)
    return _rule(condition, then, near)


class _RetryBlock:
    """A retry block that remembers which of its keys nobody has understood."""

    def __init__(self, node: MapNode) -> None:
        inner = node.entry("on_error") or node.entry("error")
        self.left = list(node.entries)
        if inner is not None and isinstance(inner.value, MapNode):
            self.left = [*inner.value.entries, *(one for one in node.entries if one is not inner)]

    def find(self, *names: str) -> MapEntry | None:
        """The entry under the first of these names."""
        return next((one for name in names for one in self.left if one.name == name), None)

    def value(self, *names: str) -> object:
        """What that entry says, as plain data."""
        found = self.find(*names)
        return plain_value(found.value) if found is not None else None

    def take(self, *names: str) -> MapEntry | None:
        """The entry under the first of these names; it is understood now."""
        found = self.find(*names)
        if found is not None:
            self.left.remove(found)
        return found


def _simple(value: object, near: NodeBase) -> MapNode | None:
    if value is True:
        return _rule(_ERROR, {"do": "retry"}, near)
    if isinstance(value, int) and value > 0:
        return _rule(_ERROR, {"do": "retry", "attempts": value}, near)
    return None


def _attempts(block: _RetryBlock) -> object:
    """How many tries in all: retries do not count the first."""
    found = block.take(*_ATTEMPTS)
    if found is not None:
        return found.value
    retries = block.value(*_RETRIES)
    if isinstance(retries, int) and not isinstance(retries, bool):
        block.take(*_RETRIES)
        return retries + 1
    if isinstance(retries, str) and (inside := _inside(retries)):
        block.take(*_RETRIES)
        return "{{ (" + inside + ") | int + 1 }}"
    return None


def _backoff(block: _RetryBlock, then: dict[str, object]) -> None:
    word = block.value(*_BACKOFF)
    if isinstance(word, str) and word in _WORDS:
        block.take(*_BACKOFF)
        then["backoff"] = _WORDS[word]
    multiplier = block.value(*_MULTIPLIER)
    if isinstance(multiplier, int | float) and not isinstance(multiplier, bool):
        if then.get("backoff", "exponential") == "exponential" and multiplier > 1:
            then["backoff"] = "exponential"
        if multiplier in (1, 2) or then.get("backoff") in ("none", "fixed", "linear"):
            block.take(*_MULTIPLIER)  # any other is no doubling: left to be told
    for key, names in (("delay", _DELAY), ("max_delay", _LONGEST)):
        found = block.take(*names)
        if found is not None:
            then[key] = found.value
    if isinstance(jitter := block.value("jitter"), bool):
        block.take("jitter")
        then.update({"jitter": True} if jitter else {})


def _condition(block: _RetryBlock) -> str:
    """When to try again; `stop_when` says when not to."""
    condition = _take_condition(block, _CONDITION) or _causes(block)
    stop = _take_condition(block, ("stop_when",))
    if stop is None:
        return condition or _ERROR
    return f"({condition}) and not ({stop})" if condition else f"not ({stop})"


def _take_condition(block: _RetryBlock, names: tuple[str, ...]) -> str | None:
    """A condition in the author's words."""
    text = block.value(*names)
    if not isinstance(text, str):
        return None
    block.take(*names)
    return rewrite("{{ " + (_inside(text) or text.strip()) + " }}", _of_the_call)[3:-3]


def _inside(text: str) -> str:
    """The expression of a text that is one template."""
    text = text.strip()
    return text[2:-2].strip() if text.startswith("{{") and text.endswith("}}") and text.count("{{") == 1 else ""


def _causes(block: _RetryBlock) -> str | None:
    """`retry_on: [503, timeout]`: statuses by number, errors by name."""
    found = block.find(*_CAUSES)
    said = plain_value(found.value) if found is not None else None
    causes = said if isinstance(said, list) else [said]
    if not causes:
        return None
    numbers = [one for one in causes if isinstance(one, int) and not isinstance(one, bool)]
    words = [one for one in causes if isinstance(one, str)]
    conditions = [STATUS_CONDITIONS[one] for one in words if one in STATUS_CONDITIONS]
    kinds = [FOREIGN_KINDS.get(one, one) for one in words if one in FOREIGN_KINDS or one == "timeout"]
    if len(numbers) + len(conditions) + len(kinds) < len(causes):
        return None
    block.take(*_CAUSES)
    either = [f"output.http.status in {numbers}"] if numbers else []
    either += [f"({one})" if " and " in one else one for one in conditions]
    either += [f"output.error.kind in {list(dict.fromkeys(kinds))}"] if kinds else []
    return f"{_ERROR} and {either[0] if len(either) == 1 else '(' + ' or '.join(either) + ')'}"


def _of_the_call(chain: NameChain) -> ChainRename | None:
    """Names that a retry block could use without saying whose they are."""
    if chain.parts[0] == "status_code":
        return ChainRename(1, "output.http.status")
    if chain.parts[0] in ("response", "result", "this", "error") and chain.parts[1:2] in (
        ("status_code",),
        ("status",),
    ):
        return ChainRename(2, "output.http.status")
    if chain.parts[0] == "error":
        return ChainRename(1, "output.error")
    return None


def _rule(condition: str, then: dict[str, object], near: NodeBase) -> MapNode:
    made = make({"when": "{{ " + condition + " }}", "then": then}, near=near)
    assert isinstance(made, MapNode)
    return made
