"""What the limits of a step mean for one of its pipelines: the keys it counts under, and how many there may be."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from noetl.errors import TemplateError
from noetl.expr import render
from noetl.model.net import Net
from noetl.model.orders import RunPipeline
from noetl.model.output import Failure, failure
from noetl.model.playbook import Step
from noetl.model.wire import Ask, Cap, Key, Pace

#: a longer key is kept by its hash
_LONGEST = 200
_READABLE = msgspec.json.Encoder(order="sorted")


def is_limited(step: Step) -> bool:
    """Whether anything but its arcs holds a step up."""
    return "concurrency.limit" in step.spec or "rate.limit" in step.spec


def has_limits(net: Net) -> bool:
    """Whether a step of a net holds slots."""
    return any("concurrency.limit" in step.spec for step in net.steps.values())


def ask_of(net: Net, order: RunPipeline, holder: Key) -> Ask | None:
    """What a pipeline has to ask for; None: nothing. TemplateError: that cannot be told."""
    step = net.steps[order.step]
    # What cleans up or undoes must not be refused, and must not displace others.
    cleans = order.closing is not None or order.undoes
    if order.gather is not None or order.unfolds or cleans or not is_limited(step):
        return None
    wishes = _KeyCollector(step, order, f"step:{net.playbook.path}:{step.name}")
    cap = wishes.cap()
    # A start counts once: who goes on has started.
    pace = wishes.pace() if not (order.begun or order.answer is not None) else None
    return Ask(holder, cap, pace) if cap is not None or pace is not None else None


class _KeyCollector:
    def __init__(self, step: Step, order: RunPipeline, own: str) -> None:
        self._step, self._order = step, order
        #: the key of those that name none
        self._own = own

    def cap(self) -> Cap | None:
        if "concurrency.limit" not in self._step.spec:
            return None
        on_limit: Any = self._value("concurrency.on_limit") or "queue"
        return Cap(self._key("concurrency.key"), self._count("concurrency.limit"), on_limit)

    def pace(self) -> Pace | None:
        if "rate.limit" not in self._step.spec:
            return None
        per_s = self._value("rate.per_s")
        if isinstance(per_s, bool) or not isinstance(per_s, int | float) or not 0 < per_s < float("inf"):
            raise _wrong("rate.per_s", "a number of seconds above 0", per_s)
        # Whoever counts over another period counts apart.
        key = f"per {per_s:g} s, {self._key('rate.key')}"
        return Pace(key, self._count("rate.limit"), float(per_s))

    def _value(self, name: str) -> Any:
        layer = self._step.spec.get(name)
        return render(layer.value, self._order.scopes) if layer is not None else None

    def _count(self, name: str) -> int:
        found = self._value(name)
        if isinstance(found, bool) or not isinstance(found, int) or found < 1:
            raise _wrong(name, "a whole number of at least 1", found)
        return found

    def _key(self, name: str) -> str:
        if name not in self._step.spec:
            return self._own
        found = self._value(name)
        if found is None or found in ("", [], {}):
            raise _wrong(name, "something to tell runs apart by", found)
        try:
            text = found if isinstance(found, str) else _READABLE.encode(found).decode()
        except (TypeError, ValueError):
            raise _wrong(name, "a text or a number", found) from None
        plain = len(text) <= _LONGEST and text.isprintable()
        return f"key:{text}" if plain else f"hash:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _wrong(name: str, what: str, found: Any) -> TemplateError:
    error = TemplateError(f"`{name}` must be {what}, not {str(found)[:80]!r}")
    error.kind = "type"
    return error


def refusal_failure(ask: Ask) -> Failure:
    """Why a pipeline did not start."""
    assert ask.cap is not None
    message = f"there are {ask.cap.limit} already (`concurrency.limit`), and `on_limit: cancel_new` lets no more start"
    return failure("concurrency", message, key=_display_key(ask.cap), limit=ask.cap.limit, on_limit="cancel_new")


def displacement_failure(cap: Cap | None) -> Failure:
    """Why a pipeline had to stop."""
    message = "another run took its place (`concurrency.on_limit: cancel_running`)"
    more: dict[str, Any] = {"key": _display_key(cap), "limit": cap.limit} if cap is not None else {}
    return failure("concurrency", message, on_limit="cancel_running", **more)


def describe_waits(ask: Ask) -> str:
    """The limits before which a pipeline waits, in words."""
    cap, pace = ask.cap, ask.pace
    parts = [f"a slot (`concurrency.limit: {cap.limit}` of `{_display_key(cap)}`)"] if cap is not None else []
    parts += (
        [f"its turn (`rate`: {pace.limit} in {pace.per_s:g} s of `{_display_key(pace)}`)"] if pace is not None else []
    )
    return " and ".join(parts)


def _display_key(limit: Cap | Pace) -> str:
    return limit.key.partition(":")[2]
