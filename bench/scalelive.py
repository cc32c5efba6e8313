"""Running sessions as the scaling curves see them: batches from commit to commit, drops of files, idle triggers.

A batch lasts from one commit to the next, with whatever Spark does in between.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

import weft

POLL = 0.002
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Done:
    """A finished batch."""

    seconds: float
    """From the commit before."""
    inner: float
    """What Weft says of it, without Spark's part."""
    rows: int
    results: int
    state: int


@contextmanager
def started(
    spark: Any, folder: Path, streams: Sequence[str], sql: str, workers: int, every: float = 0.001
) -> Iterator[Any]:
    """A session that runs in the background, one file of each stream a batch."""
    out = Path(tempfile.mkdtemp(prefix="weft-scale-"))
    session = weft.Session(checkpoint=out / "state", workers=workers, spark=spark, progress=False)
    try:
        for name in streams:
            session.stream(name, weft.read.parquet(folder / name, max_files=1))
        session.query("joined", sql).to_parquet(out / "rows")
        yield session.start(every=every)
    finally:
        session.close()
        shutil.rmtree(out, ignore_errors=True)


def batches(handle: Any, count: int) -> list[Done]:
    """The next `count` batches of a running session."""
    found: list[Done] = []
    clock = time.perf_counter()
    until = clock + PATIENCE * max(1, count // 20)
    while len(found) < count:
        time.sleep(POLL)
        for batch in handle.progress()[len(found) :]:
            now = time.perf_counter()
            found.append(Done(now - clock, batch.seconds, batch.total_in, batch.total_out, batch.state_rows))
            clock = now
        if not handle.active or time.perf_counter() > until:
            handle.wait(1)
            raise TimeoutError(f"{len(found)} of {count} batches came")
    return found


def dropped(handle: Any, ready: Sequence[Path], landing: Path, rows: int) -> tuple[float, float]:
    """Seconds from a drop of one file a stream to the commit of its last row; and what Weft says of these batches."""
    before = handle.progress()
    due = sum(batch.total_in for batch in before) + rows
    for file in ready:
        os.link(file, landing / file.parent.name / f".{file.name}")
    clock = time.perf_counter()
    for file in ready:
        (landing / file.parent.name / f".{file.name}").rename(landing / file.parent.name / file.name)
    while sum(batch.total_in for batch in handle.progress()) < due:
        time.sleep(POLL)
        if not handle.active or time.perf_counter() > clock + PATIENCE:
            raise TimeoutError("a drop was not read")
    return time.perf_counter() - clock, sum(batch.seconds for batch in handle.progress()[len(before) :])


def idle(handle: Any, seconds: float) -> tuple[list[float], float]:
    """Seconds of looks that find nothing, and processor seconds of all processes for one of them."""
    pace = handle._run._pace
    look, seen = pace._once, []

    def timed(*arguments: Any) -> bool:
        began = time.perf_counter()
        found = bool(look(*arguments))
        if not found:
            seen.append(time.perf_counter() - began)
        return found

    time.sleep(1.0)
    pace._once = timed
    begun = _spent()
    time.sleep(seconds)
    assert handle.active
    return sorted(seen), (_spent() - begun) / max(1, len(seen))


def _spent() -> float:
    """Processor seconds of this process and everything it has started."""
    me = psutil.Process()
    return sum(sum(p.cpu_times()[:2]) for p in [me, *me.children(recursive=True)])
