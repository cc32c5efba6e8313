"""Nothing that a run keeps grows with the number of its batches."""

from __future__ import annotations

import gc
import json
from dataclasses import asdict

import psutil
import pyarrow as pa

import weft
from weft.host.inprocess.run import InProcess
from weft.host.state.manifest import Manifest
from weft.observe.live import LiveLine
from weft.observe.progress import Progress
from weft.session.run import Journal, Watch
from weft.testing import Trial

BATCHES, WARM = 20_000, 4_000
"""Memory is compared between these two batches: until the first, the last batches that are kept are still few."""


def open_run() -> InProcess:
    s = weft.Session("unused", workers=1)
    for name in "ab":
        s.stream(name, weft.read.batches([table(0)]), event_time="t", lateness="2 seconds")
    s.query("q", "SELECT a.k, b.t FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '20' SECOND")
    return Trial(s).running


def table(at: int) -> pa.Table:
    return pa.table({"k": pa.array([at % 7]), "t": pa.array([at])})


def progress(run: InProcess, counters: weft.Counters) -> Progress:
    segments = run.manifest.segments
    size = sum(ref.bytes for ref in segments)
    return Progress(run.manifest.batch, 0.001, sum(ref.rows for ref in segments), size, len(segments), None, counters)


def size(manifest: Manifest) -> int:
    return len(json.dumps(asdict(manifest)))


def test_twenty_thousand_batches_in_flat_memory() -> None:
    run, watch = open_run(), Watch(lambda: 1, lambda _workers, _load: None)
    journal = Journal(LiveLine(False), watch)
    held: dict[int, int] = {}
    sizes: dict[int, int] = {}
    resident: dict[int, int] = {}
    for at in range(BATCHES):
        journal.note(progress(run, run.feed({"a": table(at), "b": table(at)})))
        run.results["q"].clear()  # whoever asked for results in memory gets them all
        if at + 1 in (WARM, BATCHES):
            gc.collect()
            held[at + 1], sizes[at + 1] = len(gc.get_objects()), size(run.manifest)
            resident[at + 1] = psutil.Process().memory_info().rss
    report = journal.report(None, stopped=False)
    assert report.count == BATCHES
    assert report.rows_in == {"a": BATCHES, "b": BATCHES}
    assert len(report.batches) == 1000
    assert [batch.batch for batch in journal.tally.recent(3)] == [BATCHES - 3, BATCHES - 2, BATCHES - 1]
    assert held[BATCHES] - held[WARM] < 2_000, "objects that Python knows: fewer than one for eight batches"
    assert resident[BATCHES] - resident[WARM] < 30_000_000, "every batch kept would be 70 MB"
    assert sizes[BATCHES] < 2 * sizes[WARM], sizes
