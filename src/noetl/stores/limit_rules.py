"""Who may start: the one judgement behind limits, over books that a store keeps. Pure: the time is the books' own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from noetl.model.wire import ASK_AGAIN_S, Answer, Ask, Cap, Key, Pace

#: a process that waits is believed to do so for this many seconds after it last asked
FRESH_S = 1.0
#: those who wait for their time ask at least so often, or they would not count as waiting
_SELDOM_S = FRESH_S / 2


class SlotLedger(Protocol):
    """What is known of slots and starts, while nobody else changes it: a transaction of a store."""

    def place(self, holder: Key) -> bool | None:
        """Whether a holder has been displaced; None: it holds nothing."""

    def holders(self, key: str) -> list[tuple[Key, bool]]:
        """Those who hold slots of a key, the oldest first; and whether they have been displaced."""

    def forget_dead(self, key: str) -> None:
        """Take back the slots of executions that are over, or that nobody minds."""

    def add(self, holder: Key, key: str) -> None:
        """Give a slot."""

    def displace(self, holders: Iterable[Key]) -> None:
        """Mark holders that have to leave."""

    def ages(self, key: str, per_s: float) -> list[float]:
        """How many seconds ago the starts of the last so many seconds were, the latest first."""

    def start(self, key: str, per_s: float) -> None:
        """Note a start."""

    def ahead(self, key: str) -> int:
        """How many other processes have been waiting for a key for longer than this one."""

    def wait(self, key: str) -> None:
        """This process waits for a key, since now or for longer."""

    def end_turn(self, key: str) -> None:
        """This process was given what it waited for: whoever else waits is next."""


def admit(asks: Sequence[Ask], books: SlotLedger) -> list[Answer]:
    """Judge asks in their order."""
    round_ = _AdmissionRound(books)
    return [round_.judge(ask) for ask in asks]


class _AdmissionRound:
    """Asks that are judged together: what was read of the books is kept up to date, not read again."""

    def __init__(self, books: SlotLedger) -> None:
        self._ledger = books
        self._holders: dict[str, list[tuple[Key, bool]]] = {}
        self._swept: set[str] = set()
        self._ages: dict[str, list[float]] = {}
        self._ahead: dict[str, int] = {}
        #: keys for which somebody waits who came before
        self._blocked: set[str] = set()

    def judge(self, ask: Ask) -> Answer:
        displaced = self._ledger.place(ask.holder) if ask.cap is not None else None
        if displaced is not None:
            return Answer("displaced" if displaced else "granted")
        if ask.sure:
            if ask.cap is not None:
                self._add(ask.holder, ask.cap)
            return Answer("granted")
        cap, pace = ask.cap, ask.pace
        missing = self._count_missing(cap) if cap is not None else 0
        if cap is not None and cap.on_limit == "cancel_new" and missing:
            return Answer("refused")
        late = self._start_delay(pace) if pace is not None else 0.0
        if not missing and not late:
            return self._grant(ask)
        victims: tuple[Key, ...] = ()
        if cap is not None and missing:
            if cap.on_limit == "cancel_running" and not late and cap.key not in self._blocked:
                victims = self._make_room(cap)
            self._block(cap.key)
        if pace is not None and late:
            self._block(pace.key)
        return Answer("wait", ASK_AGAIN_S if missing else min(late, _SELDOM_S), victims)

    # --- so many at a time -------------------------------------------------------------------------------------------

    def _count_missing(self, cap: Cap) -> int:
        """How many slots there are too few."""
        if len(self._rows(cap.key)) >= cap.limit and cap.key not in self._swept:
            self._swept.add(cap.key)
            self._ledger.forget_dead(cap.key)
            del self._holders[cap.key]
        taken = len(self._rows(cap.key))
        if cap.on_limit != "cancel_new":  # who does not wait takes no turns
            taken = max(taken + self._turns(cap.key), cap.limit if cap.key in self._blocked else 0)
        return max(0, taken + 1 - cap.limit)

    def _rows(self, key: str) -> list[tuple[Key, bool]]:
        if key not in self._holders:
            self._holders[key] = self._ledger.holders(key)
        return self._holders[key]

    def _make_room(self, cap: Cap) -> tuple[Key, ...]:
        """Have the oldest leave, as many as it takes; all who have to, whoever displaced them."""
        rows = self._rows(cap.key)
        needed = len(rows) + 1 - cap.limit - sum(displaced for _, displaced in rows)
        chosen = [holder for holder, displaced in rows if not displaced][: max(0, needed)]
        if chosen:
            self._ledger.displace(chosen)
            self._holders[cap.key] = rows = [(one, displaced or one in chosen) for one, displaced in rows]
        return tuple(holder for holder, displaced in rows if displaced)

    def _add(self, holder: Key, cap: Cap) -> None:
        self._ledger.add(holder, cap.key)
        self._rows(cap.key)
        self._holders[cap.key] = [*(row for row in self._holders[cap.key] if row[0] != holder), (holder, False)]

    # --- so many in so many seconds ----------------------------------------------------------------------------------

    def _start_delay(self, pace: Pace) -> float:
        """In how many seconds there may be another start; 0: now."""
        if pace.key not in self._ages:
            self._ages[pace.key] = self._ledger.ages(pace.key, pace.per_s)
        ages = self._ages[pace.key]
        if len(ages) >= pace.limit:
            # Never 0, or a start would be given away a hair too early.
            return max(pace.per_s - ages[pace.limit - 1], 0.001)
        waiting = pace.key in self._blocked or len(ages) + self._turns(pace.key) >= pace.limit
        return ASK_AGAIN_S if waiting else 0.0

    # --- turns -------------------------------------------------------------------------------------------------------

    def _turns(self, key: str) -> int:
        if key not in self._ahead:
            self._ahead[key] = self._ledger.ahead(key)
        return self._ahead[key]

    def _block(self, key: str) -> None:
        if key not in self._blocked:
            self._blocked.add(key)
            self._ledger.wait(key)

    def _grant(self, ask: Ask) -> Answer:
        if ask.cap is not None:
            self._add(ask.holder, ask.cap)
            self._serve(ask.cap.key)
        if ask.pace is not None:
            self._ledger.start(ask.pace.key, ask.pace.per_s)
            self._ages[ask.pace.key].insert(0, 0.0)
            self._serve(ask.pace.key)
        return Answer("granted")

    def _serve(self, key: str) -> None:
        self._ledger.end_turn(key)
        self._ahead.pop(key, None)
