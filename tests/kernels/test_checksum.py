"""The checksum finds any small damage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.checksum import checksum


@given(st.binary(min_size=1, max_size=200), st.data())
def test_a_flipped_bit_changes_it(content: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(content) - 1))
    bit = data.draw(st.integers(0, 7))
    damaged = bytearray(content)
    damaged[at] ^= 1 << bit
    assert checksum(content) != checksum(bytes(damaged))


@given(st.binary(min_size=1, max_size=200), st.integers(1, 100))
def test_cutting_or_padding_changes_it(content: bytes, by: int) -> None:
    assert checksum(content) != checksum(content[:-by])
    assert checksum(content) != checksum(content + b"\0" * by)


def test_swapped_words_change_it() -> None:
    a, b = b"a" * 8, b"b" * 8
    seen = {checksum(a * i + b + a * (8 - i)) for i in range(9)}
    assert len(seen) == 9


def test_it_is_sixteen_digits_of_any_buffer() -> None:
    assert len(checksum(b"")) == 16
    assert checksum(memoryview(b"weft")) == checksum(b"weft")
