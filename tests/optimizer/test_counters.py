"""Plans do what the cost model predicts: on uniform data every counter is within five percent of its estimate.

Each of 1/f key values is equally frequent, so that a pair matches with probability f; statistics are exact.  Rows come
in random order in many batches.  For the delta rule a batch is one instant, in which an alias sees those before it in
the query; in the model every tuple comes alone.  With B batches and n aliases, about n / 2B of what the model says of
the first alias is therefore done by the last one: 2.5 percent here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.explain.figures import Figures
from weft.observe.counters import Counters
from weft.optimizer.choose import Choice
from weft.optimizer.trees.orders import least_sent_orders
from weft.optimizer.whole import whole_bill
from weft.testing import Trial
from weft.topology.node import Probe

Pair = tuple[str, str]
NEAR = 0.05


class World:
    """Streams with a key column for each join, and the query that joins them."""

    def __init__(self, sizes: Mapping[str, int], joins: Mapping[Pair, int], seed: int = 1) -> None:
        self.sizes, self.joins = sizes, joins
        rng = np.random.default_rng(seed)
        self.tables: dict[str, pa.Table] = {}
        for name, size in sizes.items():
            columns = {self._column(pair): rng.permutation(size) % n for pair, n in joins.items() if name in pair}
            self.tables[name] = pa.table({"id": np.arange(size), **columns})
        where = " AND ".join(f"{a}.{self._column((a, b))} = {b}.{self._column((a, b))}" for a, b in joins)
        self.sql = f"SELECT {', '.join(f'{n}.id AS {n}' for n in sizes)} FROM {', '.join(sizes)} WHERE {where}"
        self.statistics = weft.Statistics(
            {name: float(size) for name, size in sizes.items()},
            selectivities={pair: 1 / n for pair, n in joins.items()},
        )

    @staticmethod
    def _column(pair: Pair) -> str:
        return "_".join(pair)

    def session(self, workers: int, **wishes: Any) -> weft.Session:
        session = weft.Session("unused", workers=workers)
        for name, table in self.tables.items():
            session.stream(name, weft.read.batches([table]))
        session.query("q", self.sql, statistics=self.statistics, **wishes)
        return session

    def batches(self, count: int, seed: int = 2) -> Sequence[dict[str, pa.Table]]:
        """The rows of each stream dealt to batches at random."""
        rng = np.random.default_rng(seed)
        dealt = {name: rng.integers(0, count, size) for name, size in self.sizes.items()}
        return [{n: t.filter(pa.array(dealt[n] == i)) for n, t in self.tables.items()} for i in range(count)]


CHAIN = World({"R": 9000, "S": 6000, "T": 9000, "U": 6000}, {("R", "S"): 3000, ("S", "T"): 3000, ("T", "U"): 3000})
STAR = World({"F": 9000, "A": 6000, "B": 8000, "C": 4500}, {("F", "A"): 3000, ("F", "B"): 4000, ("F", "C"): 1500})
BATCHES = 80


def run(world: World, workers: int, **wishes: Any) -> tuple[Trial, Choice]:
    session = world.session(workers, **wishes)
    trial = Trial(session)
    for batch in world.batches(BATCHES):
        trial.feed(batch)
    [choice] = session.choices
    return trial, choice


def check(trial: Trial, choice: Choice) -> None:
    """Every number of the bill beside what was counted."""
    bill, counters = choice.chosen.bill, trial.counters
    stored = {_members(choice, s): n for s, n in bill.stored.items()}
    for store in trial.topology.stores:
        members = store.users[0].split(".")[1].split("+")
        assert counters.stored[store.id] == near(stored[tuple(members)]), f"rows in {store.id} {members}"
    probes = probes_of(trial, choice)
    for (alias, number), expected in bill.probed.items():
        probe = probes[alias, number]
        assert counters.probed.get(probe, 0) == near(expected), f"tuples that come to {probe}"
        assert counters.matched.get(probe, 0) == near(bill.matched[alias, number]), f"matches of {probe}"
    assert set(counters.probed) == {probes[where] for where in bill.probed}
    assert counters.tuples_sent == near(bill.pcost)
    assert counters.tuples_stored == near(bill.scost)
    assert counters.results["q"] == near(choice.model.graph.size(choice.model.graph.all))
    reading = 0 if trial.topology.workers > 1 else bill.rows  # a lone worker reads its input; nobody pays for that
    assert sum(counters.sent.values()) == near(bill.sent + reading)
    whole = whole_bill(trial.topology, [choice])
    assert whole.total.probed == pytest.approx(bill.pcost)
    assert whole.total.stored == pytest.approx(bill.scost)
    assert whole.total.sent == pytest.approx(bill.sent)
    assert whole.seconds == pytest.approx(bill.seconds)


def probes_of(trial: Trial, choice: Choice) -> dict[tuple[str, int], str]:
    """(Alias, number of a hop) -> the id that it is counted by."""
    figures = Figures(trial.choices, trial.topology, None)
    found: dict[tuple[str, int], str] = {}
    for alias in choice.query.aliases:
        probes = dict.fromkeys(n.id for way in figures.ways(choice, alias) for n in way if isinstance(n, Probe))
        found |= {(alias, number): name for number, name in enumerate(probes, start=1)}
    return found


def near(value: float) -> object:
    return pytest.approx(value, rel=NEAR, abs=0)


def _members(choice: Choice, store: int) -> tuple[str, ...]:
    return tuple(alias for i, alias in enumerate(choice.query.aliases) if store >> i & 1)


BY_HAND = {
    "chain": weft.Plan(
        [("S", "T"), ("R", "S", "T")],
        orders={"R": [("S", "T")], "S": ["T"]},
        placement={"R": "R.R_S", ("S", "T"): "S.R_S", "S": "S.S_T", "T": "T.T_U", "U": None},
    ),
    "star": weft.Plan(
        [("F", "C")],
        orders={"A": [("F", "C"), "B"], "B": [("F", "C"), "A"], ("F", "C"): ["A", "B"]},
        placement={("F", "C"): "F.F_A", "B": None},
        parallelism={"A": 2, "B": 1},
    ),
}


@pytest.mark.parametrize(("shape", "workers"), [("chain", 1), ("chain", 5), ("star", 2), ("star", 5)])
@pytest.mark.parametrize("strategy", ["flat", "left_deep", "tree", "by hand"])
def test_counters_are_what_the_bill_says(shape: str, strategy: str, workers: int) -> None:
    world = CHAIN if shape == "chain" else STAR
    check(*run(world, workers, strategy=BY_HAND[shape] if strategy == "by hand" else strategy))


@pytest.mark.parametrize("strategy", ["flat", "left_deep"])
@pytest.mark.parametrize("world", [CHAIN, STAR], ids=["chain", "star"])
def test_counters_of_scattered_stores_are_what_the_bill_says(world: World, strategy: str) -> None:
    trial, choice = run(world, 5, strategy=strategy, placement="scattered")
    assert all(not store.placement for store in trial.topology.stores)
    check(trial, choice)


@pytest.mark.parametrize(
    "wishes", [{"parallelism": {"S": 1, "T": 3}}, {"capacity": 4000}, {"capacity": 4000, "placement": "scattered"}]
)
def test_counters_of_stores_on_some_workers_are_what_the_bill_says(wishes: dict[str, Any]) -> None:
    trial, choice = run(CHAIN, 5, strategy="left_deep", **wishes)
    assert {store.tasks for store in trial.topology.stores} - {5}
    check(trial, choice)


@pytest.mark.parametrize("strategy", ["flat", "left_deep", "tree"])
def test_the_bill_sends_what_the_cost_model_sends_for_its_tree(strategy: str) -> None:
    """On one worker there is one copy of everything, and orders are those of the model."""
    [choice] = CHAIN.session(1, strategy=strategy).choices
    assert choice.chosen.bill.pcost == pytest.approx(choice.model.pcost(choice.chosen.layout.tree, least_sent_orders))
    assert choice.chosen.bill.scost == pytest.approx(choice.model.scost(choice.chosen.layout.tree))
    assert choice.chosen.ways.hops("R")


# ---------------------------------------------------------------------------------------------- windows

RATE, WINDOW, STEP, VALUES = 100, 20.0, 0.5, 1000
"""Rows a second of each stream; seconds of a window and of a batch; key values."""
SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64()), ("y", pa.int64()), ("t", pa.int64())])


@pytest.mark.parametrize(
    ("strategy", "workers"), [("flat", 1), ("left_deep", 2), (weft.Plan([("S", "T")]), 3)], ids=["flat", "left", "hand"]
)
def test_counters_of_the_steady_state_are_what_the_bill_says_for_a_second(
    strategy: str | weft.Plan, workers: int
) -> None:
    session = weft.Session("unused", workers=workers)
    for name in "RST":
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="t", unit="us")
    sql = "SELECT R.id AS r, S.id AS s, T.id AS t FROM R, S, T WHERE R.x = S.x AND S.y = T.y"
    statistics = weft.Statistics(
        rates=dict.fromkeys("RST", RATE), selectivities={("R", "S"): 1 / VALUES, ("S", "T"): 1 / VALUES}
    )
    session.query(
        "q", f"{sql} WITHIN INTERVAL '{WINDOW:.0f}' SECOND", strategy=strategy, statistics=statistics, arrival="window"
    )
    trial, rng = Trial(session), np.random.default_rng(3)
    warm, long = int(1.5 * WINDOW / STEP), int(5.5 * WINDOW / STEP)
    for batch in range(long):
        trial.feed({name: _second(rng, batch) for name in "RST"})
    [choice] = session.choices
    bill, seconds = choice.chosen.bill, (long - warm) * STEP
    counted = Counters.total(trial.reports[warm:])
    probes = probes_of(trial, choice)
    for (alias, number), expected in bill.probed.items():
        probe = probes[alias, number]
        assert counted.probed[probe] / seconds == near(expected), f"tuples a second that come to {probe}"
        assert counted.matched[probe] / seconds == near(bill.matched[alias, number]), f"matches a second of {probe}"
    assert counted.tuples_sent / seconds == near(bill.pcost)
    assert counted.results["q"] / seconds == near(choice.model.graph.size(0b111) * 3 / WINDOW)
    assert trial.late == {}


def _second(rng: np.random.Generator, batch: int) -> pa.Table:
    count = int(RATE * STEP)
    times = np.sort(rng.integers(int(batch * STEP * 1e6), int((batch + 1) * STEP * 1e6), count))
    keys = rng.integers(0, VALUES, (2, count))
    return pa.table({"id": np.arange(count), "x": keys[0], "y": keys[1], "t": times}, SCHEMA)
