"""kind: wait"""

from datetime import UTC, datetime
from math import inf
from typing import Any

from noetl.drivers.text import summarize_value
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Failure, failure
from noetl.model.shape import Beside, Flag, Key, Number, Text
from noetl.ports import Call

_SIGNAL = Beside("signal")
KIND = ToolKind(
    name="wait",
    doc="Waits for a time or a signal. Durable; holds no worker.",
    keys={
        "seconds": Key(Number(minimum=0, templated=True), "How long."),
        "until": Key(Text(templated=True), "A point in time, ISO 8601."),
        "signal": Key(Text(templated=True), "The name of the signal to wait for."),
        "timeout": Key(
            Number(minimum=0, templated=True), "With `signal`: how long at most, in seconds.", beside=_SIGNAL
        ),
        "transient": Key(
            Flag(templated=True), "With `signal`: only one that arrives during the wait counts.", beside=_SIGNAL
        ),
    },
    input=InputRole.CONFIGURES,
    output="what the signal carried",
    one_of=(("seconds", "until", "signal"),),
    suspends=True,
    effect_free=True,
    keeps_network=True,
    settings=frozenset(),
)


#: the last second of the year 9999: no clock of ours shows more
_LATEST = 253_402_300_799.0


def suspend(call: Call, now: float) -> dict[str, Any] | Failure:
    """What the task waits for; the caller lets it go and comes back when that is there."""
    config = call.config
    try:
        if config.get("signal") is not None:
            wait: dict[str, Any] = {"signal": str(config["signal"])}
            if config.get("timeout") is not None:
                wait["until"] = _seconds_from_now("timeout", config["timeout"], now)
            if config.get("transient"):
                wait["transient"] = True
            return wait
        if config.get("seconds") is not None:
            return {"until": _seconds_from_now("seconds", config["seconds"], now)}
        return {"until": _parse_moment(config["until"]), "fixed": True}
    except ValueError as error:
        return failure("type", f"task `{call.task}` cannot wait so: {error}")


def _parse_moment(text: Any) -> float:
    try:
        moment = datetime.fromisoformat(str(text))
        # A time without a zone is taken as UTC, on every machine.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError(f"`until` must be a time such as 2030-01-31T08:00:00Z, not {summarize_value(text)}") from None


def _seconds_from_now(key: str, seconds: Any, now: float) -> float:
    """So many seconds from now."""
    try:
        until = now + max(0.0, float(seconds))
    except (TypeError, ValueError):
        raise ValueError(f"`{key}` must be a number of seconds, not {summarize_value(seconds)}") from None
    except OverflowError:
        until = inf
    if not until <= _LATEST:  # NaN is not either
        raise ValueError(f"`{key}` leads beyond the year 9999")
    return until
