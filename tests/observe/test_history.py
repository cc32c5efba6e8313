"""The history of a checkpoint: bounded, never wrong, readable at any moment."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.observe import history
from weft.observe.counters import Counters
from weft.observe.history import DAY, History, Tail, history_file, is_alive, parse, read, shrink
from weft.observe.notice import Notice
from weft.observe.point import Point
from weft.observe.progress import Progress


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def batch(number: int, rows: int = 10, nodes: int = 2) -> Progress:
    counters = Counters(
        rows_in={"a": rows}, results={"q": 1}, load={"0": rows}, probed={f"p{i}": 1 for i in range(nodes)}
    )
    return Progress(number, 0.1, 5, 500, 1, None, counters)


def write(root: Path, batches: int, every: float = 1.0, nodes: int = 2) -> Clock:
    clock = Clock()
    made = History(root, clock)
    made.begin(every)
    for number in range(batches):
        clock.now += every
        made.note(batch(number, nodes=nodes))
    made.end("stopped", None)
    return clock


def test_every_batch_is_a_line_and_says_what_it_did(tmp_path: Path) -> None:
    write(tmp_path, 3)
    start, *points, end = read(history_file(tmp_path))
    assert (start["is"], start["pid"], end["how"]) == ("start", os.getpid(), "stopped")
    assert [point["batch"] for point in points] == [0, 1, 2]
    assert all(point["rows"] == {"a": 10} and point["until"] - point["since"] == 1 for point in points)


def test_notices_are_kept_with_their_cure(tmp_path: Path) -> None:
    History(tmp_path).tell(Notice("skew", "m", "d", "h", "a"))
    [line] = read(history_file(tmp_path))
    assert (line["kind"], line["hint"], line["action"]) == ("skew", "h", "a")


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=60), st.floats(0.1, 5000), st.sampled_from([1, 4000, 10**7]))
def test_shrinking_loses_no_row_of_the_last_two_weeks(rows: list[int], step: float, limit: int) -> None:
    points = [
        {"is": "point", **Point(i * step, (i + 1) * step, i, 1, 0.1, 0.1, i, i, 1, rows={"a": n}).plain()}
        for i, n in enumerate(rows)
    ]
    now = len(rows) * step
    young = [line for line in points if now - line["until"] <= 14 * DAY]
    left = [Point.of(line) for line in shrink(points, now, limit)]
    assert sum(point.rows["a"] for point in left) == sum(line["rows"]["a"] for line in young)
    assert sum(point.batches for point in left) == len(young)
    assert [point.until for point in left] == sorted(point.until for point in left)
    assert left[-1].state_rows == len(rows) - 1
    assert all(one.until <= next_.since + 1e-6 for one, next_ in itertools.pairwise(left))


def test_two_weeks_stay_small(tmp_path: Path) -> None:
    two_weeks = 14 * DAY
    points = (
        {"is": "point", **Point(t, t + 30.0, t, 1, 0.1, 0.1, 1, 1, 1, rows={"a": 1}).plain()}
        for t in range(0, int(two_weeks), 30)
    )
    left = shrink(points, two_weeks)
    assert len(left) < 6000
    assert sum(line["rows"]["a"] for line in left) == int(two_weeks / 30)


def test_points_of_two_runs_are_never_added_up() -> None:
    lines = [
        {"is": "start", "at": 0.0}, {"is": "point", **Point(0, 1, 0, 1, 1, 1, 0, 0, 0).plain()},
        {"is": "start", "at": 2.0}, {"is": "point", **Point(2, 3, 1, 1, 1, 1, 0, 0, 0).plain()},
    ]  # fmt: skip
    left = shrink(lines, 5 * DAY)
    assert [line["is"] for line in left] == ["start", "point", "start", "point"]


def test_what_is_older_than_two_weeks_goes() -> None:
    old = {"is": "point", **Point(0, 1, 0, 1, 1, 1, 0, 0, 0).plain()}
    assert shrink([old], 14 * DAY + 2) == []


def test_the_file_is_bounded_however_much_a_batch_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "LIMIT", 200_000)
    monkeypatch.setattr(history.shrink, "__defaults__", (100_000,))
    write(tmp_path, 400, nodes=200)
    assert history_file(tmp_path).stat().st_size < 210_000
    points = [line for line in read(history_file(tmp_path)) if line["is"] == "point"]
    assert sum(point["batches"] for point in points) == 400
    assert points[-1]["nodes"]["probed"]["p7"] == 1


def test_a_cut_line_is_skipped_and_the_next_run_begins_a_new_one(tmp_path: Path) -> None:
    write(tmp_path, 2)
    with history_file(tmp_path).open("ab") as file:
        file.write(b'{"is":"point","batch":7')
    assert len(read(history_file(tmp_path))) == 4
    write(tmp_path, 1)
    assert [line["is"] for line in read(history_file(tmp_path))] == [
        "start",
        "point",
        "point",
        "end",
        "start",
        "point",
        "end",
    ]


def test_a_reader_that_follows_gets_every_line_once(tmp_path: Path) -> None:
    tail, clock = Tail(history_file(tmp_path)), Clock()
    assert tail.read() == (False, [])
    made = History(tmp_path, clock)
    made.begin(None)
    assert [line["is"] for line in parse(tail.read()[1])] == ["start"]
    made.note(batch(0))
    made.note(batch(1))
    assert [line["batch"] for line in parse(tail.read()[1])] == [0, 1]
    assert tail.read() == (False, [])
    made._shrink()
    anew, lines = tail.read()
    assert anew
    assert [line["is"] for line in parse(lines)] == ["start", "point", "point"]


def test_a_history_that_cannot_be_written_ends_no_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "history").write_text("in the way")
    made = History(tmp_path)
    made.begin(None)
    made.note(batch(0))
    assert [record.name for record in caplog.records] == ["weft.history"]


def test_a_process_that_has_ended_is_not_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        _judge(child)


def _judge(child: subprocess.Popen[bytes]) -> None:
    line = {"pid": child.pid, "born": history.born(child.pid), "host": history.socket.gethostname()}
    assert is_alive(line)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, but not reaped
    assert not is_alive(line)
    child.wait()
    assert not is_alive(line)
    assert is_alive({**line, "host": "elsewhere"}) is None


def test_a_line_is_small(tmp_path: Path) -> None:
    write(tmp_path, 1)
    assert len(json.dumps(read(history_file(tmp_path))[1])) < 600
