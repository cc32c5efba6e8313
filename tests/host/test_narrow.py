"""Whole numbers travel in as few bits as they need, and come out as they went in."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.host.envelope import Envelope, pack, unpack
from weft.host.narrow import WORTHWHILE, narrowed, widened

EDGES = [2**bits + step for bits in (7, 15, 31, 62) for step in (-1, 0)]
LIMITS = [*EDGES, *(-edge for edge in EDGES), -(2**7) - 1, -(2**15) - 1, -(2**31) - 1, -(2**63), 2**63 - 1, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.none() | st.sampled_from(LIMITS), min_size=1, max_size=6), st.integers(0, 3))
def test_what_was_narrowed_comes_back_with_its_type_and_its_nulls(few: list[int | None], skip: int) -> None:
    rows = (few * WORTHWHILE)[: WORTHWHILE + skip]
    whole = pa.array(rows, pa.int64())
    made = pa.RecordBatch.from_arrays(
        [whole, whole.cast(pa.float64(), safe=False), whole.cast(pa.string()), whole], names=["a", "b", "c", "a"]
    )
    frame = made.slice(skip)
    sent = unpack(1, 2, "e", pack(Envelope(1, 2, "e", frame))).frame
    assert sent is not None
    assert sent.schema == frame.schema
    assert sent.equals(frame)
    sent.validate(full=True)


@pytest.mark.parametrize(("most", "kind"), [(127, "int8"), (128, "int16"), (32_768, "int32"), (2**31, "int64")])
def test_the_greatest_value_decides(most: int, kind: str) -> None:
    frame = pa.RecordBatch.from_arrays([pa.array([0, most] * WORTHWHILE)], names=["x"])
    assert str(narrowed(frame).schema.field("x").type) == kind
    assert widened(narrowed(frame)).equals(frame)


def test_a_small_frame_and_other_types_stay_as_they_are() -> None:
    small = pa.RecordBatch.from_arrays([pa.array([1, 2])], names=["x"])
    texts = pa.RecordBatch.from_arrays([pa.array(["a"] * WORTHWHILE)], names=["x"])
    assert narrowed(small) is small
    assert narrowed(texts) is texts


def test_a_narrow_payload_is_smaller() -> None:
    frame = pa.RecordBatch.from_arrays([pa.array(range(60_000)), pa.array([7] * 60_000)], names=["k", "v"])
    assert pack(Envelope(0, 0, "e", frame)).size < frame.nbytes / 3
