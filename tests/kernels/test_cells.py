"""Rows by their slots: each slot's in their order, and those of no slot nowhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.cells import deal


@given(st.integers(1, 9), st.data(), st.sampled_from(["int16", "int32", "int64"]))
def test_rows_are_dealt_in_their_order(count: int, data: st.DataObject, kind: str) -> None:
    slots = data.draw(st.lists(st.integers(-1, count - 1), max_size=60))
    order, ends = deal(np.array(slots, dtype=kind), count)
    dealt = [order[ends[slot] : ends[slot + 1]].tolist() for slot in range(count)]
    assert dealt == [[row for row, found in enumerate(slots) if found == slot] for slot in range(count)]
    assert (ends[0], ends[count]) == (0, len(order))


@pytest.mark.parametrize("slots", [[], [-1, -1]])
def test_where_nothing_is_dealt_all_slots_are_empty(slots: list[int]) -> None:
    order, ends = deal(np.array(slots, dtype=np.int32), 3)
    assert len(order) == 0
    assert ends.tolist() == [0, 0, 0, 0]
