"""MadeUpAnswers: what tools answer in a verification: the same to both texts, made of the words that the playbook reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from noetl.model.output import Failure, Output, failed, failure, ok

SQL = frozenset({"postgres", "duckdb"})
#: kinds of which no real task runs; all others but `python` have no effects
MADE_UP = frozenset({"http", "postgres", "duckdb", "shell", "playbook", "secrets", "transfer", "resolve", "variable"})

#: how older and present engines call the parts of a result; data with such keys could be read in two ways
_ENVELOPES = frozenset(
    {"rows", "row_count", "columns", "status_code", "headers", "url", "elapsed", "data", "body", "results", "stats",
     "status", "result", "execution_id", "output", "error", "http", "kind", "message"}
)  # fmt: skip
_CHAIN = re.compile(r"""(?:\.get\(\s*["']|\.|\[\s*["'])([A-Za-z_]\w*+)(?!\s*\()""")
_COMMAND = re.compile(r"command_\d+")
_GIVEN = re.compile(r"\b(?:workload|payload|env)\.([A-Za-z_]\w*)")
#: a word followed by something that only maps have; and one followed by something that only lists have
_MAP_AFTER = r"""{word}["']?(?:\s*[\])])?\s*(?:\.(?!get\b|items\b)[a-z]|\[\s*["']|\.get\(\s*["'])"""
_LIST_AFTER = r"""{word}["']?(?:\s*[\])])?\s*(?:\[\s*-?\d|\s*\|\s*(?:length|first|last|map|sum|count))"""
_MOST_WORDS = 40


class AnswerVariant(msgspec.Struct, frozen=True):
    """What all answers of one run have in common."""

    name: str
    rows: int = 2
    http_status: int = 200
    #: how many calls of a task fail before one succeeds
    failures: int = 0
    #: whether values are of several types; else all are whole numbers
    mixed: bool = False
    #: whether data may have keys that envelopes of results have, too
    alike: bool = False
    #: whether bodies and outputs of children are lists; else they are maps
    listed: bool = False


VARIANTS = (
    AnswerVariant("two rows, status 200"),
    AnswerVariant("one row, values of several types", rows=1, mixed=True),
    AnswerVariant("no rows", rows=0),
    AnswerVariant("status 404", http_status=404),
    AnswerVariant("status 500, one row", rows=1, http_status=500),
    AnswerVariant("the first call of each task fails", failures=1),
    AnswerVariant("data with keys like those of results", alike=True),
    AnswerVariant("bodies that are lists", listed=True),
    AnswerVariant("two rows, values of several types", mixed=True),
)


class MadeUpAnswer(msgspec.Struct, frozen=True):
    """What a tool yields, in the present form; how older engines published it is for `older_results` to say."""

    kind: str
    data: Any
    error: Failure | None = None
    http: Mapping[str, Any] | None = None

    def to_output(self) -> Output:
        """The output of a task today."""
        helpers = {"http": dict(self.http)} if self.http is not None else {}
        return ok(self.data, **helpers) if self.error is None else failed(self.error, **helpers)


class MadeUpAnswers:
    """Answers by the call that asks: the same call always gets the same."""

    def __init__(self, read: str, variant: AnswerVariant, seed: int = 0) -> None:
        """`read` is the text of all templates and of all code, in which words are looked for."""
        self.variant = variant
        self._seed = seed
        self._read = read
        words, self._maps, self._lists = find_words(read)
        self._words = tuple(word for word in words if variant.alike or word not in _ENVELOPES)

    def make_payload(self, workload: Mapping[str, Any]) -> dict[str, Any]:
        """What the run is given: keys of the workload that are read and have no default."""
        return {name: f"given_{name}" for name in dict.fromkeys(_GIVEN.findall(self._read)) if name not in workload}

    def make_answer(self, kind: str, call: tuple[str, str, str], number: int) -> MadeUpAnswer:
        """The answer to the nth call of a task, which is named by step, task and iteration."""
        if kind == "http":
            return self._answer_http(call, number)
        if number < self.variant.failures:
            return MadeUpAnswer(kind, None, failure(_error_kind(kind), "this failure is made up", retryable=True))
        if kind in SQL:
            return MadeUpAnswer(kind, [self._map((*call, row), depth=2) for row in range(self.variant.rows)])
        if kind == "shell":
            return MadeUpAnswer(kind, {"stdout": f"out{self._number(call)}", "stderr": "", "exit_code": 0})
        return MadeUpAnswer(kind, self._body(call))

    def _body(self, call: tuple[str, str, str]) -> Any:
        if self.variant.listed:
            return [self._map((*call, index), depth=1) for index in range(self.variant.rows)]
        return self._map(call, depth=0)

    def _answer_http(self, call: tuple[str, str, str], number: int) -> MadeUpAnswer:
        status = 503 if number < self.variant.failures else self.variant.http_status
        http = {"status": status, "headers": {"content-type": "application/json", "x-page": "7"}}
        body = self._body(call)
        if status < 400:
            return MadeUpAnswer("http", body, http=http)
        message = f"this status {status} is made up"
        error = failure("http-status", message, retryable=status >= 500, status=status, body=body)
        return MadeUpAnswer("http", None, error, http=http)

    # --- values ------------------------------------------------------------------------------------------------------

    def _map(self, place: tuple[Any, ...], *, depth: int) -> dict[str, Any]:
        return {word: self._value(word, (*place, word), depth) for word in self._words}

    def _value(self, word: str, place: tuple[Any, ...], depth: int) -> Any:
        if depth < 2 and (word in self._lists or (word.endswith("s") and word not in self._maps)):
            return [self._map((*place, index), depth=depth + 1) for index in range(self.variant.rows)]
        if depth < 2 and word in self._maps:
            return self._map(place, depth=depth + 1)
        return self._scalar(place)

    def _scalar(self, place: tuple[Any, ...]) -> Any:
        number = self._number(place)
        if not self.variant.mixed:
            return number % 10
        return (number % 10, f"text{number % 7}", number % 2 == 0, (number % 40) / 4, None)[number // 40 % 5]

    def _number(self, place: tuple[Any, ...]) -> int:
        text = f"{self._seed}/{self.variant.name}/{place}"
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


@lru_cache(maxsize=16)
def find_words(text: str) -> tuple[tuple[str, ...], frozenset[str], frozenset[str]]:
    """The names that templates and code of a playbook reach for; of these, those of maps and of lists."""
    found = dict.fromkeys(word for word in _CHAIN.findall(text) if not _COMMAND.match(word))
    words = tuple(found)[:_MOST_WORDS]
    maps = frozenset(word for word in words if re.search(_MAP_AFTER.format(word=rf"\b{word}"), text))
    lists = frozenset(word for word in words if re.search(_LIST_AFTER.format(word=rf"\b{word}"), text))
    return words, maps - lists, lists


def _error_kind(kind: str) -> str:
    return "sql" if kind in SQL else kind if kind in ("shell", "playbook", "python") else "fail"
