from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from noetl.rows.parquet_join import MalformedThrift, ThriftField, ThriftList, encode_struct, read_struct

_I32, _I64, _DOUBLE, _BINARY, _LIST, _STRUCT = 5, 6, 7, 8, 9, 12

_integers = st.integers(-(2**63), 2**63 - 1)
_leaves = st.one_of(
    st.sampled_from([ThriftField(1, None), ThriftField(2, None)]),
    _integers.map(lambda value: ThriftField(_I64, value)),
    st.binary(max_size=20).map(lambda value: ThriftField(_BINARY, value)),
    st.binary(min_size=8, max_size=8).map(lambda value: ThriftField(_DOUBLE, value)),
    st.lists(_integers, max_size=40).map(lambda value: ThriftField(_LIST, ThriftList(_I64, value))),
    st.lists(st.sampled_from([1, 2]), max_size=3).map(lambda value: ThriftField(_LIST, ThriftList(1, value))),
)


def _structs(fields: st.SearchStrategy[ThriftField]) -> st.SearchStrategy[dict[int, ThriftField]]:
    return st.dictionaries(st.integers(1, 3000), fields, max_size=5)


_values = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        _structs(inner).map(lambda value: ThriftField(_STRUCT, value)),
        st.lists(_structs(inner), max_size=3).map(lambda value: ThriftField(_LIST, ThriftList(_STRUCT, value))),
    ),
    max_leaves=20,
)


@given(_structs(_values))
def test_what_is_written_is_read_again_as_it_was(struct: dict[int, ThriftField]) -> None:
    assert read_struct(encode_struct(struct)) == struct


def test_bytes_are_those_that_the_protocol_names() -> None:
    # A field 1 of 32 bits with -1; field 3, two further on, with text; field 100 by its number.
    struct = {1: ThriftField(_I32, -1), 3: ThriftField(_BINARY, b"ab"), 100: ThriftField(1, None)}
    assert encode_struct(struct) == bytes([0x15, 0x01, 0x28, 0x02, 0x61, 0x62, 0x01, 0xC8, 0x01, 0x00])


@pytest.mark.parametrize("text", [b"", b"\x15", b"\x18\x05ab\x00", b"\x1b\x00\x00", b"\x1c" * 100_000])
def test_bytes_that_are_no_struct_are_refused(text: bytes) -> None:
    with pytest.raises(MalformedThrift):
        read_struct(text)
