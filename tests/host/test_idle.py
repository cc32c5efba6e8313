"""A stream that brings nothing does not hold others for ever; when it wakes, its late rows are counted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError
from weft.observe.watermark import read_watermarks
from weft.session.status import show_status
from weft.testing import Trial, assert_same_rows, expected_after_lateness
from weft.topology.clock import Clock

SECOND = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64())])
SQL = "SELECT a.k, a.t AS at, b.t AS bt FROM cat a JOIN dog b ON a.k = b.k WITHIN INTERVAL '10' SECOND"


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def rows(*times: int, k: int = 1) -> pa.Table:
    return pa.table({"k": [k] * len(times), "t": [*times]}, schema=SCHEMA)


def declare(root: Path, **idle: str) -> weft.Session:
    s = weft.Session(root, workers=2)
    for name in ("cat", "dog"):
        s.stream(name, weft.read.batches([rows(0)]), event_time="t", lateness="2 seconds", idle=idle.get(name))
    s.query("q", SQL)
    return s


def mark(trial: Trial) -> int | None:
    [found] = trial.manifest.watermarks(trial.topology).values()
    return None if found is None else found // SECOND


def test_the_watermark_goes_on_without_an_idle_stream_and_late_rows_are_counted_when_it_wakes(tmp_path: Path) -> None:
    s, clock = declare(tmp_path, dog="30 seconds"), Hands()
    trial = Trial(s, state=tmp_path, now=clock)
    trial.feed({"cat": rows(10), "dog": rows(10)})
    clock.at = 29
    trial.feed({"cat": rows(100)})
    assert (mark(trial), trial.manifest.idle) == (8, ())
    clock.at = 30
    trial.feed({"cat": rows(101)})
    assert (mark(trial), trial.manifest.idle) == (99, ("dog",))
    assert "1970-01-01 00:01:39; dog idle" in show_status(tmp_path)
    trial.feed({"dog": rows(50, 100)})
    assert (mark(trial), trial.manifest.idle) == (99, ())  # it is awake, and the watermark does not go back
    assert trial.late == {"dog": 1}
    trial.feed({"cat": rows(200), "dog": rows(120)})
    assert mark(trial) == 118
    batches = [{"cat": rows(10), "dog": rows(10)}, {"cat": rows(100)}, {"cat": rows(101)}, {"dog": rows(50, 100)},
               {"cat": rows(200), "dog": rows(120)}]  # fmt: skip
    idle = [(), (), (), ("dog",), ()]
    assert_same_rows(trial.table("q"), expected_after_lateness(s.queries["q"].query, batches, idle=idle))


def test_a_stream_that_never_brought_a_row_is_not_waited_for(tmp_path: Path) -> None:
    clock = Hands()
    trial = Trial(declare(tmp_path, dog="5 seconds"), state=tmp_path, now=clock)
    trial.feed({"cat": rows(10)})
    assert mark(trial) is None
    clock.at = 5
    trial.feed({"cat": rows(20)})
    assert mark(trial) == 18


def test_a_restart_goes_on_with_the_same_idle_streams_and_time_begins_anew(tmp_path: Path) -> None:
    clock = Hands()
    trial = Trial(declare(tmp_path, dog="5 seconds", cat="5 seconds"), state=tmp_path, now=clock)
    trial.feed({"cat": rows(10), "dog": rows(10)})
    clock.at = 6
    trial.feed({"cat": rows(100)})
    assert trial.manifest.idle == ("dog",)
    clock.at = 10_000
    again = Trial(declare(tmp_path, dog="5 seconds", cat="5 seconds"), state=tmp_path, now=clock)
    assert (mark(again), again.manifest.idle) == (98, ("dog",))
    again.feed({"cat": rows(120)})
    assert (mark(again), again.manifest.idle) == (118, ("dog",))


def test_if_all_streams_are_idle_the_fastest_decides() -> None:
    clock = Clock("c", (("a", 0), ("b", 0), ("c", 0)), queries=("q",))
    newest = {"a": 10, "b": 20}
    assert clock.watermark(newest) is None
    assert clock.watermark(newest, {"c"}) == 10
    assert clock.watermark(newest, {"a", "c"}) == 20
    assert clock.watermark(newest, {"a", "b", "c"}) == 20
    assert Clock("c", (("c", 0),)).watermark(newest, {"c"}) is None
    [shown] = read_watermarks([clock], newest, ("a", "c")).values()
    assert (shown.stream, shown.idle) == ("b", ("a", "c"))


def drifting(seed: int) -> Iterator[tuple[float, dict[str, pa.Table]]]:
    """Batches of two streams that fall silent and wake, with the seconds on the wall that pass before each."""
    draw = random.Random(seed)
    at, silent = 0, {"cat": 0, "dog": 0}
    for _ in range(14):
        at += draw.randrange(1, 6)
        batch = {}
        for name in silent:
            silent[name] = silent[name] - 1 if silent[name] else draw.choice([0, 0, 0, 4])
            if not silent[name]:
                behind = draw.choice([0, 0, 3, 12])
                times = [max(0, at - behind - draw.randrange(4)) for _ in range(draw.randrange(1, 5))]
                ks = [draw.randrange(2) for _ in times]
                batch[name] = pa.table({"k": ks, "t": times}, schema=SCHEMA)
        yield draw.choice([0.5, 1.0, 2.0]), batch


@pytest.mark.parametrize("seed", range(10))
def test_streams_that_fall_silent_and_wake_lose_what_the_oracle_says(tmp_path: Path, seed: int) -> None:
    idle: list[tuple[str, ...]] = []
    clock, s, found, batches = Hands(), declare(tmp_path, cat="4 seconds", dog="3 seconds"), [], []
    trial = Trial(s, state=tmp_path, now=clock)
    for number, (passed, batch) in enumerate(drifting(seed)):
        clock.at += passed
        idle.append(trial.manifest.idle)
        before = mark(trial)
        trial.feed(batch)
        batches.append(batch)
        assert before is None or (mark(trial) or 0) >= before
        if number % 5 == 4:
            found.append(trial.table("q"))
            trial = Trial(declare(tmp_path, cat="4 seconds", dog="3 seconds"), state=tmp_path, now=clock)
    found.append(trial.table("q"))
    assert_same_rows(pa.concat_tables(found), expected_after_lateness(s.queries["q"].query, batches, idle=idle))


def test_static_declares_a_table_and_idle_needs_an_event_time(tmp_path: Path) -> None:
    s = weft.Session(tmp_path, workers=1)
    assert s.stream("nation", weft.read.batches([rows(1)]), static=True).table
    with pytest.raises(QueryError, match="is static and has an event time"):
        s.stream("a", weft.read.batches([rows(1)]), static=True, event_time="t")
    with pytest.raises(QueryError, match="needs an event time"):
        s.stream("b", weft.read.batches([rows(1)]), idle="1 second")
