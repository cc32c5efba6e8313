"""A session as its owner sees it: resuming, refusing, several sinks and queries, running for ever, Ctrl-C, errors."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest

import weft
from tests.spark._kill import Job, committed
from tests.spark._kit import answer, drop, expected, found, framed, listing, make_input, make_session, moment, table
from weft.host.crash import CrashPoint
from weft.host.results import merging, parquet

pytestmark = pytest.mark.spark

PAIR = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
NO_TRACE = re.compile(r"^\s+at [\w$.]+\(|Py4J|org\.apache\.spark", re.MULTILINE)


def rows(*pairs: tuple[int, int]) -> pa.Table:
    return table(id=[i for i, _ in pairs], k=[k for _, k in pairs], ts=[moment(i) for i, _ in pairs])


def pair_session(
    root: Path, sql: str = PAIR, *, workers: int = 2, a: str = "a", kind: str = "files",
    max_files: int | None = 1, **options: Any,
) -> weft.Session:  # fmt: skip
    s = weft.Session(root / "checkpoint", workers=workers)
    schema = rows((1, 1)).schema
    for name, folder in (("a", root / a), ("b", root / "b")):
        if (kind, name) == ("frame", "a"):
            s.stream(name, framed(folder, workers, "id LONG, k LONG, ts TIMESTAMP_NTZ", max_files), **options)
        else:
            s.stream(name, weft.read.parquet(folder, max_files=max_files, schema=schema), **options)
    s.query("q", sql)
    return s


# ------------------------------------------------------------------------------------------- resume


def test_a_session_goes_on_where_it_ended(tmp_path: Path) -> None:
    make_input(tmp_path, 2, seed=1)
    first = make_session(tmp_path).run()
    assert len(first.batches) == 2
    before = listing(tmp_path / "out" / "history")
    assert make_session(tmp_path).run().batches == ()
    make_input(tmp_path, 1, seed=1, first=2)
    report = make_session(tmp_path).run()
    assert report.rows_in == {"r": 40, "s": 40, "t": 40}
    assert found(tmp_path) == expected(tmp_path)
    assert before.items() <= listing(tmp_path / "out" / "history").items()


def test_the_order_of_registration_and_the_sizes_of_inputs_do_not_matter_when_resuming(tmp_path: Path) -> None:
    """Spark's offsets are by position, and a plan depends on sizes: both must be those the state was made with."""
    queries = {
        "p": "SELECT a.id AS x, b.id AS y FROM b JOIN a ON a.k = b.k",
        "q": "SELECT a.id AS x, b.id AS y, c.id AS z FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m AND a.m = c.k",
        "w": "SELECT c.id AS x, b.id AS y FROM c JOIN b ON b.m = c.m AND b.id < c.id",
    }
    sizes = {"a": (200, 2), "b": (5, 5), "c": (2, 300)}

    def batch(name: str, number: int) -> pa.Table:
        size = sizes[name][number]
        return table(
            id=[number * 1000 + i for i in range(size)],
            k=[i % 7 for i in range(size)],
            m=[(i * 3 + number) % 7 for i in range(size)],
        )

    def run(order: list[str]) -> None:
        s = weft.Session(tmp_path / "checkpoint", workers=2)
        for name in sizes:
            s.stream(name, weft.read.parquet(tmp_path / name))
        for name in order:
            s.query(name, queries[name]).to_parquet(tmp_path / "out" / name)
        s.run()

    everything: dict[str, pa.Table] = {}
    for number, order in enumerate((["p", "q", "w"], ["w", "q", "p"])):
        for name in sizes:
            drop(tmp_path / name, f"{number}.parquet", batch(name, number))
        run(order)
    from tests.spark._kit import oracle

    for name in sizes:
        everything[name] = pa.concat_tables([batch(name, 0), batch(name, 1)])
    for name, sql in queries.items():
        assert answer(tmp_path / "out" / name) == oracle(sql, **everything), name


