"""What objects show of themselves in a REPL: one to ten lines, in plain words."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.observe.live import LiveLine
from weft.observe.progress import Progress
from weft.observe.report import Tally
from weft.session.run import Journal, Watch

ROWS = pa.table({f"c{i}": [1] for i in range(9)})


def many(root: Path, count: int = 7) -> weft.Session:
    s = weft.Session(root / "state", workers=2)
    for i in range(count):
        s.stream(f"s{i}", weft.read.batches([ROWS]), event_time="c0", lateness="10 seconds")
    s.table("t", weft.read.batches([ROWS]))
    for i in range(count):
        s.query(f"q{i}", f"SELECT a.c0 FROM s{i} a JOIN t b ON a.c1 = b.c1").to_memory()
    s.queries["q0"].to_parquet(root / "out").foreach_batch(print)
    return s


def progress(at: int = 3) -> Progress:
    return Progress(at, 0.5, 10, 1000, 1, None, weft.Counters(rows_in={"s0": 5}, results={"q0": 2}))


def shown(root: Path) -> dict[str, str]:
    s = many(root)
    journal = Journal(LiveLine(False), Watch(lambda: 2, lambda _workers, _load: None))
    journal.note(progress())
    tally = Tally()
    tally.add(progress())
    handle = weft.Handle(s.checkpoint, None, journal, None)  # type: ignore[arg-type]
    handle._ended = 1.0
    known = weft.Statistics({f"s{i}": 10.0 for i in range(9)}, selectivities={("a", "b"): 0.5})
    plan = weft.Plan([("a", "b")], orders={"c": [("a", "b")]}, placement={"c": "c.k", "a": None}, parallelism={"c": 1})
    found = [
        s,
        s.queries["q0"],
        s.queries["q1"],
        s.streams["s0"],
        s.streams["t"],
        progress(),
        tally.report(1.0),
        handle,
    ]
    return {f"{type(one).__name__} {i}": repr(one) for i, one in enumerate([*found, known, plan])}


def test_everything_is_one_to_ten_lines_without_private_names(tmp_path: Path) -> None:
    for name, text in shown(tmp_path).items():
        lines = text.splitlines()
        assert 1 <= len(lines) <= 10, f"{name}: {text}"
        assert max(map(len, lines)) < 240, text
        assert not re.search(r"\b_[a-z]|0x[0-9a-f]{6}|object at", text), text


def test_a_session_names_its_streams_and_queries(tmp_path: Path) -> None:
    text = repr(many(tmp_path, 5))
    assert text.splitlines()[0] == f"<session, checkpoint {tmp_path / 'state'}, not running>"
    assert "  <stream s0: c0 int64, c1 int64, c2 int64, c3 int64, c4 int64, c5 int64 and 3 more columns; " in text
    assert "event time c0, up to 10 seconds late>" in text
    assert f"<query q0: s0 a, t b; kept in memory, into {tmp_path / 'out'}, handed to print>" in text
    assert text.endswith("  and 2 more queries")


def test_progress_report_and_run(tmp_path: Path) -> None:
    found = shown(tmp_path)
    assert found["Progress 5"].startswith("<batch 3  5 rows in  2 results  0.50 s")
    assert found["RunReport 6"].startswith("done: 1 batch, 5 rows in, 2 results, 1.0 s")
    assert found["Handle 7"].startswith("<run, ended: 1 batch, 5 rows in, 2 results>\n  batch 3")


def test_a_plan_shows_the_code_that_makes_it() -> None:
    plans = [
        weft.Plan([("a", "b")], orders={"c": [("a", "b")]}, placement={"c": "c.k", "a": None}, parallelism={"c": 1}),
        weft.Plan(spread={"a": [(2, "a.k")], "b": [(2, "b.k")]}),
        weft.Plan(lines=[(("a", "b"), "a", [("b", "b.k")]), (("a", "b"), "b", [("a", None)])]),
        weft.Plan(),
    ]
    for plan in plans:
        assert eval(repr(plan), {"weft": weft}) == plan


@pytest.mark.parametrize("stage", ["parsed", "topology"])
def test_explain_reads_the_same_printed_and_in_a_repl(tmp_path: Path, stage: str) -> None:
    text = many(tmp_path, 2).explain(stage)
    assert repr(text) == str(text).rstrip("\n")
    assert text == str(text)
    assert isinstance(text, str)
