"""What Weft says through logging: one line a batch, with its numbers, for people and for programs."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.console.command import say_logs
from weft.observe.counters import Counters
from weft.observe.logs import Log, show_logs
from weft.observe.notice import Notice
from weft.observe.progress import Progress

BATCH = Progress(3, 0.25, 10, 1000, 2, None, Counters(rows_in={"a": 5, "b": 1}, results={"q": 2}, late={"a": 1}))


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("weft")
    before = (found.handlers[:], found.level, found.propagate)
    yield found
    found.handlers[:], found.level, found.propagate = before


def follow(log: Log) -> None:
    log.begin(1.0)
    log.note(BATCH)
    log.tell(Notice("uneven-load", "m", "d", "h", "a"))
    log.tell(Notice("plan-changed", "m", "d", "h", "a"))
    log.end("stopped", None)


def test_each_event_is_one_line_of_json_with_its_numbers(tmp_path: Path) -> None:
    out = io.StringIO()
    show_logs("json", out)
    follow(Log(tmp_path))
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["start", "batch", "notice", "notice", "end"]
    assert [line["level"] for line in lines] == ["info", "info", "warning", "info", "info"]
    batch = lines[1]
    assert (batch["batch"], batch["rows_in"], batch["results"], batch["late"]) == (3, 6, 2, 1)
    assert (batch["state_rows"], batch["results_by_query"], batch["logger"]) == (10, {"q": 2}, "weft.run")


def test_text_is_the_line_of_the_batch(tmp_path: Path) -> None:
    out = io.StringIO()
    show_logs("text", out)
    show_logs("text", out)  # the second replaces the first
    Log(tmp_path).note(BATCH)
    [line] = out.getvalue().splitlines()
    assert "INFO    batch 3  6 rows in  2 results" in line


def test_a_failed_run_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Log(tmp_path).end("failed", "no room")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("ERROR", "run failed: no room")]


def test_a_batch_costs_nothing_where_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "line", lambda _: pytest.fail("the line was made"))
    logging.getLogger("weft").setLevel(logging.WARNING)
    Log(tmp_path).note(BATCH)


def test_as_a_library_it_says_nothing_by_itself() -> None:
    code = """
import logging, weft.observe.logs as logs, pathlib
log = logs.Log(pathlib.Path("x"))
log.begin(None); log.end("failed", "why")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(weft.PlanError, match="unknown"):
        say_logs("xml")
