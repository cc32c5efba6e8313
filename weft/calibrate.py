"""Measures what the parts of a micro-batch cost on this machine, by running them.

Each price is a slope: two runs differ in one thing only, such as the number of tuples that are sent, probe or match.
The price is the difference of their times divided by the difference of their counts.  The two runs take turns, so that
a machine that slows down slows both, and the median over all turns counts.

    stored, probed, checked, matched    a worker in this process, over state in files as on Spark
    emitted                             the writer of the Parquet sink
    batch, wave, sent                   chains of four streams on Spark, in one wave and in three

What must hold: a plan is measured only if it has the waves that the measurement is about.  If noise is larger than the
price, more turns are taken.  If that does not help, the measurement is refused: a wrong price is worse than the
default one.

Rejected: one regression over all counters of mixed joins.  It needs fewer runs, but `probed` and `matched` rise and
fall together in most of them, and the error of a large price spoils a small one.
"""

from __future__ import annotations

import datetime
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from weft import read
from weft.errors import HostError, InternalError
from weft.host.batch import Batch, Report
from weft.host.inprocess.run import InProcess
from weft.host.results.staged import StagedResults
from weft.host.state.manifest import FileState, Ledger
from weft.host.state.place import Place
from weft.kernels.codes import Ints
from weft.observe.progress import Progress
from weft.optimizer.cost.prices import NAMES, Prices
from weft.session import Session

Say = Callable[[str], None]

SEED = 7
ROUNDS = 3
"""How many rounds of turns a measurement gets before noise makes it fail."""
BUSY = 0.5
"""Load of the machine above which other programs disturb the measurement."""
PATIENCE = 20.0
"""Seconds without a batch after which it is checked whether a run on Spark is still alive."""

STREAMS = ("a", "b", "c", "d")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("m", pa.int64()),
        ("p", pa.int64()),
        ("v", pa.float64()),
        ("s", pa.string()),
    ]
)
FIVE = "SELECT a.id, a.v, b.id AS id2, b.v AS v2, b.s"
"""Five columns, one of them a string: the columns of a match and of a result."""
PAIR = f"{FIVE} FROM a JOIN b ON a.k = b.k"
RESIDUAL = f"{PAIR} AND a.v + 2 < b.v"
"""Its residual is never true."""
LOOP = f"{FIVE} FROM a JOIN b ON a.k <> b.k"
THREE = "SELECT a.id, a.v, b.id AS id2, b.s, c.v AS v2 FROM a JOIN b ON a.k = b.k JOIN c ON c.m = b.m"

PROBES = 10_000
"""Tuples that arrive in a batch that is measured."""
FAN = 32
"""Matches of each of these tuples: so the measured work is many times the work of arriving and storing."""
SEGMENTS = 4
"""Segments of a store that is probed: about halfway between none and the eight that are merged."""
STORED = 800_000
"""Rows of the store that is probed when `probed` is measured."""
KEPT = 64
"""Batches when `stored` is measured: each row is written once and merged twice."""

WHAT = {
    "wave": "each further wave of a batch",
    "batch": "a batch of one wave",
    "sent": "a tuple sent to a worker",
    "probed": "a tuple looked up in a store",
    "checked": "a pair checked",
    "matched": "a match made",
    "stored": "a tuple stored",
    "emitted": "a result written",
}


def measure(*, say: Say, today: datetime.date, quick: bool = False) -> Prices:
    """Measure all prices in about a minute; `quick` takes half of it, with more noise.  `say` gets progress lines."""
    found: dict[str, float] = {}
    if (load := os.getloadavg()[0]) > BUSY:
        say(f"the machine is busy (load {load:.1f}): prices will be too high")
    with tempfile.TemporaryDirectory(prefix="weft-calibrate-", ignore_cleanup_errors=True) as folder:
        local = _Local(Path(folder), np.random.default_rng(SEED), turns=3 if quick else 11)
        for name, take in local.measures.items():
            began = time.perf_counter()
            found[name] = take()
            say(f"{name:<8} {show(found[name]):>9}   {WHAT[name]} ({time.perf_counter() - began:.1f} s)")
        found |= _Chains(Path(folder), np.random.default_rng(SEED), say).measure(
            turns=2 if quick else 8, rounds=1 if quick else 2
        )
    rounded = {name: float(f"{found[name]:.3g}") for name in NAMES}
    return Prices(**rounded, source=f"calibrated on {today.isoformat()}")


