"""A checkpoint as a run leaves it, made without Spark: the same classes write it, with numbers of the test's own."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import weft
from weft.host.state.manifest import Ledger, Manifest
from weft.host.state.segment import SegmentRef
from weft.observe.counters import Counters
from weft.observe.history import History
from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.watermark import as_time, read_watermarks
from weft.session.following import PlanKeeper
from weft.topology.model import Epoch

NOTICE = Notice("uneven-load", "worker 1 has 3 times the work", "it is so", "use another strategy", "s.options(...)")
ROWS = pa.table({"k": [1, 2], "v": [10, 20], "ts": pa.array([1, 2], pa.timestamp("us"))})


class Clock:
    """A clock that the test moves."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def declare(root: Path, queries: int = 2) -> weft.Session:
    """A session over three streams."""
    session = weft.Session(root / "state", workers=2)
    for name in "abc":
        session.stream(name, weft.read.batches([ROWS]), event_time="ts", lateness="1 second")
    for number in range(queries):
        sql = f"""
            SELECT a.v AS x, b.v AS y, c.v AS z FROM a JOIN b ON a.k = b.k JOIN c ON c.k = b.k
            WHERE a.v > {number} WITHIN INTERVAL '10' SECOND"""
        session.query(f"q{number}", sql).to_parquet(root / "out" / f"q{number}")
    return session


class Run:
    """Batches of a session, committed and noted as a run does."""

    def __init__(self, session: weft.Session, clock: Clock, every: float | None = 1.0) -> None:
        self.session, self.clock = session, clock
        self.root, self.topology = session.checkpoint.root, session.topology
        session.claim()
        self.ledger = Ledger(self.root)
        self.ledger.begin()
        self.epoch = Epoch(0, self.topology)
        work = session.work()
        self.ledger.propose(self.epoch, work.describe(Manifest()))
        self.manifest = self.ledger.last()
        self.history = History(self.root, clock)
        self.history.begin(every)
        PlanKeeper(session).begin(every)

    def batch(self, rows: int = 100, results: int = 7, *notices: Notice) -> None:
        """Commit a batch, a second after the one before."""
        self.clock.now += 1
        number = self.manifest.batch + 1
        stores, probes = self.topology.stores, self.topology.probes
        counters = Counters(
            rows_in={s.name: rows for s in self.topology.streams}, late={"a": 1}, seconds={"0": 0.1, "1": 0.2},
            results={e.query: results for e in self.topology.emits}, load={"0": rows, "1": 3 * rows},
            probed={p.id: rows for p in probes}, matched={p.id: 2 * rows for p in probes},
            stored={s.id: rows for s in stores},
        )  # fmt: skip
        refs = tuple(
            SegmentRef(f"{s.id}/{w}/{number}", s.id, w, rows * (w + 1), 1000, 0, number, number, None, None, "")
            for s in stores for w in (0, 1)
        )  # fmt: skip
        newest = {s.name: (number + 1) * 1_000_000 for s in self.topology.streams}
        totals = Counters.total([self.manifest.totals, counters])
        self.manifest = replace(self.manifest, batch=number, segments=refs, newest=newest, totals=totals)
        self.ledger.commit(self.manifest)
        marks = read_watermarks(self.topology.clocks, newest)
        self.history.note(
            Progress(
                number,
                0.25,
                sum(ref.rows for ref in refs),
                sum(ref.bytes for ref in refs),
                len(refs),
                as_time(0),
                counters,
                notices,
                marks,
                newest,
            )
        )

    def end(self, how: str = "stopped") -> None:
        """The run ends."""
        self.history.end(how, None)
        self.session.checkpoint.release()


def make_checkpoint(root: Path, queries: int = 2, batches: int = 5) -> Path:
    """A checkpoint of a run that was stopped."""
    run = Run(declare(root, queries), Clock())
    for number in range(batches):
        run.batch(100, 7, *([NOTICE] if number == 1 else []))
    run.end()
    return run.root


class Answer:
    """What a server said."""

    def __init__(self, url: str, headers: dict[str, str] | None = None, body: bytes | None = None) -> None:
        opener = urllib.request.build_opener(_Stay)
        try:
            with opener.open(urllib.request.Request(url, body, headers or {}), timeout=30) as found:
                self.status, self.text, self.headers = found.status, found.read().decode(), found.headers
        except urllib.error.HTTPError as error:
            with error:
                self.status, self.text, self.headers = error.code, error.read().decode(), error.headers


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow."""

    def redirect_request(self, *_: object) -> None:
        return None
