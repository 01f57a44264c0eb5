"""Pages, without a server: what answers hold, what follows them, how circles are seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl.tools.transfer.paging import BadPage, CycleDetector, PageResponse, Paging, next_link, read_paging


def answer(value: Any, **headers: str) -> PageResponse:
    return PageResponse(json.dumps(value).encode(), headers)


def rows(body: bytes, path: str | None = None) -> list[bytes]:
    return [bytes(row) for row in PageResponse(body, {}).rows(path)]


@pytest.mark.parametrize(
    ("body", "path", "expected"),
    [
        (b'[{"a":1}, {"a": 2}]', None, [b'{"a":1}', b'{"a": 2}']),
        (b'{"a":1}', None, [b'{"a":1}']),
        (b"null", None, []),
        (b"", None, []),
        (b'{"data":{"items":[{"a":1.50}]}}', "$.data.items", [b'{"a":1.50}']),
        (b'{"data":{"items":null}}', "$.data.items", []),
        (b'{"data":{}}', "$.data.items", []),
        (b'{"data":[[{"a":1}]]}', "$.data[0]", [b'{"a":1}']),
        (b'{"data":[{"one":{"a":1}},{"one":{"a":2}}]}', "$.data[*].one", [b'{"a":1}', b'{"a":2}']),
        (b'[{"a":12345678901234567890123}]', None, [b'{"a":12345678901234567890123}']),
    ],
)
def test_rows_are_the_bytes_they_came_as(body: bytes, path: str | None, expected: list[bytes]) -> None:
    assert rows(body, path) == expected


def test_rows_that_are_spread_over_lines_become_lines() -> None:
    body = json.dumps([{"a": "x\ny", "b": [1, 2]}], indent=2).encode()
    assert rows(body) == [b'{"a":"x\\ny","b":[1,2]}']


@pytest.mark.parametrize(
    "body", [b"<html>busy</html>", b'{"a": 1', b'[{"a":1},{"a":01}]', b'[{"a":"\xff"}]', b"[" * 100_000]
)
def test_what_is_not_json_is_told_with_its_beginning(body: bytes) -> None:
    with pytest.raises(BadPage) as found:
        PageResponse(body, {})
    assert found.value.failure["kind"] == "result-not-json"
    assert len(str(found.value)) < 500


@pytest.mark.parametrize("body", [b'"come back later"', b'{"items": "none"}'])
def test_text_is_no_row(body: bytes) -> None:
    with pytest.raises(BadPage, match="is text, and no rows"):
        rows(body, "$.items" if body.startswith(b"{") else None)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('<https://a/2>; rel="next"', "https://a/2"),
        ('<https://a/1>; rel="prev", <https://a/9>; rel=last, </x?a=1,2>; title="a, b"; rel="x next"', "/x?a=1,2"),
        ("<https://a/2>;rel=NEXT", "https://a/2"),
        ('<https://a/2>; rel="nextish"', None),
        ("garbage; rel=next", None),
        ("", None),
    ],
)
def test_the_link_header_names_the_next_page(header: str, expected: str | None) -> None:
    assert next_link(header) == expected


def test_pages_follow_each_other_by_what_the_answer_says() -> None:
    by = Paging("next", "$.next")
    assert by.after({}, answer({"next": "/rows?at=2"}), 1, "http://h/rows") == {"url": "http://h/rows?at=2"}
    assert by.after({}, answer({"next": None}), 1, "http://h/rows") is None
    assert by.request({"url": "u", "params": {"a": 1}, "method": "GET"}, {"url": "v"}) == {"url": "v", "method": "GET"}
    by = Paging("link")
    assert by.after({}, answer([], link='<?p=2>; rel="next"'), 0, "http://h/r") == {"url": "http://h/r?p=2"}
    by = Paging("cursor", "$.cursor", param="after")
    assert by.after({}, answer({"cursor": "x"}), 0, "u") == {"value": "x"}
    assert by.after({"value": "x"}, answer({"cursor": "x"}), 0, "u") is None
    assert by.after({"value": "x"}, answer({"cursor": "x"}), 5, "u") == {"value": "x"}
    assert by.after({}, answer({"cursor": ""}), 5, "u") is None
    assert by.request({"url": "u", "params": {"a": 1}}, {"value": "x"})["params"] == {"a": 1, "after": "x"}
    assert by.request({"url": "u"}, {}) == {"url": "u"}
    by = Paging("number", param="page", start=1, more="$.more")
    assert by.request({"url": "u"}, {})["params"] == {"page": 1}
    assert by.after({}, answer({"more": True}), 5, "u") == {"value": 2}
    assert by.after({"value": 2}, answer({"more": "false"}), 5, "u") is None
    by = Paging("offset", param="skip", in_body=True)
    assert by.request({"url": "u", "json": {"q": 1}}, {})["json"] == {"q": 1, "skip": 0}
    assert by.after({"value": 100}, answer([]), 7, "u") == {"value": 107}
    assert by.after({"value": 107}, answer([]), 0, "u") is None


@pytest.mark.parametrize(
    ("paging", "value"),
    [(Paging("next", "$.next"), {"href": "/2"}), (Paging("next", "$.next"), 2), (Paging("cursor", "$.next"), [1])],
)
def test_what_leads_nowhere_is_told(paging: Paging, value: Any) -> None:
    with pytest.raises(BadPage, match=r"\$\.next"):
        paging.after({}, answer({"next": value}), 1, "u")


@pytest.mark.parametrize("before", [0, 1, 7, 100])
@pytest.mark.parametrize("length", [1, 2, 3, 50])
def test_a_circle_of_any_length_is_seen(before: int, length: int) -> None:
    trail = CycleDetector()
    assert not any(trail.visit(n) for n in range(before + 1))
    assert any(trail.visit(before + n % length) for n in range(1, 4 * (before + length)))


def test_a_page_that_leads_to_itself_is_seen_at_once() -> None:
    trail = CycleDetector()
    assert [trail.visit(mark) for mark in ("a", "b", "c", "c")] == [False, False, False, True]


def test_what_goes_on_for_ever_is_no_circle() -> None:
    trail = CycleDetector()
    assert not any(trail.visit(n) for n in range(100_000))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"next": "$.n", "page": {"by": "link"}}, "both `next` and `page`"),
        ({"page": {"by": "cursor"}}, "needs `path`"),
        ({"page": {"by": "next"}}, "needs `path`"),
        ({"page": {"by": "luck"}}, "it can be next, link"),
        ({"page": {"by": "number", "start": "one"}}, "whole number"),
        ({"page": {"by": "number"}, "params": "a=1"}, "must be a map"),
        ({"page": "number"}, "must be a map"),
    ],
)
def test_pages_that_make_no_sense_are_refused(source: dict[str, Any], message: str) -> None:
    with pytest.raises(BadPage, match=message):
        read_paging(source)


def test_one_page_is_all_there_is_unless_somebody_says_otherwise() -> None:
    assert read_paging({}) == Paging()
    assert read_paging({"next": "$.n"}) == read_paging({"page": {"by": "next", "path": "$.n"}})
    assert Paging().after({}, answer({"next": "x"}), 5, "u") is None
