"""Tables are compared as multisets, exactly or with a tolerance for floats."""

import pyarrow as pa
import pytest

from weft.testing import assert_same_rows, difference


def table(*rows: tuple[str | None, float | None]) -> pa.Table:
    names, numbers = zip(*rows, strict=True)
    return pa.table({"name": pa.array(names, pa.string()), "x": pa.array(numbers, pa.float64())})


def test_floats_differ_in_their_last_bit() -> None:
    left, right = table(("a", 0.1 + 0.2), ("a", 1.0)), table(("a", 1.0), ("a", 0.3))
    with pytest.raises(AssertionError, match="1 missing, 1 extra"):
        assert_same_rows(left, right)
    assert_same_rows(left, right, tolerance=1e-9)


def test_a_tolerance_pairs_every_row_with_one_other() -> None:
    left, right = table(("a", 0.1 + 0.2), ("a", 0.1 + 0.2)), table(("a", 0.3), ("b", 0.3))
    found = difference(left, right, tolerance=1e-9)
    assert (dict(found.missing), dict(found.extra)) == ({("b", 0.3): 1}, {("a", 0.1 + 0.2): 1})


def test_with_a_tolerance_nothing_else_is_equal() -> None:
    for one, other in [(1.0, 1.1), (None, 0.0), (float("nan"), 1.0), (float("inf"), 1e308), (1e16, 1e16 + 1e8)]:
        assert not difference(table(("a", one)), table(("a", other)), tolerance=1e-9).empty
    for one, other in [(0.0, -0.0), (float("nan"), float("nan")), (None, None), (1e16, 1e16 + 2)]:
        assert difference(table(("a", one)), table(("a", other)), tolerance=1e-9).empty
