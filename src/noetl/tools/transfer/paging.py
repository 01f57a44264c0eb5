"""Pages of an API: what an answer holds, and what is asked for next. Pure.

A page is known by its state: nothing for the first one, else the address, cursor, number or offset that leads to it.
Rows stay the bytes they came as, unless a path asks for more than keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import urljoin

import msgspec
from msgspec import Raw

from noetl.expr import Budget, Evaluation, find_jsonpath, plain_keys
from noetl.model.output import Failure, failure

State = dict[str, Any]
WAYS = ("next", "link", "cursor", "number", "offset")
#: what the first page of a way has, and the parameter that says which page is wanted
_FIRST = {"number": 1, "offset": 0}
_PARAMETER = {"cursor": "cursor", "number": "page", "offset": "offset"}
#: the rows are there already, so that many of them are no reason to stop
_BUDGET = Budget(steps=2**62, size=2**62)
_LINK = re.compile(r'<([^>]*)>((?:\s*;\s*[\w!#$&+.^`|~*-]+\s*(?:=\s*(?:"[^"]*"|[^\s";,]*))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^\s";,]*))', re.IGNORECASE)
_GLIMPSE = 80

#: containers are looked into one level deep; all of the text is seen to be JSON on the way
_shallow = msgspec.json.Decoder(dict[str, Raw] | list[Raw] | str | int | float | bool | None)


class BadPage(Exception):
    """An answer that is no page, or leads nowhere; why is in `failure`."""

    def __init__(self, kind: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.failure: Failure = failure(kind, message, **more)


class PageResponse:
    """The body of a response, and its headers. BadPage: it is not JSON."""

    def __init__(self, body: bytes, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self.body = body.strip() or b"null"
        try:
            self._top = _shallow.decode(self.body)
            if not self.body.isascii():
                self.body.decode()
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            begins = " ".join(body[: 4 * _GLIMPSE].decode("utf-8", "replace").split())[:_GLIMPSE]
            raise BadPage("result-not-json", f"the page is not JSON ({error}): {begins!r}", body=begins) from None
        if b"\n" in self.body or b"\r" in self.body:  # a row is to be a line
            self.body = msgspec.json.format(self.body, indent=-1)
            self._top = _shallow.decode(self.body)

    @cached_property
    def _whole(self) -> Any:
        return msgspec.json.decode(self.body)

    def _at(self, keys: Sequence[str | int]) -> tuple[Any, Any]:
        """What keys lead to: its text, and a look into it; `(None, None)`: nothing."""
        text: Any = self.body
        top: Any = self._top
        for key in keys:
            if isinstance(key, str) and isinstance(top, dict):
                text = top.get(key)
            elif isinstance(key, int) and isinstance(top, list) and -len(top) <= key < len(top):
                text = top[key]
            else:
                return None, None
            if text is None:
                return None, None
            top = _shallow.decode(text)
        return text, top

    def find_values(self, path: str) -> list[Any]:
        """The values that a JSONPath finds."""
        keys = plain_keys(path)
        if keys is None:
            return find_jsonpath(Evaluation({}, _BUDGET, tolerant=False), self._whole, path)
        text, _ = self._at(keys)
        return [] if text is None else [msgspec.json.decode(text)]

    def rows(self, path: str | None) -> Sequence[bytes | Raw]:
        """The rows as JSON: a list, or what a JSONPath finds; a map is one row, null is none."""
        keys = plain_keys(path) if path else ()
        if keys is None:
            values = [row for one in self.find_values(str(path)) for row in (one if isinstance(one, list) else [one])]
            if len(values) == 1:
                _refuse_text(values[0])
            return [msgspec.json.encode(row) for row in values]
        text, top = self._at(keys)
        if isinstance(top, list):
            return top
        _refuse_text(top)
        return [] if top is None else [text]


def _refuse_text(value: Any) -> None:
    if isinstance(value, str):
        raise BadPage("type", f"the response is text, and no rows: {value[:_GLIMPSE]!r}")


class Paging(msgspec.Struct, frozen=True):
    """How the pages of a source follow each other; `by` nothing: there is one."""

    by: str | None = None
    path: str = ""
    param: str = ""
    start: int = 0
    more: str = ""
    in_body: bool = False

    def request(self, config: Mapping[str, Any], state: State) -> dict[str, Any]:
        """The configuration of the request for a page."""
        if "url" in state:
            # The address of the next page says everything that the parameters said for the first.
            return {**{key: part for key, part in config.items() if key != "params"}, "url": state["url"]}
        value = state.get("value", self.start if self.by in _FIRST else None)
        if value is None:
            return dict(config)
        key = "json" if self.in_body else "params"
        return {**config, key: {**(config.get(key) or {}), self.param: value}}

    def after(self, state: State, answer: PageResponse, rows: int, url: str) -> State | None:
        """The state of the page behind this one, which had so many rows and was asked for at `url`; None: it was the last."""
        if self.by is None or (self.more and not _is_true(answer.find_values(self.more))):
            return None
        if self.by == "link":
            link = next_link(answer.headers.get("link", ""))
            return {"url": urljoin(url, link)} if link else None
        if self.by in _FIRST:
            at = int(state.get("value", self.start))
            return {"value": at + (1 if self.by == "number" else rows)} if rows else None
        found = answer.find_values(self.path)
        if not found or found[0] in (None, "", False):
            return None
        return self._follow(found[0], state, rows, url)

    def _follow(self, found: Any, state: State, rows: int, url: str) -> State | None:
        if self.by == "next":
            if not isinstance(found, str):
                raise BadPage("type", f"`{self.path}` is to find the next page's address and found {_describe(found)}")
            return {"url": urljoin(url, found)}
        if isinstance(found, bool) or not isinstance(found, (str, int, float)):
            raise BadPage("type", f"`{self.path}` is to find a cursor and found {_describe(found)}")
        # Some cursors stay the same while what is behind them moves on.
        return {"value": found} if rows or found != state.get("value") else None

    def mark(self, following: State, answer: PageResponse) -> Any:
        """What tells that pages come round in a circle, when it comes twice; None: nothing does."""
        if "url" in following:
            return following["url"]
        if self.by in _FIRST and self.more:
            return None  # the answers say themselves when it is over
        return (following["value"] if self.by == "cursor" else None, hash(answer.body))


class CycleDetector:
    """Sees a circle, whatever its length, and remembers two marks: the one before, and one left ever further behind."""

    def __init__(self) -> None:
        self._before: Any = None
        self._left: Any = None
        self._since, self._until = 0, 1

    def visit(self, mark: Any) -> bool:
        """Whether it has come round; called with each mark in turn."""
        if mark is None:
            return False
        if mark in (self._left, self._before):
            return True
        self._before = mark
        self._since += 1
        if self._since == self._until:
            self._left, self._since, self._until = mark, 0, 2 * self._until
        return False


def read_paging(source: Mapping[str, Any]) -> Paging:
    """How a source says that its pages follow each other. BadPage: it makes no sense."""
    page, following = source.get("page"), source.get("next")
    if page is None:
        return Paging("next", str(following)) if following else Paging()
    if following:
        raise BadPage(
            "type", "the source has both `next` and `page`: `page: {by: next, path: …}` says the same as `next`"
        )
    if not isinstance(page, Mapping):
        raise BadPage("type", f"the source's `page` must be a map, not {type(page).__name__}")
    by = page.get("by")
    if by not in WAYS:
        raise BadPage("type", f"the source's `page.by` is {by!r}; it can be {', '.join(WAYS)}")
    if by in ("next", "cursor") and not page.get("path"):
        what = "the next page's address" if by == "next" else "the cursor"
        raise BadPage("type", f"the source's `page` needs `path`: the JSONPath of {what}")
    start = page.get("start", _FIRST.get(by, 0))
    if isinstance(start, bool) or not isinstance(start, int):
        raise BadPage("type", f"the source's `page.start` must be a whole number, not {start!r}")
    in_body = page.get("in") == "json"
    sent = source.get("json" if in_body else "params")
    if by in _PARAMETER and sent is not None and not isinstance(sent, Mapping):
        key = "json" if in_body else "params"
        raise BadPage("type", f"the source's `{key}` must be a map, so that the page can be added to it")
    param = str(page.get("param") or _PARAMETER.get(by, ""))
    return Paging(by, str(page.get("path") or ""), param, start, str(page.get("more") or ""), in_body)


def next_link(header: str) -> str | None:
    """The address that a `Link` header calls the next one."""
    for target, parameters in _LINK.findall(header):
        rel = _REL.search(parameters)
        if rel and "next" in (rel[1] or rel[2] or "").lower().split():
            return str(target)
    return None


def _is_true(found: list[Any]) -> bool:
    return bool(found) and bool(found[0]) and str(found[0]).lower() not in ("false", "0", "no")


def _describe(value: Any) -> str:
    return f"{type(value).__name__} {str(value)[:_GLIMPSE]!r}"
