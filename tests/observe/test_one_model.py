"""Counters are named in one place; what a worker, a batch, a run and a checkpoint show are views of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

import weft
from weft.host.batch import Report
from weft.observe.counters import COUNTERS, Counters, bump
from weft.observe.progress import Progress
from weft.observe.report import Tally
from weft.testing import Trial

ROOT = Path(__file__).parents[2]


def full(by: int) -> Counters:
    """One of everything."""
    return Counters(**{name: {f"{key} 1": by, f"{key} {by}": 1} for name, key in COUNTERS.items()})


def test_counters_come_back_from_json() -> None:
    assert Counters.of(json.loads(json.dumps(full(3).plain()))) == full(3)
    assert Counters().plain() == {}
    assert Counters.of({"late": {"a": 1}, "files": ["f"]}) == Counters(late={"a": 1})


def test_a_sum_has_every_counter_and_no_order() -> None:
    parts = [full(2), Counters(), full(5)]
    whole = Counters.total(parts)
    assert whole == Counters.total(reversed(parts))
    for name, key in COUNTERS.items():
        assert getattr(whole, name) == {f"{key} 1": 7, f"{key} 2": 1, f"{key} 5": 1}
    assert parts == [full(2), Counters(), full(5)], "parts stay as they were"


def test_a_report_is_counters_and_what_the_driver_acts_on() -> None:
    report, other = Report(newest={"a": 5}, files=[{"query": "q"}]), Report(newest={"a": 3, "b": 1}, removed=["s"])
    bump(other.probed, "p", 2)
    bump(other.probed, "p", 3)
    report.merge(json.loads(json.dumps(other.plain())))
    assert report.probed == {"p": 5}
    assert report.newest == {"a": 5, "b": 1}
    assert (report.files, report.removed) == ([{"query": "q"}], ["s"])
    assert Counters.total([report]) == Counters(probed={"p": 5})


def test_what_plans_that_are_gone_did_is_counted_as_one_and_no_sum_changes() -> None:
    counters = Counters(
        rows_in={"a": 9}, stored={"s1": 3, "s2": 4, "s3": 5}, probed={"p1": 6, "p2": 7}, results={"q": 2},
        sent={"a>s1": 8, "a>s2": 9, "p1": 1, "p2": 2}, routed={"a>s1": 4, "a>s2": 5, "p1": 1, "p2": 1}, load={"0": 7},
    )  # fmt: skip
    found = counters.fold({"s1", "p1", "a>s1"})
    assert found.stored == {"s1": 3, "gone": 9}
    assert found.sent == {"a>s1": 8, "gone>": 9, "p1": 1, "gone": 2}
    assert (found.rows_in, found.results, found.load) == (counters.rows_in, counters.results, counters.load)
    for name in ("tuples_stored", "tuples_sent", "replication_factor", "network_factor"):
        assert getattr(found, name) == getattr(counters, name), name
    assert found.fold(()).fold(()) == found.fold(())


def test_progress_and_report_are_views_of_counters() -> None:
    batches = [Progress(i, 1.0, 0, 0, 0, None, Counters.of({**full(i).plain(), "seconds": {"0": 0.5}})) for i in (2, 4)]
    tally = Tally()
    for batch in batches:
        tally.add(batch)
    report = tally.report(2.0)
    assert report.counters == Counters.total(batch.counters for batch in batches)
    for shown, name in (("rows_in", "rows_in"), ("rows_out", "results"), ("late", "late"), ("untimed", "untimed")):
        assert getattr(batches[0], shown) == getattr(batches[0].counters, name)
        assert getattr(report, shown) == getattr(report.counters, name)
    assert batches[0].wave_seconds == {0: 0.5}


def test_a_checkpoint_keeps_the_sum_of_all_batches(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2, 3]})
    s = weft.Session("unused", workers=2)
    for name in "ab":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", "SELECT a.k FROM a, b WHERE a.k = b.k")
    trial = Trial(s, state=tmp_path)
    trial.feed({"a": rows})
    trial.feed({"b": rows})
    again = Trial(s, state=tmp_path).manifest
    assert again == trial.manifest
    assert again.totals == trial.counters
    assert again.measured is not None
    assert (again.measured.batches, again.measured.counters) == (2, trial.counters)
    assert again.held == trial.state_rows == {store.id: 3 for store in trial.topology.stores}
    assert again.observed.rows("a") == 3


def test_the_docs_name_every_counter_and_what_it_is_counted_by() -> None:
    table = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| ([^|]+) \|", (ROOT / "docs/plans.md").read_text(), re.MULTILINE)
    named = {name: by for names, by in table for name in re.findall(r"`(\w+)`", names)}
    nodes = {"node": ("edge, probe, keep", "probe")}
    assert named.keys() == COUNTERS.keys()
    assert all(named[name] in nodes.get(by, (by,)) for name, by in COUNTERS.items())


def test_counters_need_the_standard_library_only() -> None:
    """Every worker loads them."""
    code = "import sys, weft.observe.counters; print(*{m.split('.')[0] for m in sys.modules} & {'numpy', 'pyarrow'})"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []
    code = "import sys, weft.observe.counters; print(*sorted(m for m in sys.modules if m.startswith('weft.')))"
    loaded = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == ["weft.observe", "weft.observe.counters"]
