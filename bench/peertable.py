"""The rows of `bench.peers` as text: one table, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.peerrun import RIGHT, WRONG, Row
from bench.peersetup import SYSTEMS
from weft.observe.progress import human_bytes

HEAD = (
    f"  {'workload':<12} {'system':<17} {'rows/s':>10} {'steady':>10} {'results/s':>10} {'seconds':>8} {'start':>6} "
    f"{'first':>7} {'p50':>7} {'p99':>7} {'memory':>8} {'state':>8}  answer"
)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """One line per workload and system."""
    yield "input rows/s (all; after the second batch), seconds to first result and of a batch, peak memory, state"
    yield HEAD
    for row in rows:
        yield (
            f"  {row.workload:<12} {row.system:<17} {_count(row.speed):>10} {_count(row.steady):>10} "
            f"{_count(row.results_speed):>10} {_seconds(row.seconds):>8} {_seconds(row.start_up):>6} "
            f"{_seconds(row.first):>7} {_seconds(row.p50):>7} {_seconds(row.p99):>7} {_bytes(row.peak):>8} "
            f"{_bytes(row.state):>8}  {row.verdict}{'' if row.reads == 'parquet' else f' ({row.reads})'}"
        )
    kinds = {row.memory for row in rows if row.peak}
    yield f"  memory is the largest sum of {' or '.join(sorted(kinds)) or 'nothing'} over all processes of a system"


def verdicts(rows: Sequence[Row]) -> Iterator[str]:
    """One line per workload: Weft compared with streaming peers and with one-shot joins."""
    yield "\nWeft compared with the others (steady rows/s, wall time for the one-shot joins)"
    for workload in dict.fromkeys(row.workload for row in rows):
        here = {row.system: row for row in rows if row.workload == workload or _same(row, workload)}
        ours = next((row for row in rows if row.workload == workload and row.system == "weft"), None)
        if ours is None or ours.verdict != RIGHT:
            yield f"  {workload:<12} no right answer from Weft"
            continue
        yield f"  {workload:<12} " + "; ".join([*_beside(ours, here), *_growth(ours)])


def _same(row: Row, workload: str) -> bool:
    """The same join in another number of batches, by a system that has no batches."""
    return row.workload.partition("/")[0] == workload.partition("/")[0] and not row.batches


def _beside(ours: Row, here: dict[str, Row]) -> Iterator[str]:
    for name, row in here.items():
        if name == "weft" or row.verdict.startswith(WRONG) or not _rate(row):
            continue
        if SYSTEMS[name].streaming:
            ratio = _rate(ours) / _rate(row)
            yield f"{ratio:.1f} x {name}{'' if ratio > 1 else ' FASTER THAN WEFT'}"
        elif row.seconds and ours.seconds:
            yield f"{ours.seconds / row.seconds:.1f} x the time of {name}"


def _growth(ours: Row) -> Iterator[str]:
    """Whether rows cost more as state grows: time per input and result row, ratio of the last batch to the fifth."""
    cost = [b.seconds / (b.rows + (b.results or 0)) for b in ours.batches if b.rows]
    if len(cost) > 5:
        yield f"cost of a row in the last batch {cost[-1] / cost[4]:.2f} of that in the fifth"


def _rate(row: Row) -> float:
    return row.steady or row.speed or 0.0


def brief(row: Row) -> str:
    """A run in one line."""
    speed = f"{_count(row.speed)} rows/s, steady {_count(row.steady)}, " if row.speed else ""
    return f"{row.system:<17} {speed}{_bytes(row.peak)}, {row.verdict}"


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:,.0f}"


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _bytes(value: int | None) -> str:
    return "" if value is None else human_bytes(value)
