"""The table of `weft run --watch`: what it says, how it is cut, and what a pipe gets instead."""

from __future__ import annotations

import io

import pytest

from weft.observe.board import LiveBoard, Recent, lines
from weft.observe.counters import Counters
from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.watermark import read_watermarks
from weft.topology.clock import Clock

SECOND = 1_000_000
NINE = 1_767_258_000 * SECOND  # 2026-01-01 09:00:00


def batch(number: int, rows: int, *, behind: int = 0, notice: Notice | None = None) -> Progress:
    newest = {"orders": NINE + number * SECOND, "payments": NINE + (number - behind) * SECOND}
    clock = Clock("q", (("orders", 0), ("payments", 0)), "min", ("pairs",))
    return Progress(
        batch=number, seconds=0.25, state_rows=1234, state_bytes=56_000, segments=3, watermark=None,
        counters=Counters(rows_in={"orders": rows, "payments": 2 * rows}, results={"pairs": rows}, late={"orders": 1}),
        notices=() if notice is None else (notice,), newest=newest,
        watermarks=read_watermarks([clock], newest),
    )  # fmt: skip


def seen(*batches: Progress) -> Recent:
    recent = Recent(began=100.0)
    for number, progress in enumerate(batches):
        recent.add(progress, 101.0 + number)
    return recent


def test_before_the_first_batch_it_says_that_it_starts() -> None:
    assert lines("job.sql", Recent(100.0), 103.0, 80) == ["job.sql   starting 3 s"]


def test_table_has_rates_lag_and_state() -> None:
    shown = lines("job.sql", seen(batch(0, 10), batch(90, 30, behind=90)), 105.0, 200)
    assert shown == [
        "job.sql   running 5 s   2 batches, the last one 0.25 s",
        "stream     rows   rows/s   late   newest event          behind",
        "orders       40        8      2   2026-01-01 09:01:30   0 s",
        "payments     80       16      0   2026-01-01 09:00:00   1.5 min",
        "query   results   per s   watermark",
        "pairs        40       8   2026-01-01 09:00:00",
        "state   1,234 rows, 56 kB, 3 segments",
    ]


def test_rates_are_those_of_the_last_seconds() -> None:
    told = lines("job.sql", seen(batch(0, 10)), 150.0, 200)
    assert told[2].split()[:3] == ["orders", "10", "0"]


@pytest.mark.parametrize("width", [20, 33, 60])
def test_lines_are_cut_to_a_narrow_terminal(width: int) -> None:
    notice = Notice("held-watermark", "payments holds the watermark " * 5, "d", "h", "a")
    shown = lines("a/long/path/to/job.sql", seen(batch(0, 10, notice=notice)), 105.0, width)
    assert max(map(len, shown)) <= width
    assert shown[-1].startswith("notice")
    assert shown[-1].endswith("…")


class Terminal(io.StringIO):
    """A screen: what is left on it when all has been written."""

    def isatty(self) -> bool:
        return True

    def screen(self) -> list[str]:
        rows: list[str] = []
        at = 0
        for part in self.getvalue().replace("\x1b[J", "\x1bJ").split("\n"):
            while part.startswith("\x1bJ"):
                del rows[at:]
                part = part[2:]
            if part.startswith("\x1b[") and part.split("F")[0][2:].isdigit():
                at -= int(part.split("F")[0][2:])
                part = part.partition("F")[2]
            if part.endswith("\x1b[K"):
                rows[at : at + 1] = [part[:-3]]
                at += 1
        return rows


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("LINES", "40")
    return Terminal()


def test_board_writes_over_itself_and_stays_at_the_end(terminal: Terminal) -> None:
    now = iter(range(100, 200))
    board = LiveBoard("job.sql", terminal, now=lambda: float(next(now)), every=3600)
    board.show(batch(0, 10))
    board.show(batch(1, 20))
    board.tell(Notice("kind", "look here", "d", "h", "a"))
    board.close()
    screen = terminal.screen()
    assert screen[0].startswith("job.sql   ended ")
    assert "2 batches" in screen[0]
    assert screen[-1] == "notice  look here"
    assert sum(line.startswith("stream ") for line in screen) == 1


def test_board_never_has_more_lines_than_the_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "4")
    board = LiveBoard("job.sql", terminal, now=lambda: 100.0, every=3600)
    board.show(batch(0, 10))
    board.close()
    assert len(terminal.screen()) == 3


def test_a_pipe_gets_a_line_for_each_batch(capsys: pytest.CaptureFixture[str]) -> None:
    board = LiveBoard("job.sql", now=lambda: 100.0)
    board.show(batch(0, 10))
    board.show(batch(1, 10))
    board.close()
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert [line.split("  ")[0] for line in said.splitlines()] == ["batch 0", "batch 1"]
