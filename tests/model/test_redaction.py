"""A secret is found in every spelling, in data, text and bytes, and across the pieces in which it comes."""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from noetl.model.redaction import MASK, Redactor

SECRET = "tok/93af+5521=Ünïque\"quoted'&<x> y"
PLAIN = "k7Jx93afQ5521zPw"
#: each yields a text in which somebody who knows the encoding can read the secret
ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 behind 1": lambda s: base64.b64encode(b"u" + s.encode() + b"tail").decode(),
    "base64 behind 2": lambda s: base64.b64encode(b"u:" + s.encode() + b"tail").decode(),
    "base64url": lambda s: base64.urlsafe_b64encode(b"abc" + s.encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "HEX": lambda s: s.encode().hex().upper(),
    "percent": lambda s: quote(s, safe=""),
    "percent, slashes kept": quote,
    "form": quote_plus,
    "JSON": json.dumps,
    "JSON in JSON": lambda s: json.dumps(json.dumps(s)),
    "JSON, not ASCII": lambda s: json.dumps(s, ensure_ascii=False),
    "repr": repr,
    "HTML": html.escape,
    "reversed": lambda s: s[::-1],
    "UTF-16 as text": "\0".join,
    "UTF-16 in base64": lambda s: base64.b64encode(s.encode("utf-16-le")).decode(),
}


@pytest.mark.parametrize("secret", [SECRET, PLAIN], ids=["odd", "plain"])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_found_in_every_encoding(encoding: str, secret: str) -> None:
    redactor = Redactor([secret])
    encoded = ENCODINGS[encoding](secret)
    cleaned, found = redactor.clean({"a": [f"before {encoded} after"]})
    assert found
    assert MASK in cleaned["a"][0]
    assert cleaned["a"][0].startswith("before ")
    assert cleaned["a"][0].endswith(" after")
    assert encoded not in cleaned["a"][0]


def test_what_holds_no_secret_comes_back_itself() -> None:
    redactor = Redactor([PLAIN])
    value = {"rows": [{"id": 1, "text": "nothing here"}], "n": 1.5, "none": None}
    cleaned, found = redactor.clean(value)
    assert cleaned is value
    assert not found


def test_keys_of_maps_and_numbers_are_looked_at_too() -> None:
    redactor = Redactor([PLAIN, "123456"])
    assert redactor.clean({PLAIN: {"pin": 123456, "other": 1234567}}) == (
        {MASK: {"pin": MASK, "other": 1234567}},
        True,
    )


def test_values_under_four_characters_are_not_looked_for_in_other_text() -> None:
    redactor = Redactor(["abc", ""])
    assert redactor.clean({"a": ["abcd", "an abc", ""], "abc": 1}) == ({"a": ["abcd", "an abc", ""], MASK: 1}, True)
    assert redactor.clean(["xabcx"]) == (["xabcx"], False)
    assert redactor.lines().feed("an abc") == "an abc"


def test_a_secret_of_several_lines_is_found_line_by_line() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----"
    said = Redactor([key]).text("line 2 is | kqhkiG9w0BAQEF | -----END PRIVATE KEY-----")
    assert said == f"line 2 is | {MASK} | -----END PRIVATE KEY-----"


def test_a_text_that_was_cut_within_a_secret_keeps_no_part_of_it() -> None:
    redactor = Redactor([PLAIN])
    assert redactor.text(f"body: {PLAIN[:11]}…") == f"body: {MASK}…"
    assert redactor.text(f"body: {PLAIN[:11]}") == f"body: {MASK}"
    assert redactor.text(f"{PLAIN[5:]} is what was left") == f"{MASK} is what was left"


def test_a_longer_secret_goes_before_a_shorter_one_within_it() -> None:
    assert Redactor(["hunter2", "user:hunter2:more"]).text("is user:hunter2:more") == f"is {MASK}"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_secret_across_pieces_is_found_however_they_are_cut(size: int) -> None:
    redactor = Redactor([PLAIN, SECRET])
    text = f"first k7J k7Jx {PLAIN} and {SECRET}\n{PLAIN.encode().hex()} k7Jx93"
    stream = redactor.lines()
    pieces = [stream.feed(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(pieces) + stream.finish() == f"first k7J k7Jx {MASK} and {MASK}\n{MASK} k7Jx93"
    assert stream.found


def test_a_piece_is_held_back_only_while_it_may_begin_a_secret() -> None:
    stream = Redactor([PLAIN]).lines()
    assert stream.feed("progress 10%\n") == "progress 10%\n"
    assert stream.feed("token: k7Jx93") == "token: "
    assert stream.feed("and no more") == "k7Jx93and no more"


def test_bytes_are_cleaned_in_utf_8_utf_16_and_json() -> None:
    redactor = Redactor([SECRET])
    for data in (
        SECRET.encode(),
        SECRET.encode("utf-16-le"),
        SECRET.encode("utf-16-be"),
        json.dumps([SECRET]).encode(),
    ):
        cleaned, found = redactor.clean_bytes(b"<" + data + b">")
        assert found
        assert data not in cleaned
    stream = redactor.bytes_in_pieces()
    data = b"<" + SECRET.encode("utf-16-le") + b">"
    assert SECRET.encode("utf-16-le") not in b"".join(stream.feed(bytes([one])) for one in data) + stream.finish()
    assert stream.found


def test_random_secrets_at_random_places_in_random_data_are_never_left() -> None:
    chance = random.Random(7)
    letters = string.ascii_letters + string.digits + "-_/+='\"\\ é"
    for _ in range(200):
        secret = "".join(chance.choices(letters, k=chance.randint(6, 40)))
        encoding = chance.choice(list(ENCODINGS.values()))
        around = "".join(chance.choices(letters, k=20))
        cleaned, found = Redactor([secret]).clean([around, {around: [around + encoding(secret) + around]}])
        assert found
        assert secret not in json.dumps(cleaned, ensure_ascii=False)
