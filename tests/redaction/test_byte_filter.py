"""A sieve may say "maybe" of anything, and "surely not" only of what holds no needle."""

from __future__ import annotations

from hypothesis import given, strategies as st

from noetl.redaction.redactor import ByteFilter

PIECES = st.sampled_from([b"a", b"f", b"0", b"7", b"Q", b"R", b"Z", b"\\u0000", b'"', b" ", b"\xc3", b"\xa9"])
BYTES = st.lists(PIECES, min_size=1, max_size=8).map(b"".join)


@given(st.lists(BYTES, max_size=5), BYTES, BYTES, st.integers(0, 4))
def test_what_holds_a_needle_is_never_let_through(
    needles: list[bytes], before: bytes, behind: bytes, which: int
) -> None:
    sieve = ByteFilter(needles)
    for needle in needles[which : which + 1]:
        assert sieve.may_hold(before + needle + behind)
    if not sieve.may_hold(before):
        assert not any(needle in before for needle in needles)


def test_usual_text_and_numbers_are_surely_clean() -> None:
    sieve = ByteFilter([b"637a556f", b"czUodRVB", b"c\\u0000z", b"637A556F"])
    rows = b'[{"id":55500,"name":"name 500","day":"2024-03-01","note":"Ada Lovelace, London, EC1A 1BB"}]'
    assert not sieve.may_hold(rows * 100)
    assert not sieve.may_hold(b'{"id":"00112233-4455-6677-8899-aabbccddeeff"}')
    assert not sieve.may_hold(b"")
    assert not ByteFilter(()).may_hold(rows)
