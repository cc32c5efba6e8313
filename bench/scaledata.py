"""Streams whose batches have sizes given by hand: what the scaling curves are measured on.

    place(pk, px)   deed(dk, dp)   fact(fd, fx)        joined by dp = pk, fd = dk

Keys of place and deed are row numbers, and every reference is drawn from the rows that have come before or come with
it.  So a row of fact has exactly one result at any size of state, and cost per row can be compared during the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.streams import CACHE, GROUP, SEED

SQL = """SELECT px, dk, fx FROM place JOIN deed ON dp = pk JOIN fact ON fd = dk"""
STREAMS = ("place", "deed", "fact")
DEEDS = 10
"""Rows of deed for a row of place."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One micro-batch: rows of deed, with their share of place, and of fact."""

    deeds: int
    facts: int
    label: str = ""
    """What it is measured for; without one it only fills state."""

    @property
    def rows(self) -> int:
        return self.deeds + self.deeds // DEEDS + self.facts


def growing(sizes: Sequence[int], delta: int, times: int, load: int) -> list[Arrival]:
    """State up to each size in batches of at most `load` rows, then `times` equal deltas there."""
    found: list[Arrival] = []
    held = 0
    for size in sizes:
        while held < size:
            step = min(load, size - held)
            found.append(Arrival(step * DEEDS // (DEEDS + 1), 0))
            held += step
        found += [Arrival(0, delta, str(size))] * times
        held += delta * times
    return found


def sized(sizes: Sequence[tuple[int, int]], state: int, load: int) -> list[Arrival]:
    """Some state, then batches of each (size, how many): nine rows of fact for one of deed."""
    found = growing([state], 0, 0, load)
    for size, times in sizes:
        deeds = size // 10
        found += [Arrival(deeds, size - deeds - deeds // DEEDS, str(size))] * times
    return found


def write_arrivals(name: str, arrivals: Sequence[Arrival], cache: Path = CACHE) -> Path:
    """The folder of streams, made once."""
    shape = abs(hash(tuple((a.deeds, a.facts) for a in arrivals))) % 10**8
    folder = cache / f"scale-{name}-{sum(a.rows for a in arrivals)}-{shape}-{SEED}"
    if not (folder / "done").exists():
        rng = np.random.default_rng(SEED)
        places = deeds = 0
        for number, arrival in enumerate(arrivals):
            more = arrival.deeds // DEEDS
            keys = np.arange(places, places + more)
            places += more
            ids = np.arange(deeds, deeds + arrival.deeds)
            deeds += arrival.deeds
            tables = {
                "place": {"pk": rng.permutation(keys), "px": keys % 1000},
                "deed": {"dk": rng.permutation(ids), "dp": rng.integers(max(1, places), size=len(ids))},
                "fact": {"fd": rng.integers(max(1, deeds), size=arrival.facts), "fx": rng.random(arrival.facts)},
            }
            for stream, columns in tables.items():
                (folder / stream).mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table(columns), folder / stream / f"{number:05d}.parquet", row_group_size=GROUP)
        (folder / "done").touch()
    return folder
