"""A checkpoint keeps the plan its state was made by, as long as the same strategy is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests.host.kit import commit_once
from weft.host.state.checkpoint import say_changes
from weft.optimizer.cost.prices import Prices

SQL = "SELECT a.id AS a, b.id AS b, c.id AS c, d.id AS d FROM a, b, c, d WHERE a.x = b.x AND b.y = c.y AND c.z = d.z"
NAMES = ("a", "b", "c", "d")
MANY_A = weft.Statistics({"a": 1e6, "b": 10.0, "c": 1e3, "d": 1e4}, selectivities={("a", "b"): 1e-6, ("c", "d"): 0.5})
MANY_D = weft.Statistics({"a": 10.0, "b": 1e5, "c": 10.0, "d": 1e7}, selectivities={("a", "b"): 0.9, ("c", "d"): 1e-9})


def table(rows: int) -> pa.Table:
    return pa.table({name: np.arange(rows) % 7 for name in ("id", "x", "y", "z")})


def session(
    root: Path, *, rows: dict[str, int] | None = None, prices: Prices | None = None, **wishes: Any
) -> weft.Session:
    with patch.object(Prices, "load", return_value=prices or Prices.load()):
        made = weft.Session(root, workers=3)
    for name in NAMES:
        made.stream(name, weft.read.batches([table((rows or {}).get(name, 20))]))
    made.query("q", SQL, **wishes)
    return made


def claim(made: weft.Session) -> None:
    made.claim()
    made.checkpoint.release()


def commit_session(root: Path, **wishes: Any) -> weft.Session:
    """A session that has run for a batch."""
    made = session(root, **wishes)
    claim(made)
    commit_once(made)
    return made


STRATEGIES = ("auto", "flat", "left_deep", "tree", "exhaustive")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_other_statistics_sizes_and_prices_do_not_change_the_plan_of_a_checkpoint(
    tmp_path: Path, strategy: str
) -> None:
    first = commit_session(tmp_path, strategy=strategy, statistics=MANY_A)
    dear = replace(Prices(), wave=1000.0, sent=1e-9, stored=1.0)
    changes: list[dict[str, Any]] = [
        {"statistics": MANY_D}, {"statistics": None}, {"statistics": MANY_A, "prices": dear},
        {"statistics": MANY_D, "rows": {"a": 3, "d": 900}, "prices": dear},
    ]  # fmt: skip
    for change in changes:
        again = session(tmp_path, strategy=strategy, **change)
        assert again.topology == first.topology, change
        claim(again)
    fresh = session(tmp_path / "other", strategy=strategy, statistics=MANY_D)
    assert fresh.topology != first.topology, "these statistics do make another plan"


def test_a_plan_by_hand_stays_with_what_it_left_open(tmp_path: Path) -> None:
    plan = weft.Plan([("b", "c")], placement={"a": None})
    first = commit_session(tmp_path, strategy=plan, statistics=MANY_A)
    again = session(tmp_path, strategy=weft.Plan([("c", "b")], placement={"a": None}), statistics=MANY_D)
    assert again.topology == first.topology
    claim(again)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("flat", "left_deep"),
        ("tree", "auto"),
        ("flat", weft.Plan([("b", "c")])),
        (weft.Plan([("b", "c")]), weft.Plan([("a", "b")])),
        (weft.Plan([("b", "c")]), "left_deep"),
        (weft.Plan(parallelism={"a": 1}), weft.Plan(parallelism={"a": 2})),
    ],
)
def test_another_strategy_or_plan_is_taken(tmp_path: Path, one: str | weft.Plan, other: str | weft.Plan) -> None:
    first = commit_session(tmp_path, strategy=one, statistics=MANY_A)
    made = session(tmp_path, strategy=other, statistics=MANY_A)
    claim(made)
    assert say_changes(first.work().session, made.work().session) == ['query "q" has another plan']


def test_nothing_committed_binds_to_no_plan(tmp_path: Path) -> None:
    claim(session(tmp_path, strategy="flat", statistics=MANY_A))
    other = session(tmp_path, strategy="left_deep", statistics=MANY_A)
    claim(other)
    assert other.checkpoint.plans()["q"]["strategy"] == "left_deep"


RANGED = "SELECT a.id AS a, b.id AS b FROM a, b WHERE a.x < b.x AND a.y >= b.y AND a.y < b.y + 3"
FEW = weft.Statistics({"a": 5.0, "b": 5.0})
MANY = weft.Statistics({"a": 1e6, "b": 1e6})


def ranged(root: Path, statistics: weft.Statistics | None) -> weft.Session:
    made = weft.Session(root, workers=2)
    for name in "ab":
        made.stream(name, weft.read.batches([table(20)]))
    made.query("q", RANGED, statistics=statistics)
    return made


@pytest.mark.parametrize(("one", "other"), [(FEW, MANY), (MANY, FEW), (MANY, None)])
def test_ranges_that_are_indexed_together_stay(
    tmp_path: Path, one: weft.Statistics, other: weft.Statistics | None
) -> None:
    first = ranged(tmp_path, one)
    claim(first)
    commit_once(first)
    assert bool(first.topology.stores[0].indexes[0].also) == (one is MANY)
    again = ranged(tmp_path, other)
    assert again.topology == first.topology
    claim(again)
