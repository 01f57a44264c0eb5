"""kind: wait"""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import inf
from typing import Any

from noetl.drivers.text import summarize_value
from noetl.model.kinds import InputRole, ToolKind
from noetl.model.output import Failure, failure
from noetl.model.shape import Anything, Beside, Flag, Key, ListOf, MapOf, Number, OneOf, Text
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
        "schema": Key(
            MapOf(Anything(literal=True)),
            "With `signal`: a JSON Schema that what is sent must meet. A signal that meets the schema of no wait on its "
            "name is refused: its sender gets an error.",
            beside=_SIGNAL,
        ),
        "title": Key(Text(templated=True), "With `signal`: what a person is shown who is to send it.", beside=_SIGNAL),
        "assignees": Key(
            OneOf((ListOf(Text(templated=True)), Text(templated=True))),
            "With `signal`: the names of the tokens that may send it through a server. Commands on a local store, and "
            "a server without tokens, ask for none.",
            beside=_SIGNAL,
        ),
    },
    input=InputRole.CONFIGURES,
    output="what the signal carried",
    one_of=(("seconds", "until", "signal"),),
    suspends=True,
    effect_free=True,
    keeps_network=True,
    settings=frozenset(),
    own_timeout=True,
    literal=frozenset({"schema"}),
)
#: keys that say something of a signal
_OF_SIGNALS = ("timeout", "transient", "schema", "title", "assignees")


#: the last second of the year 9999: no clock of ours shows more
_LATEST = 253_402_300_799.0


def suspend(call: Call, now: float) -> dict[str, Any] | Failure:
    """What the task waits for; the caller lets it go and comes back when that is there."""
    config = call.config
    try:
        wait = _signal(config, now) if config.get("signal") is not None else _time(config, now)
        return _bound(wait, call.spec.get("timeout"), now)
    except ValueError as error:
        return failure("type", f"task `{call.task}` cannot wait so: {error}")


def _time(config: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A time to wait for."""
    useless = [key for key in _OF_SIGNALS if config.get(key) is not None]
    if useless:
        raise ValueError(f"`{useless[0]}` is for a wait on a `signal`")
    if config.get("seconds") is not None:
        return {"until": _seconds_from_now("seconds", config["seconds"], now)}
    return {"until": _parse_moment(config["until"]), "fixed": True}


def _signal(config: Mapping[str, Any], now: float) -> dict[str, Any]:
    """A signal to wait for, and who may send what."""
    wait: dict[str, Any] = {"signal": str(config["signal"])}
    if config.get("timeout") is not None:
        wait["until"] = _seconds_from_now("timeout", config["timeout"], now)
    if config.get("transient"):
        wait["transient"] = True
    if config.get("title") is not None:
        wait["title"] = str(config["title"])
    if config.get("assignees") is not None:
        wait["assignees"] = _names(config["assignees"])
    schema = config.get("schema")
    if schema is not None:
        from noetl.lang import check_schema

        wrong = check_schema(schema)
        if wrong is not None:
            raise ValueError(f"`schema` is not a JSON Schema: {wrong}")
        wait["schema"] = schema
    return wait


def _names(given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"`assignees` must be names of tokens, not {summarize_value(given)}")
    return names


def _bound(wait: dict[str, Any], timeout: Any, now: float) -> dict[str, Any]:
    """The wait, ended by `spec.timeout` if that is over before it ends by itself."""
    if timeout is None:
        return wait
    until = _seconds_from_now("spec.timeout", timeout, now)
    if until >= wait.get("until", inf):
        return wait
    return {**wait, "until": until, "fixed": False, "limit": float(timeout)}


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
