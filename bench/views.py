"""Aggregates over joins, kept up to date: Weft compared with enumerated joins, with its peers and with its goals.

    python -m bench.views [--workloads reach/1,q3] [--systems weft,flink] [--scale 1] [--repeat 1] [--limit 150]

    weft        the aggregate, by the plan that Weft chooses
    weft-flat   the aggregate by the flat plan: no join is kept, but rows are added up on their way
    weft-rows   the enumerated join: its rows are written to files, and put into groups only to check them

The systems, the table and the numbers are those of `bench.peers`; the answers of all are compared.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bench import peertable
from bench.machine import machine_line
from bench.peerrun import RIGHT, WORKERS, WRONG, Row, measure
from bench.peers import better, save
from bench.peersetup import SYSTEMS, VIEW_SYSTEMS, System
from bench.streams import SEED
from bench.viewloads import LOADS

RESULTS = Path(__file__).parent / "results"
LIMIT = 150.0
OURS = ("weft", "weft-flat", "weft-rows")
ASKED: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("reach/1", "reach/2"), (*OURS, "duckdb")),
    "reach/4": ("weft", "weft-flat", "duckdb"),
    "groups/2": ("weft", "duckdb"),
}
"""Who is asked where not all are: curves of our own.  The billions of rows of `reach/2` are not all written within the
limit; what is written until then says how long all of them would take at least, since later batches have more."""
WISHED = {("q3", "flink"): 10.0, ("reach/1", "weft-rows"): 10.0, ("reach/2", "weft-rows"): 10.0}
"""(Workload, system) -> how many times as fast we should be, where that is more than once."""
KNOWN: Mapping[str, System] = {
    **VIEW_SYSTEMS,
    **{name: SYSTEMS[name] for name in ("spark", "flink", "pathway", "duckdb")},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    asked = _asked(arguments)
    print(f"views, scale {asked.scale:g}, {WORKERS} workers, seed {SEED}; {machine_line()}", flush=True)
    began = time.perf_counter()
    rows = [row for workload in asked.workloads for row in _workload(workload, asked)]
    print()
    for line in (*peertable.table(rows), *goals(rows)):
        print(line)
    seconds = time.perf_counter() - began
    written = save(rows, asked, seconds, f"views-{asked.scale:g}", "Aggregates: input rows per second")
    print(f"\n{seconds:.0f} seconds in all; written: {', '.join(map(str, written))}")
    if any(row.verdict.startswith(WRONG) for row in rows):
        sys.exit("some answers are WRONG")


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Aggregates over joins, beside peers.")
    parser.add_argument("--workloads", default=",".join(LOADS), help="names, with commas")
    parser.add_argument("--systems", default=",".join(KNOWN), help="names, with commas")
    parser.add_argument("--scale", type=float, default=1.0, help="rows of every stream, by those of scale 1")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, taking turns")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one system on one workload")
    parser.add_argument("--here", action="store_true", help="no environments of their own: what is here will do")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for numbers and picture")
    asked = parser.parse_args(arguments)
    for name, known in (("workloads", LOADS), ("systems", KNOWN)):
        chosen = [part for part in getattr(asked, name).split(",") if part]
        if strangers := [part for part in chosen if part not in known]:
            parser.error(f"no {name[:-1]} {', '.join(strangers)}; there are {', '.join(known)}")
        setattr(asked, name, chosen)
    return asked


def _workload(name: str, asked: argparse.Namespace) -> list[Row]:
    load = LOADS[name](asked.scale)
    print(f"{name}, {load.total:,} rows, {load.batches} batches, {load.truth()[0]:,} groups", flush=True)
    best: dict[str, Row] = {}
    for _ in range(asked.repeat):
        for system in (s for s in asked.systems if s in ASKED.get(name, KNOWN)):
            row = measure(load, KNOWN[system], asked.limit, here=asked.here)
            best[system] = better(best.get(system, row), row)
            print(f"  {peertable.brief(row)}", flush=True)
    return [*best.values()]


# --------------------------------------------------------------------------------------------------- goals


def goals(rows: Sequence[Row]) -> Iterator[str]:
    """What was wished for beside what was measured; nothing where one side has no right answer."""
    by = {(row.workload, row.system): row for row in rows}
    yield "\ngoals (seconds of the whole query; rates of all rows, from the moment the system gets the query)"
    for what, found, goal, holds in (*_answered(by), *_faster(by), *_growth(by), *_groups(by)):
        yield f"  {what:<72} {found:>12}   goal {goal:<14} {'holds' if holds else 'MISSED'}"


Found = Mapping[tuple[str, str], Row]
Goal = tuple[str, str, str, bool]
"""What, the figure, what it should be, whether it is."""


def _answered(by: Found) -> Iterator[Goal]:
    for (workload, system), row in by.items():
        if system == "weft" and row.verdict != RIGHT:
            yield f"{workload}: an answer: {row.verdict}"[:72], "no", "right", False


def _ratio(by: Found, one: tuple[str, str], other: tuple[str, str]) -> float | None:
    """Seconds of one run by those of another; of one that was ended, at least so many."""
    a, b = by.get(one), by.get(other)
    if a is None or b is None or b.verdict != RIGHT or not b.seconds:
        return None
    seconds = a.seconds if a.verdict == RIGHT else _expected(a)
    return seconds / b.seconds if seconds else None


def _expected(row: Row) -> float | None:
    """Seconds that a run which was ended would have taken at its rate so far, when its state was still small."""
    return row.rows / row.speed if row.speed else None


def _faster(by: Found) -> Iterator[Goal]:
    for workload in dict.fromkeys(workload for workload, _ in by):
        for system in ("weft-flat", "weft-rows", "spark", "flink", "pathway"):
            ratio = _ratio(by, (workload, system), (workload, "weft"))
            if ratio is None:
                continue
            goal = WISHED.get((workload, system))
            ended = "" if by[workload, system].verdict == RIGHT else ", which was ended: by its rate so far"
            said = f"{workload}: times as fast as {system}{ended}"
            yield said, f"{ratio:.2f}", f"at least {goal or 1:g}", ratio >= (goal or 1)
        yield from _one_shot(by, workload)


def _one_shot(by: Found, workload: str) -> Iterator[Goal]:
    """All of our time, and without start-up: at the rate after the second batch, when all processes are running."""
    ours, ratio = by.get((workload, "weft")), _ratio(by, (workload, "weft"), (workload, "duckdb"))
    if ours is None or ratio is None:
        return
    yield f"{workload}: the time of one-shot DuckDB, times", f"{ratio:.2f}", "at most 4", ratio <= 4
    if ours.steady and ours.speed:
        ratio *= ours.speed / ours.steady
        yield f"{workload}: the same at the steady rate, start-up apart", f"{ratio:.2f}", "at most 4", ratio <= 4


def _growth(by: Found) -> Iterator[Goal]:
    """With arcs, not with paths: twice the arcs in about twice the time, and not in eight times."""
    for times in (2, 4):
        ratio = _ratio(by, (f"reach/{times}", "weft"), ("reach/1", "weft"))
        if ratio is not None:
            what = f"reach: seconds with {times} times the arcs ({times**3} times the paths), ratio"
            yield what, f"{ratio:.2f}", f"at most {times * 1.25:g}", ratio <= times * 1.25


def _groups(by: Found) -> Iterator[Goal]:
    one, two = by.get(("groups/1", "weft")), by.get(("groups/2", "weft"))
    if one is not None and one.steady:
        yield "groups/1: steady rows a second", f"{one.steady:,.0f}", "1,000,000", one.steady >= 1e6
    if one is not None and two is not None and one.state and two.state:
        ratio = two.state / one.state
        yield (
            "groups: bytes of state, twice the rows of the same groups, ratio",
            f"{ratio:.2f}",
            "at most 1.1",
            ratio <= 1.1,
        )


if __name__ == "__main__":
    main()
