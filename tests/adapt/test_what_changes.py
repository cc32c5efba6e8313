"""What plans follow: frequent keys, sizes, and what probes did; and what a batch pays for it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weft
from bench.drift import SCENARIOS, chain
from weft.adapt.length import read_length
from weft.observe.notice import Notice
from weft.optimizer.cost.prices import Prices
from weft.session.adapting import SessionPlans, promise_cure
from weft.stats.drawn import Drawing, Drawn
from weft.stats.model import Statistics
from weft.testing import Trial, assert_same_rows, oracle
from weft.topology.spread import Cube

Batches = list[dict[str, pa.Table]]


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionPlans, "_cost", lambda *_: 0.0)


def follow(root: Path, sql: str, batches: Batches, strategy: str | weft.Plan = "auto", workers: int = 4) -> Trial:
    s = weft.Session(root, workers=workers)
    s._roster.prices = Prices(wave=1e-4, batch=1e-3)
    for name in batches[0]:
        s.stream(name, weft.read.batches([batches[0][name]]), event_time="ts")
    s.query("q", f"{sql} WITHIN INTERVAL '3' SECOND", strategy=strategy)
    s.options(epoch="1 batches")
    return Trial(s, state=root, adapt=True)


def check(trial: Trial, batches: Batches) -> None:
    whole = {name: pa.concat_tables([batch[name] for batch in batches]) for name in batches[0]}
    assert_same_rows(trial.table("q"), oracle(trial.queries["q"], whole))


def test_a_key_that_becomes_frequent_is_spread_and_united_when_it_is_so_no_more(tmp_path: Path) -> None:
    hot, random = SCENARIOS["hot"], np.random.default_rng(5)
    batches = [hot.make(random, at, 1 if 2 <= at < 7 else 0, 1500) for at in range(22)]
    trial = follow(tmp_path, hot.queries["q"], batches)
    spread = []
    for batch in batches:
        trial.feed(batch)
        spread.append("frequent value" in trial.explain("chosen"))
    assert trial.adaptation is not None
    said = [str(epoch) for epoch in trial.adaptation.epochs()]
    assert not spread[2], said
    assert spread[7], said
    assert trial.adaptation._known.heavy("r", "a") == ()
    assert not spread[-1], said
    assert any("they are united" in line for line in said), said
    assert sum(one != other for one, other in itertools.pairwise(spread)) == 2, said
    check(trial, batches)


def test_axes_of_a_cube_follow_sizes(tmp_path: Path) -> None:
    random, values = np.random.default_rng(5), {"a": (0, 2000), "b": (0, 2000), "c": (0, 10)}
    large: Mapping[str, int] = {"r": 1600, "s": 50, "t": 50, "u": 1}
    small: Mapping[str, int] = {"r": 50, "s": 50, "t": 1600, "u": 1}
    made = [chain(random, at, large if at < 3 else small, values) for at in range(9)]
    batches = [{name: batch[name] for name in ("r", "s", "t")} for batch in made]
    sql = "SELECT r.id AS ri, s.id AS si, t.id AS ti FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b"
    trial = follow(tmp_path, sql, batches, "hypercube:hash")
    axes = []
    for batch in batches:
        trial.feed(batch)
        cubes = [store.spread for store in trial.topology.stores if store.stream == "r"]
        axes.append([axis.size for cube in cubes if isinstance(cube, Cube) for axis in cube.axes])
    assert trial.adaptation is not None
    assert axes[0] != axes[-1], [str(epoch) for epoch in trial.adaptation.epochs()]
    check(trial, batches)


@pytest.mark.parametrize("strategy", ["hypercube:hash", "hypercube:random", "flat"])
def test_shares_of_pairs_are_right_whatever_copies_a_plan_makes(tmp_path: Path, strategy: str) -> None:
    random, values = np.random.default_rng(7), dict.fromkeys("abc", (0, 300))
    batches = [chain(random, at, dict.fromkeys("rstu", 600), values) for at in range(5)]
    trial = follow(tmp_path, SCENARIOS["stable"].queries["q"], batches, strategy, workers=2)
    for batch in batches:
        trial.feed(batch)
    assert trial.adaptation is not None
    shares = trial.adaptation._known._selectivities
    assert all(0.75 / 300 < share < 1.33 / 300 for share in shares.values()), shares
    assert strategy != "flat" or len(shares) == 3


def test_a_sample_is_bounded_and_each_row_has_the_same_chance() -> None:
    kept, seen = Drawn(200), np.zeros(1000)
    for number in range(60):
        drawing = Drawing(100, number)
        for start in (0, 400):
            drawing.see(pa.record_batch({"x": np.arange(start, start + (400 if start == 0 else 600))}))
        [(count, _)] = found = drawing.plain()
        assert count == 1000
        kept.add(found)
        taken = kept.rows(number)
        assert taken.num_rows <= 230
        np.add.at(seen, taken["x"].to_numpy(), 1)
    assert kept.seen == 60_000
    assert 0.8 < seen[:400].sum() / 400 / (seen[400:].sum() / 600) < 1.25
    assert Drawing(0, 1).plain() == []


@pytest.mark.parametrize("epoch", ["4 batches", "4 seconds of events"])
def test_batches_of_a_long_epoch_draw_less_each(tmp_path: Path, epoch: str) -> None:
    random, values = np.random.default_rng(5), dict.fromkeys("abc", (0, 3000))
    batches = [chain(random, at, dict.fromkeys("rstu", 3000), values) for at in range(14)]
    trial = follow(tmp_path, SCENARIOS["hot"].queries["q"], [{n: b[n] for n in ("r", "s")} for b in batches], workers=2)
    assert trial.adaptation is not None
    trial.adaptation._length = read_length(epoch)
    drawn = []
    for batch in batches:
        report = trial.feed({name: batch[name] for name in ("r", "s")})
        [(count, sent)] = report.samples["r"]
        with pa.ipc.open_stream(sent) as rows:
            drawn.append(rows.read_all().num_rows)
        assert count == 3000
    # Four batches of one task each: 4,000 rows in an epoch, or twice as many where its length is not known.
    assert drawn == ([500] * 14 if "batches" in epoch else [2000] * 5 + [1000] * 9), drawn
    assert all(found.rows().num_rows <= 4_000 for found in trial.adaptation._open.drawn.values())


def test_statistics_follow_slowly_but_jump_at_once() -> None:
    old = Statistics({"r": 10}, rates={"r": 100, "s": 100}, selectivities={("r", "s"): 0.1})
    new = Statistics({"r": 90}, rates={"r": 121, "s": 900}, selectivities={("r", "s"): 0.001})
    found = old.follow(new, 0.5, 2.0)
    assert (found.rows("r"), found.rate("s"), found.selectivity("r", "s")) == (90, 900, 0.001)
    assert found.rate("r") == pytest.approx(110)
    assert old.differences(new, 1.5) == {"rate of s": (100, 900), "share of pairs r - s": (0.1, 0.001)}


@pytest.mark.parametrize("strategy", ["auto", "flat", weft.Plan()])
def test_uneven_load_is_promised_a_cure_where_the_planner_is_free(tmp_path: Path, strategy: str | weft.Plan) -> None:
    first = SCENARIOS["hot"].make(np.random.default_rng(5), 0, 1, 100)
    chosen = follow(tmp_path, SCENARIOS["hot"].queries["q"], [first], strategy).choices
    notice = Notice("uneven-load", "m", "d", "h", "a")
    told = promise_cure(notice, 5, chosen)
    assert promise_cure(None, 5, chosen) is None
    if strategy == "auto":
        assert told is not None
        assert "cured with epoch 7" in told.hint
        assert told.action == "h.epochs()"
    else:
        assert told == notice


def test_what_queries_share_follows_the_data(tmp_path: Path) -> None:
    """Both keep the join of s and t while few s find a t; then that of r and s, which few find."""
    mix = SCENARIOS["mix"]
    random = np.random.default_rng(5)
    batches = [mix.make(random, at, int(at >= 2), 6000) for at in range(6)]
    s = weft.Session(tmp_path, workers=2)
    s._roster.prices = Prices(wave=1e-4, batch=1e-3)
    for name in batches[0]:
        s.stream(name, weft.read.batches([batches[0][name]]), event_time="ts")
    for name in ("rst_0", "rstu_0"):
        s.query(name, f"{mix.queries[name]} WITHIN INTERVAL '3' SECOND")
    s.options(epoch="1 batches", sharing="global")
    trial, shared = Trial(s, state=tmp_path, adapt=True), []
    for batch in batches:
        trial.feed(batch)
        shared.append({store.members for store in trial.topology.stores if store.members and len(store.users) == 2})
    assert trial.adaptation is not None
    assert (shared[0], shared[-1]) == ({("s", "t")}, {("r", "s")}), [str(e) for e in trial.adaptation.epochs()]
    for name in s.queries:
        whole = {stream: pa.concat_tables([batch[stream] for batch in batches]) for stream in batches[0]}
        assert_same_rows(trial.table(name), oracle(trial.queries[name], whole))
