"""How long to wait before the next attempt."""

#: no retry waits longer than a day, whatever it asks for
LONGEST = 86_400.0


def delay_before(attempt: int, *, backoff: str, delay: float, max_delay: float, chance: float | None = None) -> float:
    """Seconds before attempt `attempt + 1`, after `attempt` failed ones; `chance` (0…1) spreads it where asked for."""
    if backoff == "linear":
        delay = delay * attempt
    elif backoff == "exponential":
        delay = delay * 2.0 ** min(attempt - 1, 60)
    wait = max(0.0, min(delay, max_delay, LONGEST))
    return wait if chance is None else wait * (0.5 + chance / 2)