def test_another_session_on_the_checkpoint_is_told_what_differs(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    others = {
        r'query "q", where': pair_session(tmp_path, PAIR + " AND a.id < b.id"),
        r'query "q", select': pair_session(tmp_path, "SELECT a.id AS aid FROM a JOIN b ON a.k = b.k"),
        r'query "q", from': pair_session(tmp_path, "SELECT a.id AS aid, b.id AS bid FROM b JOIN a ON a.k = b.k"),
        r'stream "a", event time': pair_session(tmp_path, event_time="ts"),
        r'stream "a", source: .*/a, .*/b': pair_session(tmp_path, a="b"),
    }
    windowed = pair_session(tmp_path / "w", PAIR + " WITHIN INTERVAL '1' MINUTE", event_time="ts")
    for pattern, other in others.items():
        other.queries["q"].to_memory()
        with pytest.raises(weft.StateError, match="belongs to another session") as caught:
            other.run()
        assert re.search(pattern, str(caught.value)), str(caught.value)
        assert caught.value.hint
    windowed.queries["q"].to_memory()
    drop(tmp_path / "w" / "a", "0.parquet", rows((1, 1)))
    windowed.run()
    wider = pair_session(tmp_path / "w", PAIR + " WITHIN INTERVAL '2' MINUTE", event_time="ts")
    wider.queries["q"].to_memory()
    with pytest.raises(weft.StateError, match=r'query "q", from: .*within 1 minute.*within 2 minutes'):
        wider.run()
    fastest = pair_session(tmp_path / "w", PAIR + " WITHIN INTERVAL '1' MINUTE", event_time="ts")
    fastest.options(watermark="max")
    fastest.queries["q"].to_memory()
    with pytest.raises(weft.StateError, match="watermark: the checkpoint has min, this session max"):
        fastest.run()
    # the refusals have changed nothing
    drop(tmp_path / "a", "1.parquet", rows((3, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    assert answer(tmp_path / "out") == {(1, 2): 1, (3, 2): 1}


def test_foreign_folders_are_refused_and_the_checkpoint_stays_free(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "mine.txt").write_text("precious")
    with pair_session(tmp_path) as s:
        s.queries["q"].to_parquet(tmp_path / "foreign")
        with pytest.raises(weft.SinkError, match="already holds other results"):
            s.run()
    assert [p.name for p in (tmp_path / "foreign").iterdir()] == ["mine.txt"]
    s = pair_session(tmp_path)  # in the same process: the lock must have been let go
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    other = pair_session(tmp_path / "other")
    other.queries["q"].to_parquet(tmp_path / "out")
    with pytest.raises(weft.SinkError, match="already holds other results"):
        other.run()
    assert answer(tmp_path / "out") == {(1, 2): 1}


def test_a_run_that_died_while_it_claimed_its_folder_can_go_on(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    (tmp_path / "out" / "empty.parquet").unlink()  # the marker is there, the empty file is not
    (tmp_path / "out" / ".empty.parquet.tmp").write_bytes(b"PAR")
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    assert answer(tmp_path / "out") == {(1, 2): 1}
    assert not list((tmp_path / "out").glob(".*"))


def test_what_a_killed_worker_left_half_written_is_no_obstacle(tmp_path: Path) -> None:
    make_input(tmp_path, 2, seed=3)
    make_session(tmp_path).run()
    checkpoint = tmp_path / "checkpoint"
    (checkpoint / "notes" / ".000000000001-0.4711").write_text("[{")
    (checkpoint / "notes" / ".000000000002-0-abcdef.4711").write_text("")
    (checkpoint / "notes" / "000000000002-1-abcdef").write_text("[{")
    (checkpoint / "manifests" / ".000000000002.json.tmp").write_text('{"batch"')
    staged = checkpoint / "results" / "000000000002" / "history" / "abcdef"
    staged.mkdir(parents=True)
    (staged / "000000000002-1-0000.parquet").write_bytes(b"PAR1")
    store = next((checkpoint / "segments").iterdir())
    (store / "0" / ".000000000002-abcdef-0.seg.4711.tmp").write_bytes(b"half")
    with open(checkpoint / "sources" / "r.files", "ab") as log:
        log.write(b'0badc0de "/half')
    make_input(tmp_path, 2, seed=3, first=2)
    make_session(tmp_path).run()
    assert found(tmp_path) == expected(tmp_path)
    assert not list(checkpoint.glob("notes/.*"))
    assert not list(checkpoint.glob("segments/*/*/.*"))


# --------------------------------------------------------------------------------------------- sinks


def test_several_queries_with_several_sinks(tmp_path: Path) -> None:
    for i in range(2):
        drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
        drop(tmp_path / "b", f"{i}.parquet", rows((10 + i, 1)))
    seen: list[tuple[str, int, list[Any]]] = []
    s = pair_session(tmp_path)
    q = s.queries["q"]
    q.to_parquet(tmp_path / "one").to_parquet(tmp_path / "two").to_memory()
    q.foreach_batch(lambda df, batch: seen.append(("q", batch, [tuple(r) for r in df.collect()])))
    big = s.query("big", "SELECT a.id AS aid, b.ts AS t FROM a JOIN b ON a.k = b.k AND a.id > b.id").to_memory()
    big.foreach_batch(lambda df, batch: seen.append(("big", batch, [df.columns, df.count()])))
    report = s.run()
    wanted = {(i, j): 1 for i in (0, 1) for j in (10, 11)}
    assert answer(tmp_path / "one") == answer(tmp_path / "two") == answer(q.table()) == wanted
    assert big.table().num_rows == 0
    assert big.table().schema.field("t").type == pa.timestamp("us")
    assert report.rows_out == {"q": 4, "big": 0}
    by_batch = {batch: sorted(result) for name, batch, result in seen if name == "q"}
    assert by_batch == {0: [(0, 10)], 1: [(0, 11), (1, 10), (1, 11)]}
    assert [entry for entry in seen if entry[0] == "big"] == [("big", b, [["aid", "t"], 0]) for b in (0, 1)]


def test_a_query_without_sink_and_a_table_without_memory(tmp_path: Path) -> None:
    s = pair_session(tmp_path)
    with pytest.raises(weft.SinkError, match='query "q" has no sink'):
        s.run()
    with pytest.raises(weft.SinkError, match="no memory sink"):
        s.queries["q"].table()


# ------------------------------------------------------------------------------------------ for ever


def test_running_for_ever_progress_and_stop(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((0, 1)))
    drop(tmp_path / "b", "0.parquet", rows((10, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    with s:
        handle = s.start(every="100 milliseconds")
        assert bool(handle.active)
        with pytest.raises(weft.PlanError, match="already running"):
            s.run()
        second = pair_session(tmp_path)
        second.queries["q"].to_memory()
        with pytest.raises(weft.StateError, match="is in use"):
            second.run()
        for i in range(1, 4):
            drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
            _wait(handle, lambda i=i: handle.report().rows_in.get("a", 0) > i)
        assert answer(tmp_path / "out") == {(i, 10): 1 for i in range(4)}
        for i in range(4, 10):  # these may or may not be read before the stop
            drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
        report = handle.stop()
        assert report.stopped
        assert not handle.active
        assert handle.stop().batches == report.batches
        read = report.rows_in["a"]
        assert answer(tmp_path / "out") == {(i, 10): 1 for i in range(read)}
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    assert s.run().rows_in.get("a", 0) == 10 - read
    assert answer(tmp_path / "out") == {(i, 10): 1 for i in range(10)}


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_session_changes_while_it_runs(tmp_path: Path, kind: str) -> None:
    drop(tmp_path / "a", "0.parquet", rows((0, 1)))
    drop(tmp_path / "b", "0.parquet", rows((10, 1)))
    s = pair_session(tmp_path, kind=kind)
    q = s.queries["q"].to_parquet(tmp_path / "out")
    with s:
        handle = s.start(every="10 milliseconds")
        _wait(handle, lambda: handle.report().rows_in.get("a", 0) == 1)
        with pytest.raises(
            weft.PlanError, match=r"^a watermark policy was given while the session is running"
        ) as caught:
            s.options(watermark="max")
        _is_readable(caught.value)
        with pytest.raises(weft.WeftError):
            s.query("wrong", "SELECT a.nothing FROM a JOIN b ON a.k = b.k")
        assert {*s.queries} == {"q"}
        p = s.query("p", PAIR, backfill=True).to_parquet(tmp_path / "late")
        q.to_memory()
        drop(tmp_path / "a", "1.parquet", rows((1, 1)))
        _wait(handle, lambda: handle.report().rows_in.get("a", 0) == 2)
        assert p.complete_from is None
        assert answer(tmp_path / "late") == {(i, 10): 1 for i in range(2)}
        assert q.table().num_rows == 1, "a new sink gets what comes after it"
        s.drop("q")
        drop(tmp_path / "a", "2.parquet", rows((2, 1)))
        _wait(handle, lambda: handle.report().rows_in.get("a", 0) == 3)
        assert [turn.why for turn in handle.changes()][-1] == 'query "q" is dropped'
    assert answer(tmp_path / "out") == {(i, 10): 1 for i in range(2)}
    assert answer(tmp_path / "late") == {(i, 10): 1 for i in range(3)}


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_no_batch_is_lost_however_often_a_run_is_stopped(tmp_path: Path, kind: str) -> None:
    """A stop that meets the beginning of a batch must not let Spark believe that the batch was done."""
    n = 0
    drop(tmp_path / "b", "0.parquet", rows((100, 1)))
    for attempt in range(4):
        for i in range(n, n + 8):
            drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
        n += 8
        s = pair_session(tmp_path, kind=kind)
        s.queries["q"].to_parquet(tmp_path / "out")
        handle = s.start(every="1 millisecond")
        _wait(handle, lambda handle=handle, attempt=attempt: handle.report().count >= attempt)
        if attempt % 2 and kind == "frame":  # let the stop come while Spark's thread waits to begin
            pace = handle._run._pace
            pace._gate = gate = Gate(pace._gate)
            with gate:
                pace._stopping = True
                drop(tmp_path / "a", f"{n}.parquet", rows((n, 1)))
                n += 1
                assert gate.awaited.wait(60), "no batch begins"
        stopper = threading.Thread(target=handle.stop, daemon=True)
        stopper.start()
        stopper.join(60)
        assert not stopper.is_alive(), "stop hangs"
    s = pair_session(tmp_path, kind=kind)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    assert answer(tmp_path / "out") == {(i, 100): 1 for i in range(n)}


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_batch_that_is_run_again_has_the_same_rows_whatever_has_arrived(tmp_path: Path, kind: str) -> None:
    seen: list[tuple[int, list[Any]]] = []

    def run(strategy: Literal["flat", "left_deep"], crash: CrashPoint | None = None) -> None:
        s = pair_session(tmp_path, kind=kind, max_files=None).options(strategy=strategy)
        s.queries["q"].foreach_batch(lambda df, batch: seen.append((batch, sorted(tuple(r) for r in df.collect()))))
        s.crash_point = crash
        s.run()

    drop(tmp_path / "a", "0.parquet", rows((0, 1)))
    drop(tmp_path / "b", "0.parquet", rows((10, 1)))
    for i, point in enumerate(("commit before", "wave 1 before"), 1):
        with pytest.raises(weft.HostError, match=point):
            run("flat" if i == 1 else "left_deep", CrashPoint(point, 0))
        drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
    run("flat")
    assert seen == [(0, [(0, 10)]), (0, [(0, 10)]), (1, [(1, 10), (2, 10)])]


def test_ctrl_c_ends_after_the_batch_with_a_report(tmp_path: Path) -> None:
    make_input(tmp_path, 6, seed=4)
    with Job(tmp_path) as job:
        assert job.until(lambda: committed(tmp_path) >= 0), job.log.read_text()
        os.killpg(job.process.pid, signal.SIGINT)  # as a terminal does: to all of the group
        code = job.finish(60)
    log = job.log.read_text()
    assert code == 0, log
    assert "stopped after" in log
    assert "KeyboardInterrupt" not in log
    assert "weft.errors" not in log
    assert 0 <= committed(tmp_path) < 5
    make_session(tmp_path).run()
    assert found(tmp_path) == expected(tmp_path)


# -------------------------------------------------------------------------------------------- errors


def explode(values: pa.Array) -> pa.Array:
    raise ZeroDivisionError("seven by zero")


def test_a_failing_function_of_a_query_is_named(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    s = weft.Session(tmp_path / "checkpoint", workers=2)
    s.stream("a", weft.read.parquet(tmp_path / "a"))
    s.stream("b", weft.read.parquet(tmp_path / "b"))
    s.function("boom", explode)
    s.query("q", PAIR + " AND boom(a.id + b.id)").to_parquet(tmp_path / "out")
    with pytest.raises(weft.WeftError, match='function "boom" failed: ZeroDivisionError: seven by zero') as caught:
        s.run()
    _is_readable(caught.value)
    assert "explode" in str(caught.value.detail)
    assert answer(tmp_path / "out") == {}


def test_a_failing_foreach_function_is_named_and_its_batch_comes_again(tmp_path: Path) -> None:
    for i in range(2):
        drop(tmp_path / "a", f"{i}.parquet", rows((i, 1)))
        drop(tmp_path / "b", f"{i}.parquet", rows((10 + i, 1)))
    got: list[tuple[int, int]] = []

    def fragile(df: Any, batch: int) -> None:
        got.append((batch, df.count()))
        if got == [(0, 1), (1, 3)]:
            raise LookupError("the database is away")

    s = pair_session(tmp_path)
    s.queries["q"].foreach_batch(fragile).to_parquet(tmp_path / "out")
    with pytest.raises(
        weft.HostError, match='function of query "q" failed: LookupError: the database is away'
    ) as caught:
        s.run()
    _is_readable(caught.value)
    assert answer(tmp_path / "out") == {(0, 10): 1}
    s.run()  # the same session object
    assert got == [(0, 1), (1, 3), (1, 3)]
    assert answer(tmp_path / "out") == {(i, j): 1 for i in (0, 1) for j in (10, 11)}


def test_a_failure_in_the_background_is_raised_by_stop(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_memory()
    handle = s.start(every="100 milliseconds")
    _wait(handle, lambda: handle.progress() is not None)
    drop(tmp_path / "b", "0.parquet", table(id=[1]))
    _await_end()
    with pytest.raises(weft.SourceError, match=r'column "k" of stream "b" is missing.*0\.parquet'):
        handle.stop()
    assert handle.report().rows_in == {"a": 1, "b": 0}


def test_a_result_folder_that_vanishes_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(lambda *_: shutil.rmtree(tmp_path / "out"))
    with pytest.raises(weft.SinkError, match=r"results cannot be put into folder .*/out") as caught:
        s.run()
    _is_readable(caught.value)
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    assert answer(tmp_path / "out") == {(1, 2): 1}


def test_a_memory_sink_is_not_doubled_by_a_second_attempt(tmp_path: Path) -> None:
    from weft.host.crash import CrashPoint

    drop(tmp_path / "a", "0.parquet", rows((1, 1)))
    drop(tmp_path / "b", "0.parquet", rows((2, 1)))
    s = pair_session(tmp_path)
    q = s.queries["q"].to_memory()
    s.crash_point = CrashPoint("publish", 0)
    with pytest.raises(weft.HostError, match="crash point reached: publish"):
        s.run()
    s.crash_point = None
    s.run()
    assert answer(q.table()) == {(1, 2): 1}


def _is_readable(error: weft.WeftError) -> None:
    assert error.detail
    assert error.hint
    assert not NO_TRACE.search(str(error)), str(error)


def _wait(handle: weft.Handle, done: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for something that a run does."""
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "nothing happens"
        assert not handle.wait(0.05), "the run has ended"


def _await_end(seconds: float = 60) -> None:
    """Wait for the end of a run over files, and leave what it came to for others to ask."""
    for thread in threading.enumerate():
        if thread.name == "weft":
            thread.join(seconds)
            assert not thread.is_alive(), "the run goes on"


class Gate:
    """A lock that tells when another thread waits for it."""

    def __init__(self, lock: Any) -> None:
        self._lock, self._maker, self.awaited = lock, threading.get_ident(), threading.Event()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            if threading.get_ident() != self._maker:
                self.awaited.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


# ---------------------------------------------------------------------------------- ends, of whatever kind


def _many(root: Path, n: int = 30) -> None:
    drop(root / "b", "0.parquet", rows((100, 1)))
    for i in range(n):
        drop(root / "a", f"{i:02d}.parquet", rows((i, 1)))


def test_an_interrupted_wait_does_not_let_the_checkpoint_go(tmp_path: Path) -> None:
    """The run goes on, so nobody else may have the checkpoint; a stop stops it, and another run takes it up."""
    _many(tmp_path)
    s = pair_session(tmp_path)
    waiting, looked = threading.Event(), threading.Event()

    def interrupt(_df: Any, batch: int) -> None:
        """The second batch interrupts the wait, goes on until that was looked at, and is the last."""
        if batch == 1:
            assert waiting.wait(60)
            os.kill(os.getpid(), signal.SIGINT)
            assert looked.wait(60)
            s.close()

    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark's own would end the batch as well
    handle = s.start(every="1 millisecond")

    def wait() -> None:
        waiting.set()
        handle.wait(60)

    try:
        with pytest.raises(KeyboardInterrupt):
            wait()
    finally:
        signal.signal(signal.SIGINT, before)
    assert handle.active
    with pytest.raises(weft.PlanError, match="already running"):
        s.start()
    with pytest.raises(weft.StateError, match="is in use"):
        pair_run(tmp_path)
    looked.set()
    assert len(handle.stop().batches) == 2
    assert not handle.active
    assert len(s.run().batches) == 28
    assert handle.report().count == 2
    assert answer(tmp_path / "out") == {(i, 100): 1 for i in range(30)}


def pair_run(root: Path) -> weft.RunReport:
    s = pair_session(root)
    s.queries["q"].to_memory()
    return s.run()


def test_waiting_and_stopping_threads_let_the_checkpoint_go_once(tmp_path: Path) -> None:
    _many(tmp_path, 60)
    for turn in range(5):
        drop(tmp_path / "a", f"more-{turn}.parquet", rows((100 + turn, 1)))  # there is a batch in every turn
        s = pair_session(tmp_path)
        s.queries["q"].to_parquet(tmp_path / "out")
        first = s.start(every="1 millisecond")
        failed: list[BaseException] = []

        def wait(first: weft.Handle = first, failed: list[BaseException] = failed) -> None:
            try:
                first.wait()
            except BaseException as error:  # noqa: BLE001 - told below
                failed.append(error)

        waiting = [threading.Thread(target=wait) for _ in range(4)]
        for thread in waiting:
            thread.start()
        _wait(first, lambda first=first: first.progress() is not None)
        first.stop()
        second = s.start(every="1 millisecond")
        for thread in waiting:
            thread.join()
        assert not failed
        with pytest.raises(weft.StateError, match="is in use"):
            pair_run(tmp_path)
        second.stop()


@pytest.mark.parametrize("kind", ["files", "frame"])
def test_a_function_that_leaves_is_a_failure_and_one_that_stops_stops(tmp_path: Path, kind: str) -> None:
    _many(tmp_path, 4)
    s = pair_session(tmp_path, kind=kind)
    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(lambda _df, _batch: sys.exit(3))
    with pytest.raises(weft.HostError, match='function of query "q" failed: SystemExit'):
        s.run()
    s = pair_session(tmp_path, kind=kind)
    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(lambda _df, _batch: s.close())
    assert len(s.run().batches) == 1
    handle = s.start(every="10 milliseconds")
    report = handle.wait(60)
    assert report is not None, "nobody else stops it"
    assert report.count == 1
    s = pair_session(tmp_path, kind=kind)
    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(lambda _df, _batch: None)
    # Spark's file source may have taken a file into its own log when it was stopped; that one comes with the next
    assert len(s.run().batches) in ((2,) if kind == "files" else (1, 2))
    assert answer(tmp_path / "out") == {(i, 100): 1 for i in range(4)}


def test_a_failure_in_the_background_is_told_before_another_run(tmp_path: Path) -> None:
    _many(tmp_path, 2)
    s = pair_session(tmp_path)
    broken = True

    def function(_df: Any, _batch: int) -> None:
        assert not broken, "out of luck"

    s.queries["q"].to_parquet(tmp_path / "out").foreach_batch(function)
    handle = s.start(every="1 millisecond")
    _await_end()
    assert not handle.active
    with pytest.raises(weft.HostError, match="out of luck"):
        s.run()
    broken = False
    assert len(s.run().batches) == 2


@pytest.mark.parametrize("name", ["c[1]", "c{a,b}", "c*", "c\\x", "c ü'"])
def test_functions_get_results_wherever_the_checkpoint_lies(tmp_path: Path, name: str) -> None:
    _many(tmp_path / name, 1)
    seen: list[Any] = []
    s = pair_session(tmp_path / name)
    s.queries["q"].foreach_batch(lambda df, _batch: seen.extend(tuple(row) for row in df.collect()))
    s.run()
    assert seen == [(0, 100)]


def test_a_restored_checkpoint_does_not_double_results(tmp_path: Path) -> None:
    _many(tmp_path, 1)
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    s.run()
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "backup")
    _many(tmp_path, 3)
    s.run()
    shutil.rmtree(tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "backup", tmp_path / "checkpoint")
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out")
    with pytest.raises(weft.SinkError, match="does not know"):
        s.run()
    for path in (tmp_path / "out").glob("0*"):
        if int(path.name[:12]) > 0:
            path.unlink()
    s.run()
    assert answer(tmp_path / "out") == {(i, 100): 1 for i in range(3)}


def test_small_result_files_are_merged_while_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (merging, parquet):
        monkeypatch.setattr(module, "MANY", 6)
    _many(tmp_path, 24)
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out").to_parquet(tmp_path / "apart", merge=False)
    assert s.run().count == 24
    wanted = {(i, 100): 1 for i in range(24)}
    assert answer(tmp_path / "out") == answer(tmp_path / "apart") == wanted
    names = [file.name for file in (tmp_path / "out").glob("0*.parquet")]
    assert len(names) < 12 < len(list((tmp_path / "apart").glob("0*.parquet")))
    assert any("-m1-" in name for name in names)
    drop(tmp_path / "a", "more.parquet", rows((24, 1)))
    s = pair_session(tmp_path)
    s.queries["q"].to_parquet(tmp_path / "out").to_parquet(tmp_path / "apart", merge=False)
    s.run()
    assert answer(tmp_path / "out") == answer(tmp_path / "apart") == wanted | {(24, 100): 1}
