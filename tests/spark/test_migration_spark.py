"""Sessions that change on Spark: queries come and go, workers and plans change, runs die in the middle of a change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import SCHEMA, STREAMS, Answer, answer, framed, make_input, oracle
from weft.host.crash import CrashPoint
from weft.host.migration import when
from weft.session.changes import PATIENCE

pytestmark = pytest.mark.spark

ROWS = 40
"""Rows of a file; a file is a batch."""
BASE = """
    SELECT r.id AS rid, s.id AS sid, t.id AS tid, r.ts AS rts, s.ts AS sts, t.ts AS tts, r.m AS rm, t.k AS tk
    FROM r JOIN s ON s.k = r.k JOIN t ON t.m = s.m
"""
CHAIN = "SELECT r.id AS rid, t.id AS tid FROM r JOIN s ON s.k = r.k JOIN t ON t.m = s.m AND t.k < r.m"
PAIRS = "SELECT s.id AS sid, t.id AS tid FROM s JOIN t ON s.m = t.m AND s.k < t.k"
NEAR = "SELECT r.id AS rid, s.id AS sid FROM r JOIN s ON s.k = r.k WITHIN INTERVAL '30' SECOND"
NEWEST = "greatest(r.ts, s.ts)"
ORACLES = {
    "base": BASE,
    "chain": CHAIN,
    "pairs": PAIRS,
    "near": f"""SELECT r.id, s.id FROM r JOIN s ON s.k = r.k
                WHERE {NEWEST} - r.ts < INTERVAL 30 SECOND AND {NEWEST} - s.ts < INTERVAL 30 SECOND""",
}
TEXTS = {"base": BASE, "chain": CHAIN, "pairs": PAIRS, "near": NEAR}
USES = {"base": "rst", "chain": "rst", "pairs": "st", "near": "rs"}

Asked = Mapping[str, Mapping[str, Any]]
"""Query -> what it is asked with."""
Rows = Mapping[str, int]
"""Stream -> how many rows of it had been read."""


def declare(root: Path, asked: Asked, workers: int = 2, kind: str = "files") -> weft.Session:
    """A session over the input files; each query goes to a folder."""
    session = weft.Session(root / "checkpoint", workers=workers, progress=False)
    for name in STREAMS:
        folder = root / "in" / name
        source = framed(folder, 2, SCHEMA) if (kind, name) == ("mixed", "s") else weft.read.parquet(folder, max_files=1)
        session.stream(name, source, event_time="ts", lateness="30 seconds")
    for name, wishes in asked.items():
        session.query(name, TEXTS[name], **wishes).to_parquet(root / "out" / name)
    return session


def wanted(root: Path, name: str, after: Rows | int = -1, until: Rows | int = 1000) -> Answer:
    """Results of a query with a row that was not among the first ones of its stream, and none after other ones.

    A number stands for the rows of all batches up to that one.
    """
    inputs = {stream: pq.read_table(root / "in" / stream) for stream in STREAMS}
    first, last = (
        dict.fromkeys(STREAMS, (given + 1) * ROWS) if isinstance(given, int) else given for given in (after, until)
    )
    new = " OR ".join(f"{stream}.id % 1000000 >= {first[stream]}" for stream in USES[name])
    known = " AND ".join(f"{stream}.id % 1000000 < {last[stream]}" for stream in USES[name])
    joined = ORACLES[name]
    more = f" AND ({new}) AND {known}"
    return oracle(joined + (more if "WHERE" in joined or " AND " in joined else f" WHERE TRUE{more}"), **inputs)


def found(root: Path, name: str) -> Answer:
    return answer(root / "out" / name)


# ---------------------------------------------------------------------------------------------- deaths

POINTS = (
    "migrate before", "wave 1 before", "wave 1 after", "wave 2 before", "segment write", "migrate commit before",
    "migrate commit after", "publish",
)  # fmt: skip


@pytest.mark.crash
@pytest.mark.parametrize("number", range(len(POINTS)))
def test_a_change_that_dies_is_made_once_or_not_at_all(tmp_path: Path, number: int) -> None:
    point = POINTS[number]
    make_input(tmp_path, 2, seed=number)
    plans = ({"strategy": "flat"}, {"strategy": "left_deep"}, {"strategy": "hypercube:hash"})
    first: Asked = {"base": plans[number % 3], "near": {}}
    declare(tmp_path, first).run()
    second: Asked = {"base": plans[(number + 1) % 3], "near": {}, "chain": {"backfill": True}, "pairs": {}}
    dying = declare(tmp_path, second, workers=3)
    dying.crash_point = CrashPoint(point, 1)
    with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
        dying.run()
    is_made = point in ("migrate commit after", "publish")
    if is_made:
        with pytest.raises(weft.StateError, match='query "chain" of the checkpoint is missing'):
            declare(tmp_path, first).run()
    elif number % 2:
        make_input(tmp_path, 1, seed=number, first=2)  # the session of before goes on first
        assert len(declare(tmp_path, first).run().batches) == 1
    added = 2 if number % 2 and not is_made else 1
    report = declare(tmp_path, second, workers=3).run()
    assert is_made == ("plan-changed" not in {notice.kind for notice in report.notices})
    make_input(tmp_path, 1, seed=number + 100, first=added + 1)
    declare(tmp_path, second, workers=1 + number % 3).run()
    for name, after in (("base", -1), ("near", -1), ("chain", -1), ("pairs", added)):
        assert found(tmp_path, name) == wanted(tmp_path, name, after), name


# ------------------------------------------------------------------------------------------------ live


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that a run in the background does."""
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        threading.Event().wait(0.02)


