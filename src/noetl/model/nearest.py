"""The nearest known word: what "did you mean" is made of."""

from collections.abc import Collection, Iterable

#: of fewer letters every word is nearly another
_SHORT = 4
#: a longer word is no misspelling of another: to compare two of them takes the product of their lengths
_LONGEST = 64
#: pairs of letters compared in all: thousands of unknown words among thousands of others would take minutes
_MOST_PAIRS = 5_000_000


class SpellingHints:
    """What was probably meant by unknown words, looked for only as long as that takes no time."""

    def __init__(self) -> None:
        self._left = _MOST_PAIRS

    def nearest(self, word: str, known: Collection[str]) -> str | None:
        """The known word that is nearest."""
        return nearest(word, known) if self._is_affordable(word, known) else None

    def certain(self, word: str, known: Collection[str]) -> str | None:
        """The known word that was meant without a doubt."""
        return certain_word(word, known) if self._is_affordable(word, known) else None

    def _is_affordable(self, word: str, known: Collection[str]) -> bool:
        self._left -= len(known) * len(word) * len(word)
        return self._left > 0


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word at the smallest edit distance, if it is near enough that the author may have meant it."""
    allowed = max(1, len(word) // 3)
    best: str | None = None
    for candidate in known:
        if abs(len(candidate) - len(word)) > allowed:
            continue
        distance = _distance(word.lower(), candidate.lower(), allowed)
        if distance <= allowed and candidate != word:
            best, allowed = candidate, distance - 1
            if allowed < 0:
                break
    return best


def guess_word(word: str, known: Iterable[str]) -> str | None:
    """The only known word that begins alike and has at most half of its letters otherwise: a guess, and told as one."""
    allowed = len(word) // 2
    near = [
        candidate
        for candidate in known
        if candidate[:1] == word[:1]
        and abs(len(candidate) - len(word)) <= 1
        and _distance(word.lower(), candidate.lower(), allowed) <= allowed
    ]
    return near[0] if len(near) == 1 and len(word) >= _SHORT else None


def certain_word(word: str, known: Iterable[str]) -> str | None:
    """The known word that was meant without a doubt: the only one that is near, and not by its number alone."""
    allowed = max(1, len(word) // 3)
    near = [
        candidate
        for candidate in known
        if abs(len(candidate) - len(word)) <= allowed and _distance(word.lower(), candidate.lower(), allowed) <= allowed
    ]
    if len(near) != 1 or len(word) < _SHORT:
        return None
    return near[0] if _without_digits(near[0]) != _without_digits(word) else None


def _without_digits(word: str) -> str:
    return "".join(sign for sign in word if not sign.isdigit())


def _distance(one: str, other: str, limit: int) -> int:
    """Edits from one to the other: insert, delete, replace, or swap two neighbours; beyond the limit, any number above."""
    if len(one) > _LONGEST or len(other) > _LONGEST:
        return limit + 1
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        previous, row = row, [i]
        for j, sign in enumerate(other, 1):
            cost = min(previous[j] + 1, row[-1] + 1, previous[j - 1] + (letter != sign))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == sign:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > limit and min(previous) > limit:
            return limit + 1  # a swap reaches back by two rows, and no further
        before = previous
    return row[-1]
