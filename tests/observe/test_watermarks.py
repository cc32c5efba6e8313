"""Watermarks say where they stand, which stream holds them, and for how long."""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa

import weft
from weft.observe.progress import Progress
from weft.observe.report import Tally
from weft.observe.watermark import HELD, Holding, Watermark, read_watermarks, say_time
from weft.session.status import show_status
from weft.testing import Trial
from weft.topology.clock import Clock


def moment(seconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)  # noqa: DTZ001 - no zone


def rows(at: int) -> pa.Table:
    return pa.table({"k": [1], "t": [at]})


def open_trial(root: Path, policy: str = "min") -> Trial:
    s = weft.Session(root, workers=1)
    for name in ("cat", "dog"):
        s.stream(name, weft.read.batches([rows(0)]), event_time="t", lateness="2 seconds")
    s.options(watermark=policy)  # type: ignore[arg-type]
    s.query("q", "SELECT a.k FROM cat a JOIN dog b ON a.k = b.k WITHIN INTERVAL '10' SECOND")
    return Trial(s, state=root)


def marks(trial: Trial) -> dict[str, Watermark]:
    return read_watermarks(trial.topology.clocks, trial.manifest.newest)


def test_the_slowest_stream_holds_the_watermark_of_its_queries(tmp_path: Path) -> None:
    trial = open_trial(tmp_path)
    trial.feed({"dog": rows(50)})
    assert marks(trial) == {"q": Watermark(None, "cat", ("dog",))}
    assert str(marks(trial)["q"]) == "none: cat has brought no row"
    trial.feed({"cat": rows(10)})
    assert marks(trial) == {"q": Watermark(moment(8), "cat", ("dog",))}
    trial.feed({"cat": rows(100)})
    assert marks(trial) == {"q": Watermark(moment(48), "dog", ("cat",))}
    assert "query q  watermark 1970-01-01 00:00:48  waits for dog" in show_status(tmp_path)


def test_the_fastest_stream_holds_it_if_that_is_asked_for(tmp_path: Path) -> None:
    trial = open_trial(tmp_path, "max")
    trial.feed({"dog": rows(50), "cat": rows(10)})
    assert marks(trial) == {"q": Watermark(moment(48), "dog", ("cat",))}


def test_a_stream_that_stands_still_while_others_move_is_named_once_with_the_cure() -> None:
    clock, seconds = Clock("c", (("cat", 0), ("dog", 0)), queries=("q",)), iter(range(1000))
    holding, tally, newest = Holding(lambda: float(next(seconds))), Tally(), {"cat": 10_000_000}
    for at in range(HELD + 20):
        newest = {**newest, "dog": (100 + at) * 1_000_000}
        found, told = holding.see(read_watermarks([clock], newest), newest)
        tally.add(Progress(at, 0.1, 0, 0, 0, found["q"].at, notices=told, watermarks=found, newest=newest))
        if at == HELD:
            [notice] = told
            assert notice.kind == "held-watermark"
            assert notice.message == f"cat holds the watermark of q at 1970-01-01 00:00:10; {HELD} batches"
            assert 's.stream("cat", ..., idle="30 seconds")' in notice.action
            assert f"for {HELD} s" in notice.detail
        else:
            assert not told
    last = tally.recent(1)[0]
    assert (last.watermarks["q"].batches, last.watermarks["q"].stream) == (HELD + 19, "cat")
    assert "(held by cat for 59 batches)" in last.line()
    assert "held-watermark" in str(tally.report(1.0))
    newest = {**newest, "cat": 20_000_000}
    found, told = holding.see(read_watermarks([clock], newest), newest)
    assert (found["q"].batches, told) == (0, ())


def test_batches_in_which_nothing_moves_do_not_count() -> None:
    clock, newest = Clock("c", (("cat", 0), ("dog", 0)), queries=("q",)), {"cat": 10, "dog": 20}
    holding = Holding()
    for _ in range(2 * HELD):
        found, told = holding.see(read_watermarks([clock], newest), newest)
        assert (found["q"].batches, told) == (0, ())


def test_every_time_is_printed_as_a_time() -> None:
    assert say_time(moment(1)) == "1970-01-01 00:00:01"
    assert say_time(-(2**63) + 1) == "-290308-12-21 19:59:05.224193"
