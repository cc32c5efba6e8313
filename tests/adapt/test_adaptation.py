"""Plans follow the data: when, why, and when not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests.adapt.drift import CHAIN, DENSE_A, DENSE_C, EVEN, NAMES, declare, feed, rows
from tests.adapt.lives import live
from weft.adapt.length import Length, read_length
from weft.adapt.settled import STILL, Settled
from weft.errors import PlanError
from weft.session.adapting import SessionPlans, show_switches
from weft.stats.model import Statistics
from weft.testing import Trial, assert_same_rows, oracle

COUNT = 300
"""Rows of a stream in a second."""
Phase = Callable[[int], Mapping[str, int]]


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches cost nothing: whether one pays must not depend on how busy the machine is."""
    monkeypatch.setattr(SessionPlans, "_cost", lambda *_: 0.0)


def begin(root: Path, phase: Phase, **options: Any) -> tuple[Trial, list[dict[str, pa.Table]]]:
    random = np.random.default_rng(7)
    batches = [rows(random, at, COUNT, phase(at)) for at in range(16)]
    return Trial(declare(root, batches[0], **options), state=root, adapt=True), batches


@pytest.mark.usefixtures("cheap")
def test_ge3_statistics_of_epoch_i_change_the_plan_with_epoch_i_plus_2_and_not_before(tmp_path: Path) -> None:
    trial, batches = begin(tmp_path, lambda at: EVEN if at < 6 else DENSE_A)
    plans = feed(trial, batches)
    # Epoch 6 is batch 6.  Its statistics are there after it, and batch 8 is the first of epoch 8.
    assert plans[:7] == [0] * 7
    assert plans[7] == 1, [str(epoch) for epoch in trial.adaptation.epochs()]  # type: ignore[union-attr]
    assert plans[-1] == 1
    assert trial.adaptation is not None
    epochs = trial.adaptation.epochs()
    assert [epoch.switch for epoch in epochs if epoch.switch is not None] == [8]
    changed = next(epoch for epoch in epochs if epoch.changed)
    assert (changed.number, changed.first) == (8, 8)
    assert "plan changed (+" in changed.line()
    assert any("share of" in moved for moved in epochs[6].moved)
    assert epochs[9].effect is not None
    whole = {name: pa.concat_tables([batch[name] for batch in batches]) for name in NAMES}
    assert_same_rows(trial.table("q"), oracle(trial.queries["q"], whole))
    assert show_switches(tmp_path)[0].startswith("epoch 8, from batch 8 on: another plan saves")


@pytest.mark.usefixtures("cheap")
def test_streams_that_do_not_change_never_change_the_plan(tmp_path: Path) -> None:
    trial, batches = begin(tmp_path, lambda _: EVEN)
    assert {*feed(trial, batches)} == {0}
    assert trial.adaptation is not None
    assert all("stays" in epoch.decision for epoch in trial.adaptation.epochs())
    settled = ["nothing has moved since epoch" in epoch.decision for epoch in trial.adaptation.epochs()]
    assert all(epoch.plans > 1 or told for epoch, told in zip(trial.adaptation.epochs(), settled, strict=True))
    assert any(settled), [epoch.decision for epoch in trial.adaptation.epochs()]


def test_what_was_decided_stands_until_small_steps_have_become_a_large_one(tmp_path: Path) -> None:
    chosen = declare(tmp_path, rows(np.random.default_rng(7), 0, COUNT, EVEN)).choices
    known = Statistics({"s": 1e6}, rates={"s": 1000.0}, predicates={"s.a = r.a": 1e-3})
    settled = Settled(3, chosen, known)
    assert not settled.stands((*chosen,)[:-1], known)
    steps = [known.with_rate("s", 1000.0 * 1.05**n) for n in range(8)]
    assert [settled.stands(chosen, step) for step in steps] == [1.05**n <= STILL for n in range(8)]


