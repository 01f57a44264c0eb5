"""A typical guard, here and in plain Jinja2, in one run: `python bench/guard.py`.

Exit 1 when ours takes more than 1.5 times theirs, or manages fewer than 80,000 evaluations a second.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Callable
from typing import Any

from jinja2 import Environment

from noetl.expr import guard

EXPRESSION = "output.status == 'error' and output.http.status in [429, 503]"
SCOPES: dict[str, Any] = {
    "output": {"status": "error", "data": None, "http": {"status": 503, "headers": {}}, "meta": {"attempt": 1}},
    "workload": {"api_url": "http://localhost", "limit": 10},
    "ctx": {"page": 3},
    "execution_id": "5f1c",
}
MOST_RATIO = 1.5
LEAST_PER_SECOND = 80_000


def best_of(function: Callable[[], object], *, times: int = 20_000, rounds: int = 7) -> float:
    """Seconds a call, of the fastest round."""
    return min(timeit.repeat(function, number=times, repeat=rounds)) / times


def main() -> int:
    """Print both figures and the ratio."""
    theirs_guard = Environment().compile_expression(EXPRESSION)
    ours_guard = guard("{{ " + EXPRESSION + " }}")
    assert theirs_guard(**SCOPES) is True
    assert ours_guard.evaluate(SCOPES) is True
    theirs = best_of(lambda: theirs_guard(**SCOPES))
    ours = best_of(lambda: ours_guard.evaluate(SCOPES))
    ratio = ours / theirs
    sys.stdout.write(
        f"noetl.expr {ours * 1e6:7.2f} µs  {1 / ours:11,.0f}/s\n"
        f"jinja2     {theirs * 1e6:7.2f} µs  {1 / theirs:11,.0f}/s\n"
        f"ratio      {ratio:7.2f}  (at most {MOST_RATIO}, at least {LEAST_PER_SECOND:,}/s)\n"
    )
    return 0 if ratio <= MOST_RATIO and 1 / ours >= LEAST_PER_SECOND else 1


if __name__ == "__main__":
    sys.exit(main())
