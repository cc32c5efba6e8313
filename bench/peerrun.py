"""One workload through one system, in a process of its own: what it printed and what was seen, as one row.

began   the moment the system gets the query; interpreters and JVMs are running by then
steady  input rows per second after the second batch, from commit to commit; for systems without batches, from the
        moment all of their tasks were running
first   seconds from `began` to the first result that can be read
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import Seen, size_of, watch_process
from bench.peerloads import Load
from bench.peersetup import System, environment, reads_csv, ready
from bench.peersystems.job import Job

ROOT = Path(__file__).parents[1]
WORKERS = 2
RIGHT, WRONG = "right", "WRONG"


@dataclass(frozen=True, slots=True)
class Batch:
    """One micro-batch."""

    seconds: float
    end: float
    """Wall clock of its commit."""
    rows: int
    results: int | None
    """Where the system gives it."""


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one run; what is not known is None."""

    workload: str
    system: str
    verdict: str
    """`right`, `WRONG`, or why there is no answer: see :func:`say_why`."""
    rows: int
    results: int | None = None
    seconds: float | None = None
    """From `began` to the end."""
    start_up: float | None = None
    """From the start of the process to `began`."""
    speed: float | None = None
    """Input rows per second, from `began`; of a run that was ended, so far."""
    steady: float | None = None
    first: float | None = None
    peak: int | None = None
    memory: str = "PSS"
    state: int | None = None
    p50: float | None = None
    p99: float | None = None
    batches: tuple[Batch, ...] = ()
    reads: str = "parquet"
    versions: tuple[tuple[str, str], ...] = ()

    @property
    def results_speed(self) -> float | None:
        return self.results / self.seconds if self.results and self.seconds else None


def measure(load: Load, system: System, limit: float, *, here: bool = False) -> Row:
    """Run it; `here` in our own environment."""
    python = ready(system, here=here)
    if isinstance(python, str):
        return Row(load.name, system.name, f"skipped: {python}", load.total)
    if kind := reads_csv(system):
        load.csv(kind)
    elif system.csv and load.join.times:
        load.whole()
    truth = load.truth()
    out = Path(tempfile.mkdtemp(prefix="weft-peers-"))
    try:
        job = Job(
            load.name, system.name, load.join, load.schemas, load.total, load.batches, str(load.folder), str(out),
            WORKERS, load.span,
        )  # fmt: skip
        (out / "job.json").write_text(job.text)
        command = [str(python), "-m", f"bench.peersystems.{system.module}", str(out / "job.json")]
        began = time.time()
        seen = watch_process(command, out, limit, environment(system) | {"PYTHONPATH": _path(system)}, ROOT)
        return _row(load, system, seen, began, out, truth, limit)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _path(system: System) -> str:
    """Peers see this repository's `bench` and nothing of our environment."""
    return str(ROOT) if system.requirement else ":".join([str(ROOT), *filter(None, sys.path)])


def _row(load: Load, system: System, seen: Seen, began: float, out: Path, truth: tuple[int, int], limit: float) -> Row:
    told = _merge(seen.told)
    told_batches = (line["batch"] for line in seen.told if "batch" in line)
    batches = tuple(Batch(b["seconds"], b["end"], b["in"], b.get("out")) for b in told_batches)
    clock, done = told.get("began"), told.get("done")
    common: dict[str, Any] = {
        "workload": load.name,
        "system": system.name,
        "rows": load.total,
        "start_up": clock - began if clock else None,
        "peak": seen.peak,
        "memory": seen.kind,
        "batches": batches,
        "reads": told.get("format", "parquet"),
        "versions": tuple(sorted(told.get("versions", {}).items())),
        "p50": _quantile([b.seconds for b in batches], 0.5),
        "p99": _quantile([b.seconds for b in batches], 0.99),
        "steady": _steady(batches, told, load.total),
    }
    if done is None or clock is None:
        return Row(**common, verdict=say_why(seen, limit), speed=_so_far(batches, clock))
    found = load.answer(out / "rows")
    return Row(
        **common,
        verdict=RIGHT if found == truth else f"{WRONG}: {found[0]:,} results of {truth[0]:,}",
        results=found[0],
        seconds=done - clock,
        speed=load.total / (done - clock),
        first=_first(seen, batches, clock, done, system),
        state=max(size_of(out / "state"), seen.state) or None,
    )


def _merge(told: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for line in told for key, value in line.items() if key != "batch"}


def say_why(seen: Seen, limit: float) -> str:
    """Why there is no answer.  Only a system that has made progress is called slow; any other one does not work."""
    told = _merge(seen.told)
    said = told.get("error") or ("" if seen.over else _last_words(seen))
    if "began" not in told:
        if seen.over:
            return f"does not {'take the query' if 'up' in told else 'start'} in {limit:.0f} s"
        return f"{'refuses' if 'up' in told else 'does not start'}: {said}"
    if not seen.over:
        return f"failed: {said}"
    if rows := sum(line["batch"]["in"] for line in seen.told if "batch" in line):
        return f"over {limit:.0f} s, {rows:,} rows done"
    if seen.first_output is not None:
        return f"over {limit:.0f} s, first results seen"
    return f"no answer in {limit:.0f} s, no result seen, {seen.busy:.0f} s of processor time"


def _last_words(seen: Seen) -> str:
    if seen.code is not None and seen.code < 0:
        return f"killed by signal {-seen.code}"
    line = next((line for line in reversed(seen.noise.splitlines()) if line.strip()), "no message")
    return " ".join(line.split())[:160]


def _steady(batches: Sequence[Batch], told: dict[str, Any], rows: int) -> float | None:
    if batches:
        later = batches[2:]
        return sum(b.rows for b in later) / (later[-1].end - batches[1].end) if later else None
    begun = told.get("input", told.get("began"))
    return rows / (told["done"] - begun) if "done" in told and begun is not None else None


def _so_far(batches: Sequence[Batch], clock: float | None) -> float | None:
    return sum(b.rows for b in batches) / (batches[-1].end - clock) if batches and clock else None


def _first(seen: Seen, batches: Sequence[Batch], clock: float, done: float, system: System) -> float:
    """A batch is read when it is committed; other output when it lies there; of a one-shot join, at its end."""
    if not system.streaming:
        return done - clock
    if batches:
        return batches[0].end - clock
    return max(0.0, min(seen.first_output or done, done) - clock)


def _quantile(values: Sequence[float], share: float) -> float | None:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))] if ordered else None
