"""JSON in blocks: what comes out is JSON, the same as if the value had been cleaned in memory."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from thorough import up_to

from noetl.redaction import json_text
from noetl.redaction.json_text import JsonRedactor
from noetl.redaction.redactor import MASK, Redactor

SECRETS = ["nTOKEN-abc", "1234", "team-4711-key", "team-4711-key.V3ryS3cretTail", 'od"d\\x/é😀', "xxx" + "Y" * 60]
BITS = [*SECRETS, "\n", "a", "\\", '"', "é", "😀", "TOKEN-abc", "  "]


def through(data: bytes, size: int) -> bytes:
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    return b"".join(JsonRedactor(Redactor(SECRETS)).through(blocks))


def some_text(chance: random.Random) -> str:
    return "".join(chance.choice(BITS) for _ in range(chance.randrange(6)))


def some_value(chance: random.Random, depth: int = 0) -> Any:
    sort = chance.randrange(8 if depth < 3 else 5)
    if sort == 0:
        return chance.choice([1234, 91234, 12340000, 1.5, -1234, True, None, 1e300])
    if sort < 5:
        return some_text(chance) if sort < 4 else chance.randrange(10**6)
    if sort == 5:
        return [some_value(chance, depth + 1) for _ in range(chance.randrange(6))]
    return {some_text(chance): some_value(chance, depth + 1) for _ in range(chance.randrange(4))}


@pytest.mark.parametrize("size", [1, 3, 17, 100_000])
def test_blocks_yield_what_the_whole_value_would(size: int) -> None:
    chance = random.Random(size)
    for _ in range(up_to(300, 100)):
        value = [some_value(chance) for _ in range(3)]
        data = json.dumps(value, ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1])).encode()
        assert json.loads(through(data, size)) == Redactor(SECRETS).clean(value)[0]


def test_a_text_that_is_too_long_to_be_held_is_redacted_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_text, "_LONGEST", 40)
    text = 'line "é" 😀 of nTOKEN-abc\n' * 50 + "team-4711-key"
    for size in (1, 5, 64, 5000):
        for ascii_only in (True, False):
            data = json.dumps({"out": text, "n": 1234}, ensure_ascii=ascii_only).encode()
            clean = json.loads(through(data, size))
            assert clean == {"out": text.replace("nTOKEN-abc", MASK).replace("team-4711-key", MASK), "n": MASK}


def test_a_secret_within_a_number_or_behind_an_escape_leaves_json() -> None:
    data = json.dumps({"n": [912340000, 1234, 0.1234], "esc": "line\nTOKEN-abc"}).encode()
    assert json.loads(through(data, 7)) == {"n": [912340000, MASK, 0.1234], "esc": "line\nTOKEN-abc"}


def test_keys_are_renamed_alike_in_all_rows() -> None:
    rows = [{"nTOKEN-abc": 1, "team-4711-key": 2}] * 3
    assert json.loads(through(json.dumps(rows).encode(), 11)) == [{MASK: 1, "[redacted 2]": 2}] * 3
