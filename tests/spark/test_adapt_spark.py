"""Plans follow the data on Spark: epochs, decisions, switches, restarts and kills."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
import weft.session.running as running_module
from tests.adapt.drift import CHAIN, COLUMNS, DENSE_A, EVEN, NAMES, rows
from tests.spark._kit import answer, drop
from weft.errors import WeftError
from weft.host.crash import CrashPoint
from weft.host.migration import when
from weft.optimizer.cost.prices import Prices
from weft.session.adapting import SessionPlans
from weft.testing import oracle

pytestmark = pytest.mark.spark

BATCHES = 10
COUNT = 300


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches cost nothing: whether one pays must not depend on how busy the machine is."""
    monkeypatch.setattr(SessionPlans, "_cost", lambda *_: 0.0)


def inputs() -> list[dict[str, pa.Table]]:
    random = np.random.default_rng(7)
    return [rows(random, at, COUNT, EVEN if at < 3 else DENSE_A) for at in range(BATCHES)]


def session(root: Path, batches: list[dict[str, pa.Table]]) -> weft.Session:
    s = weft.Session(root / "checkpoint", workers=2, progress=False)
    s._roster.prices = Prices(wave=1e-4, batch=1e-3)
    s.options(adapt=True, epoch="1 batches", statistics=weft.Statistics(rows=dict.fromkeys(NAMES, 3000.0)))
    s.options(threshold=0.05)
    for name in COLUMNS:
        s.stream(name, weft.read.batches([batch[name] for batch in batches]), event_time="t")
    s.query("q", CHAIN).to_parquet(root / "out")
    return s


def expected(batches: list[dict[str, pa.Table]], query: Any) -> Any:
    return answer(oracle(query, {name: pa.concat_tables([batch[name] for batch in batches]) for name in NAMES}))


def until(done: Callable[[], bool], handle: Any) -> None:
    while not done() and handle.active:
        handle.wait(0.1)


def test_ge3_on_spark_and_every_epoch_is_told(tmp_path: Path) -> None:
    batches = inputs()
    with session(tmp_path, batches) as s:
        handle = s.start(every=0.01)
        until(lambda: len(handle.epochs()) >= BATCHES, handle)
        report = handle.stop()
        query = s.queries["q"].query
    assert answer(tmp_path / "out") == expected(batches, query)
    epochs = report.epochs
    assert [epoch.number for epoch in epochs[:BATCHES]] == [*range(BATCHES)]
    planned = [epoch.switch for epoch in epochs if epoch.switch is not None]
    assert planned, [str(epoch) for epoch in epochs]
    made = [epoch.number for epoch in epochs if epoch.changed]
    assert made == [number for number in planned if number < BATCHES][: len(made)]
    turns = handle.changes()
    assert all(f"epoch {number}: plan changed (" in str(turns) for number in made)
    for epoch in epochs:
        if epoch.switch is not None:
            assert epoch.switch >= epoch.number + 2
    assert str(epochs[0]) in str(report) or len(epochs) > 10


@pytest.mark.parametrize("slower", [0.0, 1e9])
def test_a_switch_that_saves_much_begins_with_its_epoch_however_large_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slower: float
) -> None:
    """Where nothing is lost in the background, all state is moved there, and the switch comes later."""
    monkeypatch.setattr(when, "AT_ONCE", 0)
    monkeypatch.setattr(when, "SLOWER", slower)
    monkeypatch.setattr(when, "LARGE", 500)
    batches = inputs()
    with session(tmp_path, batches) as s:
        handle = s.start(every=0.01)
        until(lambda: len(handle.epochs()) >= BATCHES, handle)
        report = handle.stop()
        query = s.queries["q"].query
    assert answer(tmp_path / "out") == expected(batches, query)
    decided = {epoch.first for epoch in report.epochs if epoch.changed}
    begun = {turn.batch + 1 for turn in handle.changes()}
    assert decided
    assert begun == decided if slower else not begun & decided, report.epochs


@pytest.mark.parametrize("point", ["migrate before", "migrate commit before", "migrate commit after"])
def test_a_run_that_dies_in_a_switch_goes_on_and_the_answer_is_right(
    tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = functools.partial(running_module.open_adaptation, start=lambda work: work())
    monkeypatch.setattr(running_module, "open_adaptation", at_once)
    batches = inputs()
    with session(tmp_path / "whole", batches) as s:
        switch = next(epoch for epoch in s.run().epochs if epoch.changed)
    dying = session(tmp_path, batches)
    dying.crash_point = CrashPoint(point, switch.first - 1)
    with pytest.raises(WeftError, match="crash point reached"):
        dying.run()
    with session(tmp_path, batches) as s:
        report = s.run()
        query = s.queries["q"].query
    assert report.epochs[0].number in (switch.number - 1, switch.number)
    assert answer(tmp_path / "out") == expected(batches, query)
    assert answer(tmp_path / "whole" / "out") == expected(batches, query)


def test_ge1_pairs_across_epochs_come_once_on_spark(tmp_path: Path) -> None:
    def row(stream: str, name: str, ts: int, b: int = 0) -> None:
        drop(tmp_path / stream, f"{ts:03d}.parquet", pa.table({"id": [name], "a": [1], "b": [b], "ts": [ts]}))

    def run(strategy: str | weft.Plan) -> None:
        with weft.Session(tmp_path / "checkpoint", workers=2) as s:
            for stream in ("r", "s", "t"):
                source = weft.read.parquet(tmp_path / stream, schema=schema, max_files=1)
                s.stream(stream, source, event_time="ts", lateness=30)
            sql = "SELECT s.id AS s, t.id AS t FROM r, s, t WHERE r.a = s.a AND s.b = t.b WITHIN INTERVAL '30' SECOND"
            s.query("q", sql, strategy=strategy).to_parquet(tmp_path / "out")
            s.run()

    schema = pa.schema([("id", pa.string()), ("a", pa.int64()), ("b", pa.int64()), ("ts", pa.int64())])
    for stream in ("r", "s", "t"):
        (tmp_path / stream).mkdir()
    row("s", "s1", 5, 1)
    row("t", "t1", 6, 1)
    row("s", "s3", 8, 3)
    run("flat")
    row("s", "s2", 12, 2)
    row("t", "t2", 13, 2)
    row("t", "t3", 14, 3)
    row("s", "s4", 15, 4)
    run(weft.Plan([("s", "t")]))
    row("t", "t4", 22, 4)
    run("flat")
    row("r", "r", 25)
    run("flat")
    assert answer(tmp_path / "out") == dict.fromkeys([("s1", "t1"), ("s2", "t2"), ("s3", "t3"), ("s4", "t4")], 1)


def test_state_that_outgrows_its_budget_gives_joins_up_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = functools.partial(running_module.open_adaptation, start=lambda work: work())
    monkeypatch.setattr(running_module, "open_adaptation", at_once)
    some, many = {"a": 30, "b": 60_000, "c": 30}, {"a": 30, "b": 30, "c": 60_000}
    random = np.random.default_rng(3)
    batches = [rows(random, at, COUNT, some if at < 4 else many) for at in range(BATCHES)]
    with session(tmp_path, batches) as s:
        s.options(budget=20_000, threshold=0.0)
        report = s.run()
        query, last = s.queries["q"].query, report.batches[-1]
    assert any("state has outgrown its budget" in epoch.decision for epoch in report.epochs), report.epochs
    assert last.state_rows <= 20_000
    assert answer(tmp_path / "out") == expected(batches, query)
