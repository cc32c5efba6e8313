"""Units of event times that are whole numbers: what lies in 1970 and would be the present in another unit is told."""

from __future__ import annotations

import pytest

from weft.observe.units import SIZES, Units

NOW, SOON = 1_720_000_000, 30 * 86_400


@pytest.mark.parametrize(
    ("given", "number", "fitting"),
    [
        ("ms", NOW, "s"), ("us", NOW, "s"), ("us", NOW * 1_000, "ms"), ("s", NOW, None), ("ms", NOW * 1_000, None),
        ("us", NOW * 1_000_000, None), ("ms", 5_000, None), ("us", SOON * 1_000_000 * 50, None), ("ms", -NOW, None),
    ],
)  # fmt: skip
def test_a_unit_that_is_too_small_is_told_once(given: str, number: int, fitting: str | None) -> None:
    units, newest = Units({"a": given, "b": "s"}), {"a": number * SIZES[given]}
    assert [*units.see({})] == []
    found = [*units.see(newest)]
    assert [notice.action for notice in found] == ([f's.stream("a", ..., unit="{fitting}")'] if fitting else [])
    assert [*units.see(newest)] == []