def compare(prices: Prices, shipped: Prices) -> str:
    """Both prices as a table, with the ratio of the first to the second."""
    lines = [f"{'price':<8} {'here':>10} {'shipped':>10} {'ratio':>7}"]
    for name in NAMES:
        mine, theirs = getattr(prices, name), getattr(shipped, name)
        lines.append(f"{name:<8} {show(mine):>10} {show(theirs):>10} {mine / theirs:>7.2f}   {WHAT[name]}")
    return "\n".join(lines)


def show(seconds: float) -> str:
    """Seconds in the unit that suits them."""
    scale, unit = next(((s, u) for s, u in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")) if abs(seconds) >= s), (1e-9, "ns"))
    return f"{seconds / scale:#.3g}".rstrip(".") + f" {unit}"


def slope(name: str, less: Callable[[], float], more: Callable[[], float], work: int, turns: int) -> float:
    """Seconds per unit of work.  `more` does `work` units more than `less`; both return their seconds."""
    more(), less()  # the first run is slower than the others
    pairs: list[float] = []
    for _ in range(ROUNDS):
        pairs += [more() - less() for _ in range(turns)]
        if (middle := statistics.median(pairs)) > 0:
            return middle / work
    raise lost_in_noise(name, middle / work)


def lost_in_noise(name: str, price: float) -> HostError:
    """The error of a measurement whose result cannot be right."""
    return HostError(
        f'the price "{name}" could not be measured',
        detail=f"the result is {show(price)}, so other programs kept the machine busy.",
        hint="try again when the machine is idle.",
    )


# ---------------------------------------------------------------------------------------- in this process


def table(k: Ints, m: Ints | None = None, *, dice: np.random.Generator) -> pa.Table:
    """Rows with these keys."""
    count = len(k)
    names = pa.array([f"name {i:06d}" for i in range(1_000)])
    m = k if m is None else m
    columns = [np.arange(count), k, m, m, dice.random(count), names.take(pa.array(dice.integers(0, 1_000, count)))]
    return pa.table([pa.array(column) for column in columns], schema=SCHEMA)


def pieces(rows: pa.Table, count: int) -> list[pa.Table]:
    """The rows, cut into `count` equal parts."""
    step = -(-rows.num_rows // count)
    return [rows.slice(start, step) for start in range(0, rows.num_rows, step)]


class _Local:
    """The measurements that need no Spark."""

    def __init__(self, folder: Path, dice: np.random.Generator, turns: int) -> None:
        self.folder, self.dice, self.turns = folder, dice, turns
        self.runs = itertools.count()
        keys = np.arange(PROBES)
        self.hits, self.misses = self.table(keys), self.table(keys + PROBES)
        self.partners = self.table(dice.permutation(np.repeat(keys, FAN)), dice.integers(0, STORED, PROBES * FAN))

    @property
    def measures(self) -> dict[str, Callable[[], float]]:
        return {
            "stored": self.measure_stored,
            "probed": self.measure_probed,
            "checked": self.measure_checked,
            "matched": self.measure_matched,
            "emitted": self.measure_emitted,
        }

    def measure_stored(self) -> float:
        few, many = 1_000, 20_000
        rows = self.table(self.dice.permutation(KEPT * many))

        def keep(size: int) -> float:
            run = self.run(PAIR)
            return sum(_worker_seconds(run.feed({"b": part.slice(0, size)})) for part in pieces(rows, KEPT))

        return slope("stored", lambda: keep(few), lambda: keep(many), KEPT * (many - few), -(-self.turns // 4))

    def measure_probed(self) -> float:
        partners = [{"b": part} for part in pieces(self.partners, SEGMENTS)]
        others = self.table(self.dice.permutation(STORED) + STORED)  # no tuple matches them
        empty, full = (self.run(THREE, *partners, *({"c": c} for c in found))
                       for found in ([], pieces(others, SEGMENTS)))  # fmt: skip
        return slope("probed", self.hit(empty), self.hit(full), PROBES * FAN, self.turns)

    def measure_checked(self) -> float:
        run = self.run(RESIDUAL, *({"b": part} for part in pieces(self.partners, SEGMENTS)))
        candidates = slope("checked", self.miss(run), self.hit(run), PROBES * FAN, self.turns)
        few, many = (self.run(LOOP, {"b": self.table(np.zeros(n, np.int64))}) for n in (100, 1_100))
        arrivals = self.table(np.zeros(1_000, np.int64))
        met = slope("checked", _feed(few, arrivals), _feed(many, arrivals), 1_000 * 1_000, self.turns)
        return (candidates + met) / 2

    def measure_matched(self) -> float:
        run = self.run(PAIR, *({"b": part} for part in pieces(self.partners, SEGMENTS)))
        return slope("matched", self.miss(run), self.hit(run), PROBES * FAN, self.turns)

    def measure_emitted(self) -> float:
        run = self.run(PAIR, {"b": self.partners}, {"a": self.hits})
        results = run.table("q").to_batches()

        def write(times: int) -> float:
            began = time.perf_counter()
            sink = StagedResults(Place(str(self.folder)), "results", Batch(0, {}, {}), 0, 1, run.topology)
            for rows in results * times:
                sink.write("q", rows)
            sink.close()
            return time.perf_counter() - began

        return slope("emitted", lambda: write(1), lambda: write(3), 2 * PROBES * FAN, self.turns)

    def hit(self, run: InProcess) -> Callable[[], float]:
        return _feed(run, self.hits)

    def miss(self, run: InProcess) -> Callable[[], float]:
        return _feed(run, self.misses)

    def run(self, sql: str, *batches: Mapping[str, pa.Table]) -> InProcess:
        """A join on one worker, after these batches."""
        folder = self.folder / f"local-{next(self.runs)}"
        session = Session(folder / "checkpoint", workers=1)
        for name in STREAMS:
            session.stream(name, read.batches([SCHEMA.empty_table()]))
        session.query("q", sql, strategy="flat")
        ledger = Ledger(folder)
        ledger.begin()
        run = InProcess(session.topology, {}, FileState(str(ledger.segments), str(ledger.notes)))
        for tables in batches:
            run.feed(tables)
        return run

    def table(self, k: Ints, m: Ints | None = None) -> pa.Table:
        return table(k, m, dice=self.dice)


def _feed(run: InProcess, rows: pa.Table) -> Callable[[], float]:
    def feed() -> float:
        run.results["q"].clear()  # as on Spark: results do not pile up, and their memory is reused
        return _worker_seconds(run.feed({"a": rows}))

    return feed


def _worker_seconds(report: Report) -> float:
    """Seconds of the worker, without reading the input."""
    return sum(seconds for wave, seconds in report.seconds.items() if wave != "0")


# ----------------------------------------------------------------------------------------------- on Spark


@dataclass
class _Times:
    """Seconds of the batches of one plan, over all its runs."""

    small: list[float] = field(default_factory=list)
    large: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    """Seconds between small batches, outside of Weft's own work."""


class _Chains:
    """a - b - c - d on Spark: every tuple of a finds FAN partners in b, each of these one in c, and that none in d.

    If all steps use one key, all partners are on the same worker.  If each step has a key of its own, the same tuples
    are sent before they probe c, and again before they probe d.
    """

    PLANS: Mapping[int, Sequence[str]] = {1: "kkk", 3: "kmp"}
    """Waves -> the key of each step."""
    KEYS = 10_000
    FAN = 64
    FEW = 10

    def __init__(self, folder: Path, dice: np.random.Generator, say: Say) -> None:
        self.folder, self.dice, self.say = folder, dice, say
        self.workers = max(2, os.cpu_count() or 1)
        self.cores = min(self.workers, os.cpu_count() or 1)
        self.runs = itertools.count()
        keys = np.arange(self.KEYS)
        fan = [dice.permutation(self.KEYS) for _ in range(self.FAN)]
        self.stores = {
            "b": table(np.tile(keys, self.FAN), np.concatenate(fan), dice=dice),
            "c": table(keys, dice=dice),
            "d": table(keys + self.KEYS, dice=dice),
        }

    def measure(self, turns: int, rounds: int) -> dict[str, float]:
        """The prices, from `rounds` rounds over all plans; each run has `turns` small and large batches."""
        self.say("starting Spark")
        self.run(3, turns=1)
        times = {waves: _Times() for waves in self.PLANS}
        for round_ in range(rounds * ROUNDS):
            for waves in sorted(self.PLANS, reverse=round_ % 2 == 1):
                self.add(times[waves], waves, turns)
            found = self.prices(times)
            if round_ >= rounds - 1 and min(found.values()) > 0:
                break
        for name, price in found.items():
            self.say(f"{name:<8} {show(price):>9}   {WHAT[name]}")
            if price <= 0:
                raise lost_in_noise(name, price)
        return found

    def prices(self, times: Mapping[int, _Times]) -> dict[str, float]:
        """Fixed prices from small batches; the price of a sent tuple from the extra time of large ones."""
        small, large = (
            {w: statistics.median(getattr(t, kind)) for w, t in times.items()} for kind in ("small", "large")
        )
        few, many = min(times), max(times)
        more = (large[many] - small[many]) - (large[few] - small[few])
        sent = (self.KEYS - self.FEW) * self.FAN * (many - few)
        return {
            "wave": (small[many] - small[few]) / (many - few),
            "batch": small[few] + statistics.median([s for t in times.values() for s in t.between]),
            "sent": more * self.cores / sent,
        }

    def add(self, times: _Times, waves: int, turns: int) -> None:
        """Run a plan and keep the times of its batches."""
        began = time.perf_counter()
        moments, batches = self.run(waves, turns)
        first = len(batches) - 2 * turns
        for at in range(first, len(batches), 2):
            times.small.append(batches[at].seconds)
            times.large.append(batches[at + 1].seconds)
            times.between.append(moments[at] - moments[at - 1] - batches[at].seconds)
        small, large = statistics.median(times.small), statistics.median(times.large)
        self.say(
            f"chain of {len(STREAMS)} streams, waves: {waves}; a batch takes {show(small)} empty, {show(large)} full "
            f"({time.perf_counter() - began:.1f} s)"
        )

    def run(self, waves: int, turns: int) -> tuple[list[float], list[Progress]]:
        """When each batch ended, and its progress.  Some batches warm up, then small and large ones take turns."""
        folder = self.folder / f"spark-{next(self.runs)}"
        few, many = (table(self.dice.permutation(self.KEYS)[:n], dice=self.dice) for n in (self.FEW, self.KEYS))
        arrivals = [few, few, many, *[few, many] * turns]
        with Session(folder / "checkpoint", workers=self.workers, progress=False) as session:
            session.stream("a", read.batches(arrivals))
            for name, rows in self.stores.items():
                session.stream(name, read.batches([rows]))
            session.query("q", self.sql(waves), strategy="flat").to_parquet(folder / "results")
            if session.topology.waves != waves:
                raise InternalError(f"a chain meant for {waves} waves has {session.topology.waves}")
            return watch(session, len(arrivals))

    def sql(self, waves: int) -> str:
        """The chain that takes this many waves."""
        one, two, three = self.PLANS[waves]
        return (
            "SELECT a.id, a.v, b.id AS id2, b.s, d.id AS id4 "
            f"FROM a JOIN b ON b.{one} = a.{one} JOIN c ON c.{two} = b.{two} JOIN d ON d.{three} = c.{three}"
        )


def watch(session: Session, batches: int) -> tuple[list[float], list[Progress]]:
    """Run until this many batches have ended; return when each ended, and its progress."""
    handle = session.start("1 millisecond")
    moments = [time.perf_counter()]
    while len(moments) <= batches:
        now = time.perf_counter()
        fresh = handle.report().count + 1 - len(moments)
        moments += [now] * fresh
        if not fresh:
            time.sleep(0.002)
            if now - moments[-1] > PATIENCE and handle.wait(0):
                raise InternalError("a run that has no end has ended")
    ended: list[Progress] = handle.history(batches)
    handle.stop()
    return moments[1:], ended