@pytest.mark.parametrize("kind", ["at once", "background", "mixed"])
def test_a_running_session_changes_and_no_result_is_lost_or_doubled(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "background":
        monkeypatch.setattr(when, "AT_ONCE", 0)
    make_input(tmp_path, 1, seed=5)
    session = declare(tmp_path, {"base": {"strategy": "flat"}}, kind=kind)
    handle = session.start(every=0.05)

    def batch(number: int) -> None:
        until(lambda: handle.report().count > number)

    def turned(what: str) -> int:
        """The batch after which the plan changed, as the change says."""
        until(lambda: any(what in turn.why for turn in handle.changes()))
        return next(turn.batch for turn in handle.changes() if what in turn.why)

    def read_until(number: int) -> Rows:
        """What had been read: a batch may begin between the files of two streams."""
        done = [batch.rows_in for batch in handle.report().batches if batch.batch <= number]
        return {stream: sum(rows.get(stream, 0) for rows in done) for stream in STREAMS}

    batch(0)
    chain = session.query("chain", CHAIN, backfill=True)
    chain.to_parquet(tmp_path / "out" / "chain").to_memory()
    session.rescale(3)
    make_input(tmp_path, 1, seed=6, first=1)
    turned('query "chain" is new')
    batch(1)
    session.query("near", NEAR).to_parquet(tmp_path / "out" / "near")
    session.rescale(2)
    make_input(tmp_path, 1, seed=7, first=2)
    batch(2)
    near = turned('query "near" is new')
    session.options(strategy="left_deep")
    with pytest.raises(weft.QueryError):
        session.query("wrong", "SELECT r.nothing FROM r")
    bare, asked = session.query("bare", PAIRS), time.monotonic()
    make_input(tmp_path, 1, seed=8, first=3)
    batch(3)
    until(lambda: time.monotonic() - asked > PATIENCE)
    make_input(tmp_path, 1, seed=9, first=4)
    batch(4)
    until(lambda: bare.error is not None)
    assert "has no sink" in str(bare.error)
    assert set(session.queries) == {"base", "chain", "near"}
    session.drop("base")
    make_input(tmp_path, 1, seed=10, first=5)
    dropped = turned('query "base" is dropped')
    batch(5)
    make_input(tmp_path, 1, seed=11, first=6)
    batch(6)
    until(lambda: set(handle.report().rows_in.values()) == {7 * 40})  # a batch may have begun between two files
    session.drop("near")
    with pytest.raises(weft.PlanError, match="last one"):
        session.drop("chain")
    report = handle.stop()
    assert {"plan-changed", "change-refused"} <= {notice.kind for notice in report.notices}
    assert found(tmp_path, "base") == wanted(tmp_path, "base", until=read_until(dropped))
    assert found(tmp_path, "chain") == wanted(tmp_path, "chain")
    assert answer(chain.table()) <= wanted(tmp_path, "chain"), "a second sink may come a batch later"
    assert found(tmp_path, "near") <= wanted(tmp_path, "near")
    assert found(tmp_path, "near") >= wanted(tmp_path, "near", after=read_until(near))
    assert chain.complete_from is None


def test_a_query_begins_now_with_the_rows_of_the_next_batch(tmp_path: Path) -> None:
    make_input(tmp_path, 2, seed=1)
    declare(tmp_path, {"base": {}}).run()
    make_input(tmp_path, 2, seed=2, first=2)
    session = declare(tmp_path, {"base": {}, "pairs": {"start": "now"}})
    past = session.query("past", PAIRS, backfill=True).to_memory()
    session.run()
    assert answer(past.table()) == wanted(tmp_path, "pairs")
    inputs = {s: pq.read_table(tmp_path / "in" / s) for s in STREAMS}
    late = {s: rows.filter([i % 1_000_000 >= 2 * ROWS for i in rows["id"].to_pylist()]) for s, rows in inputs.items()}
    assert found(tmp_path, "pairs") == oracle(PAIRS, **late)
    assert found(tmp_path, "base") == wanted(tmp_path, "base")