@pytest.mark.usefixtures("cheap")
def test_one_epoch_is_weighed_at_a_time(tmp_path: Path) -> None:
    """On a busy machine it may take longer than an epoch: what comes meanwhile does not pile up."""
    trial, batches = begin(tmp_path, lambda _: EVEN)
    assert trial.adaptation is not None
    waiting: list[Callable[[], None]] = []
    trial.adaptation._start = waiting.append
    feed(trial, batches[:3])
    assert len(waiting) == 1
    waiting.pop()()
    feed(trial, batches[3:4])
    waiting.pop()()
    busy = ["still being weighed" in epoch.decision for epoch in trial.adaptation.epochs()]
    assert busy == [False, True, True, False]


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize("every", [1, 2])
def test_streams_that_alternate_change_the_plan_at_most_once_in_ten_epochs(tmp_path: Path, every: int) -> None:
    trial, batches = begin(tmp_path, lambda at: (DENSE_A, DENSE_C)[at // every % 2])
    plans = feed(trial, batches)
    switched = [at for at in range(1, 16) if plans[at] != plans[at - 1]]
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(switched)), plans


@pytest.mark.usefixtures("cheap")
def test_a_plan_by_hand_is_never_changed(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    batches = [rows(random, at, COUNT, EVEN if at < 2 else DENSE_A) for at in range(8)]
    s = declare(tmp_path, batches[0], strategy=weft.Plan([("s", "t")]))
    trial = Trial(s, state=tmp_path, adapt=True)
    assert {*feed(trial, batches)} == {0}
    assert trial.adaptation is not None
    assert trial.adaptation.epochs()[-1].decision == "the plan stays: all plans are by hand"


@pytest.mark.usefixtures("cheap")
def test_a_restart_goes_on_in_the_epoch_and_with_the_plan_of_the_last_commit(tmp_path: Path) -> None:
    trial, batches = begin(tmp_path, lambda at: EVEN if at < 3 else DENSE_A)
    plans = feed(trial, batches[:8])
    assert plans[-1] == 1
    again = Trial(declare(tmp_path, batches[0]), state=tmp_path, adapt=True)
    assert again.adaptation is not None
    assert again.adaptation.epoch == 8
    assert again.topology == trial.topology
    assert again.running.epoch.number == 1
    feed(again, batches[8:12])
    assert [epoch.number for epoch in again.adaptation.epochs()] == [8, 9, 10, 11]
    found = pa.concat_tables([trial.table("q"), again.table("q")])
    whole = {name: pa.concat_tables([batch[name] for batch in batches[:12]]) for name in NAMES}
    assert_same_rows(found, oracle(again.queries["q"], whole))


def test_a_switch_that_does_not_pay_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SessionPlans, "_cost", lambda *_: 1e6)
    trial, batches = begin(tmp_path, lambda at: EVEN if at < 2 else DENSE_A)
    assert {*feed(trial, batches[:8])} == {0}
    assert trial.adaptation is not None
    assert any("to switch costs 1000000.00 s" in epoch.decision for epoch in trial.adaptation.epochs())


def test_state_that_outgrows_its_budget_gives_joins_up(tmp_path: Path) -> None:
    """Few pairs of s and t at first: they are kept; then there are many."""
    random = np.random.default_rng(3)
    some: Mapping[str, int] = {"a": 30, "b": 60_000, "c": 30}
    many: Mapping[str, int] = {"a": 30, "b": 30, "c": 60_000}
    batches = [rows(random, at, COUNT, some if at < 4 else many) for at in range(12)]
    s = declare(tmp_path, batches[0], budget=20_000, threshold=0.0)
    trial = Trial(s, state=tmp_path, adapt=True)
    feed(trial, batches[:4])
    kept = [store for store in trial.topology.stores if store.members]
    plans = feed(trial, batches[4:])
    assert trial.adaptation is not None
    said = [epoch.decision for epoch in trial.adaptation.epochs()]
    assert kept, said
    assert plans[-1] > 0, said
    assert any("state has outgrown its budget" in decision for decision in said), said
    assert sum(trial.state_rows.values()) <= 20_000
    assert not [store for store in trial.topology.stores if store.members]


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_random_lives_with_another_plan_in_every_epoch_and_with_kills_are_right(tmp_path: Path, seed: int) -> None:
    assert live(seed, tmp_path, batches=9) > 0


def test_lengths_of_epochs_are_read_and_checked(tmp_path: Path) -> None:
    assert read_length("20 batches") == Length("batches", 20)
    assert read_length("1 batch").is_over(1, 0.0, 0)
    assert read_length(0.5) == Length("wall", 500_000)
    assert read_length("1 minute of events").is_over(1, 0.0, 60_000_000)
    for wrong in ("0 batches", "soon", -1, "x of events"):
        with pytest.raises(PlanError, match="is not understood"):
            weft.Session(tmp_path).options(epoch=wrong)
    with pytest.raises(PlanError, match="threshold is 2"):
        weft.Session(tmp_path).options(threshold=2)


@pytest.mark.parametrize(
    ("epoch", "ends"), [("3 batches", [2, 6]), ("6 seconds", [2, 6]), ("6 seconds of events", [3, 6])]
)
def test_epochs_end_by_batches_by_the_wall_and_by_events(tmp_path: Path, epoch: str, ends: list[int]) -> None:
    """Also the first one, and one that goes on after a restart: that has seen only some of its batches."""
    random, wall, epochs = np.random.default_rng(7), [0.0], []
    batches = [rows(random, 2 * at, 10, EVEN) for at in range(8)]  # one every two seconds
    for part in (batches[:4], batches[4:]):
        trial = Trial(declare(tmp_path, batches[0], epoch=epoch), state=tmp_path, adapt=True, now=lambda: wall[0])
        for batch in part:
            wall[0] += 2
            trial.feed(batch)
        assert trial.adaptation is not None
        epochs += trial.adaptation.epochs()
    assert [(epoch.number, epoch.last) for epoch in epochs] == [*enumerate(ends)], [str(epoch) for epoch in epochs]
    assert [epoch.first for epoch in epochs] == [0, ends[0] + 1]


def test_a_run_that_reads_what_is_there_pins_its_plans_unless_asked(tmp_path: Path) -> None:
    s = weft.Session(tmp_path)
    assert (s.following.is_on(goes_on=True), s.following.is_on(goes_on=False)) == (True, False)
    s.options(adapt=True)
    assert s.following.is_on(goes_on=False)
    s.options(adapt=False)
    assert not s.following.is_on(goes_on=True)
    assert CHAIN


@pytest.mark.usefixtures("cheap")
def test_streams_that_change_once_more_change_the_plan_once_more_though_it_is_new(tmp_path: Path) -> None:
    """That is no going back: the second change is followed as fast as the first one."""
    hot: Mapping[str, int] = {"a": 60_000, "b": 20, "c": 60_000}
    trial, batches = begin(tmp_path, lambda at: DENSE_A if at < 5 else DENSE_C if at < 9 else hot)
    plans = feed(trial, batches)
    assert trial.adaptation is not None
    said = [str(epoch) for epoch in trial.adaptation.epochs()]
    switched = [at for at in range(1, 16) if plans[at] != plans[at - 1]]
    assert [at for at in switched if 6 <= at <= 8], said
    assert [at for at in switched if 10 <= at <= 12], said


def test_what_an_earlier_plan_found_is_forgotten_when_the_predicate_is_measured_anew(tmp_path: Path) -> None:
    trial, batches = begin(tmp_path, lambda at: DENSE_A if at < 4 else DENSE_C)
    feed(trial, batches[:10])
    assert trial.adaptation is not None
    known = trial.adaptation._known
    for pair, values in ((("r", "s"), 60_000), (("s", "t"), 3000), (("t", "u"), 30)):
        share = known.selectivity(*pair)
        assert share is not None
        assert share < 20 / values, pair
