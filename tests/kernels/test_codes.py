"""Codes compare as the values do: equality, order, NULL and NaN, for every type and for slices."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.kernels.codes import destinations, equality_codes, exact_equality, exact_order, has_codes, order_codes

TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324]),
    pa.float32(): st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan]),
    pa.string(): st.text(max_size=12) | st.sampled_from(["", "a", "abcdefgh", "abcdefghi", "a\0"]),
    pa.binary(): st.binary(max_size=12) | st.sampled_from([b"", b"\0", b"\xff" * 8, b"\xff" * 9]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(dt.timedelta(-1000), dt.timedelta(1000)),
    pa.decimal128(9, 2): st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    pa.decimal128(18, 0): st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal),
    pa.decimal128(38, 4): st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-4)),
}


@st.composite
def columns(draw: st.DrawFn, count: int = 1) -> tuple[pa.DataType, list[list[Any]], list[pa.Array]]:
    """A type, values, and an array of them that begins somewhere inside its buffers."""
    kind = draw(st.sampled_from(list(TYPES)))
    value = st.none() | TYPES[kind]
    rows = draw(st.lists(st.tuples(*[value] * count), max_size=12))
    before, after = draw(st.integers(0, 9)), draw(st.integers(0, 3))
    lists = [[row[i] for row in rows] for i in range(count)]
    padding = draw(value)
    arrays = [
        pa.array([padding] * before + found + [padding] * after, kind).slice(before, len(found)) for found in lists
    ]
    return kind, lists, arrays


def matches(value: Any) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


@given(columns())
def test_equal_values_have_equal_codes_and_exact_codes_tell_all_others_apart(case: Any) -> None:
    kind, [values], [array] = case
    codes = equality_codes([array])
    assert codes.exact == exact_equality([kind])
    for i, a in enumerate(values):
        assert (codes.valid is None or bool(codes.valid[i])) == matches(a)
        for j, b in enumerate(values):
            if matches(a) and matches(b):
                equal = codes.values[i] == codes.values[j]
                assert equal or a != b
                assert not (equal and codes.exact) or a == b


@given(columns())
def test_order_codes_keep_the_order_and_exact_ones_have_no_ties(case: Any) -> None:
    kind, [values], [array] = case
    codes = order_codes(array)
    assert codes.exact == exact_order(kind)
    for i, a in enumerate(values):
        assert (codes.valid is None or bool(codes.valid[i])) == matches(a)
        for j, b in enumerate(values):
            if matches(a) and matches(b):
                mine, theirs = _comparable(a), _comparable(b)
                if mine < theirs:
                    assert codes.values[i] < codes.values[j] or (codes.values[i] == codes.values[j] and not codes.exact)
                if mine == theirs:
                    assert codes.values[i] == codes.values[j]


def _comparable(value: Any) -> Any:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


@given(columns(count=2))
def test_codes_of_pairs_are_equal_for_equal_pairs_and_valid_only_if_both_are(case: Any) -> None:
    _, [left, right], arrays = case
    codes = equality_codes(arrays)
    pairs = list(zip(left, right, strict=True))
    for i, (a, b) in enumerate(pairs):
        assert (codes.valid is None or bool(codes.valid[i])) == (matches(a) and matches(b))
        for j, other in enumerate(pairs):
            if all(map(matches, (a, b, *other))) and (a, b) == other:
                assert codes.values[i] == codes.values[j]


@given(columns(), st.integers(1, 40))
def test_a_code_does_not_depend_on_where_its_row_lies(case: Any, workers: int) -> None:
    kind, [values], [array] = case
    fresh = pa.array(values, kind)
    for make in (order_codes, lambda column: equality_codes([column])):
        a, b = make(array), make(fresh)
        valid = [i for i, value in enumerate(values) if matches(value)]
        assert [int(a.values[i]) for i in valid] == [int(b.values[i]) for i in valid]
    owners = destinations(equality_codes([array]).values, workers)
    assert all(0 <= owner < workers for owner in owners)


def test_order_of_the_columns_of_a_key_matters() -> None:
    a, b = pa.array([1]), pa.array([2])
    assert equality_codes([a, b]).values[0] != equality_codes([b, a]).values[0]


def test_codes_never_change_between_versions() -> None:
    """Stores are placed by them: other codes would look for rows on the wrong worker of an old checkpoint."""
    found = {
        "int": equality_codes([pa.array([42])]).values[0],
        "float": equality_codes([pa.array([1.5])]).values[0],
        "text": equality_codes([pa.array(["weft and warp"])]).values[0],
        "decimal": equality_codes([pa.array([Decimal("1.25")], pa.decimal128(9, 2))]).values[0],
        "pair": equality_codes([pa.array([1]), pa.array(["a"])]).values[0],
    }
    assert {name: int(value) for name, value in found.items()} == FROZEN
    assert list(destinations(equality_codes([pa.array(range(12))]).values, 5)) == PLACES


FROZEN = {
    "int": 42,
    "float": 4609434218613702656,
    "text": 6031432760300441497,
    "decimal": -719498154422060899,
    "pair": 1178627991425720997,
}
PLACES = [0, 4, 0, 1, 2, 2, 2, 4, 0, 3, 2, 2]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()])
def test_types_without_codes(kind: pa.DataType) -> None:
    assert not has_codes(kind)
