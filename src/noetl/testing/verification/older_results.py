"""OlderResult: what a step's result was to those who read it in older engines, by the kind of its tool.

The shapes are those of the language's page on older dialects. Nothing here is shared with migration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from noetl.testing.verification.made_up_answers import SQL, MadeUpAnswer

#: words by which any result could be reached for as a whole
_WHOLE = ("data", "result", "output")


class OlderResult(Mapping[Any, Any]):
    """A result in its older shape. A reader of all of it gets `shape`; a name that it does not have is looked for in `payload`.

    Of a result with `rows`, templates may also count, index and iterate the rows themselves.
    """

    def __init__(
        self,
        shape: Mapping[str, Any],
        payload: Any,
        *,
        rows: Sequence[Any] | None = None,
        whole: Sequence[str] = _WHOLE,
    ) -> None:
        self.shape = dict(shape)
        self.payload = payload
        self.rows = rows
        self._whole = whole

    def get(self, key: Any, default: Any = None) -> Any:
        """What a template reaches by a name or an index."""
        if self.rows is not None and isinstance(key, int):
            return self.rows[key] if -len(self.rows) <= key < len(self.rows) else default
        if key in self.shape:
            return self.shape[key]
        if key in self._whole:
            return self if self.rows is not None else self.payload
        return self.payload.get(key, default) if isinstance(self.payload, Mapping) else default

    def __getitem__(self, key: Any) -> Any:
        if (found := self.get(key, _NOTHING)) is _NOTHING:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return iter(self.shape if self.rows is None else self.rows)

    def __len__(self) -> int:
        return len(self.shape if self.rows is None else self.rows)

    def items(self) -> Any:
        """The shape, which is what leaves a template that asks for all of it."""
        return self.shape.items()

    def keys(self) -> Any:
        """The names of the shape."""
        return self.shape.keys()

    def values(self) -> Any:
        """The values of the shape."""
        return self.shape.values()


_NOTHING = object()


def publish_answer(answer: MadeUpAnswer, url: Any = None) -> Any:
    """The result of one task; of a failure that a rule passes over, only a response has one."""
    data = answer.data
    if answer.error is not None and answer.kind != "http":
        return None
    if answer.kind in SQL:
        table = {"rows": data, "row_count": len(data), "columns": list(data[0]) if data else []}
        return OlderResult({**table, "command_0": table}, data, rows=data)
    if answer.kind == "http":
        http = answer.http or {}
        shape = {"status_code": http.get("status"), "headers": http.get("headers"), "url": url, "elapsed": 0.0}
        return OlderResult({**shape, "data": data}, data, whole=("body", "result", "output"))
    if answer.kind == "playbook":
        shape = {"status": "completed", "result": data, "execution_id": "‹execution›"}
        return OlderResult(shape, data, whole=("data", "output"))
    return publish_value(data)


def publish_value(data: Any) -> Any:
    """The result of code: a map is its own shape, and its own keys go before words for the whole."""
    return OlderResult(data, data) if isinstance(data, Mapping) else data


def publish_pipeline(results: Mapping[str, Any], last: Any) -> Any:
    """The result of several tasks: that of each by its name; a name that no task has is one of the last task's result."""
    rows = last.rows if isinstance(last, OlderResult) else last if isinstance(last, list) else None
    return OlderResult({"results": dict(results)}, last, rows=rows)


def publish_loop(results: Sequence[Any], failures: int) -> OlderResult:
    """The result of a loop: what its iterations yielded, and their number."""
    stats = {"total": len(results), "success": len(results) - failures, "failed": failures}
    return OlderResult({"results": list(results), "stats": stats}, list(results), rows=list(results))
