"""Spreads by hand that would miss or double results are refused; what users say about skew is respected."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import PlanError
from weft.stats.model import Statistics
from weft.topology.spread import Cube

PAIR = "SELECT r.a, s.b FROM R r JOIN S s ON r.a = s.a"


def session(workers: int, **wishes: Any) -> weft.Session:
    s = weft.Session(checkpoint="unused", workers=workers)
    rows = pa.table({"a": [0] * 60 + list(range(40)), "b": list(range(100))})
    for name in "RS":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", PAIR, **wishes)
    return s


def hashed(size: int, *more: Any) -> dict[str, Any]:
    return {alias: [(size, f"{alias}.a", *more)] for alias in "rs"}


@pytest.mark.parametrize(
    ("spread", "said"),
    [
        (hashed(3), "over 3 workers, there are 2"),
        ({"r": [(2, "random")], "s": [(2, "random")]}, "do not belong together"),
        ({"r": [(2, "r.a", [], [(0, [2, 1], 0)])], "s": [(2, "s.a", [], [(0, [1, 2], 1)])]}, "heavy or dealt values"),
        (hashed(2, [], [(0, [2, 1], 0)]), "heavy or dealt values"),
        ({"r": [(2, "r.a", [], [(0, [2, 2], 0)])], "s": [(2, "s.a", [], [(0, [2, 2], 1)])]}, "heavy or dealt values"),
        ({"r": ["regions", "r.a", [], [[0]]], "s": ["regions", "s.a", [], [[1]]]}, "ranges cannot be written by hand"),
    ],
)
def test_spreads_that_miss_or_double_results_are_refused(spread: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said) as caught:
        _ = session(2, strategy=weft.Plan(spread=spread)).topology
    assert caught.value.detail
    assert caught.value.hint


def test_a_spread_that_fits_is_taken() -> None:
    spread = {"r": [(2, "r.a", [], [(0, [2, 1], 0)])], "s": [(2, "s.a", [], [(0, [2, 1], 1)])]}
    store = session(2, strategy=weft.Plan(spread=spread)).topology.stores[0]
    assert isinstance(store.spread, Cube)
    assert store.spread.axes[0].heavy[0].sides == (2, 1)


def test_what_the_user_says_about_skew_wins_over_what_was_measured() -> None:
    heavy = Statistics({"R": 100, "S": 100}, heavy={"R.a": [(0, 0.6)], "S.a": [(0, 0.6)]})
    even = session(4, strategy="hypercube:hybrid", statistics=heavy, skewed={"r.a": False, "s.a": False})
    skewed = session(4, strategy="hypercube:hybrid", statistics=heavy, skewed={"r.a": True, "s.a": True})

    def kinds(s: weft.Session) -> set[str]:
        cubes = [choice.chosen.layout.spread.values() for choice in s.choices]
        return {axis.kind for spreads in cubes for cube in spreads for axis in cube.axes}  # type: ignore[union-attr]

    assert kinds(even) == {"hash"}
    assert "random" in kinds(skewed)
