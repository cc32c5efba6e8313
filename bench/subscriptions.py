"""Kernels for subscriptions: arriving tuples, each with some join results, looked up in many boxes.

    python -m bench.subscriptions [--boxes 100000] [--dimensions 5,5] [--selectivity 0.0001] [--results 1,4,16]

The workload is that of the paper (E14): attributes are short integers, a box has an interval of the same width in every
dimension, placed at random, so that a join result lies in `selectivity` of all boxes.  A tuple brings the first
dimensions, each of its join results the others.

narrow  `weft.kernels.bitsets`: the tuple narrows once, every result narrows what is left
naive   the same sets, but every result is looked up in all dimensions; below LONG results a tuple, this is what is done
tree    `weft.kernels.boxes`: every result is looked up in all dimensions; a box is a point of twice as many
brute   every result is compared with every box, as numpy does it

All must find the same pairs.  Times are seconds of the processor.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.machine import machine_line
from bench.streams import SEED
from weft.kernels.bitsets import SLABS, BitSets
from weft.kernels.codes import Ints
from weft.kernels.index import build, ends, probe

DOMAIN = 1 << 15
BRUTE = 20
"""Results that are enough to time the slowest."""
TREE = 1_000


@dataclass(frozen=True)
class Work:
    """Boxes, and points that are looked up in them."""

    low: Ints
    high: Ints
    mine: int
    """Dimensions of the arriving tuple."""
    points: Ints
    """One row a join result."""
    which: Ints
    """Result -> tuple."""

    @property
    def tuples(self) -> int:
        return int(self.which[-1]) + 1


def make(boxes: int, dimensions: Sequence[int], selectivity: float, tuples: int, results: int) -> Work:
    """The workload."""
    rng, width = np.random.default_rng(SEED), sum(dimensions)
    wide = round(DOMAIN * selectivity ** (1 / width))
    low = rng.integers(0, DOMAIN - wide, (boxes, width))
    which = np.repeat(np.arange(tuples), results)
    points = rng.integers(0, DOMAIN, (len(which), width))
    points[:, : dimensions[0]] = rng.integers(0, DOMAIN, (tuples, dimensions[0]))[which]
    return Work(low, low + wide, dimensions[0], points, which)


Found = set[tuple[int, int]]


def ask_bits(sets: BitSets, work: Work, *, naive: bool = False) -> tuple[Ints, Ints]:
    """Pairs of a result and a slot."""
    width = work.low.shape[1]
    parts = [[*range(width)]] if naive else [[*range(work.mine)], [*range(work.mine, width)]]
    levels = np.zeros(len(work.which), dtype=np.int64)
    levels[1:] = 0 if naive else work.which[1:] == work.which[:-1]
    found = [*sets.find(parts, work.points, levels)] or [(levels[:0], levels[:0])]
    return np.concatenate([owners for owners, _ in found]), np.concatenate([slots for _, slots in found])


def seconds(do: Callable[[], object], times: int = 3) -> float:
    """Seconds of the processor, the least of some runs."""
    least = float("inf")
    for _ in range(times):
        began = time.process_time()
        do()
        least = min(least, time.process_time() - began)
    return least


def tree(work: Work) -> tuple[float, float, Found]:
    """Seconds to build and per result, and what was found for the first results."""
    width, some = work.low.shape[1], work.points[:TREE]
    began = time.process_time()
    index = build(len(work.low), None, [*work.low.T, *work.high.T], None)
    built = time.process_time() - began
    columns = [np.ascontiguousarray(column) for column in some.T]
    low = ends([*([None] * width), *columns], len(some), upper=False)
    high = ends([*columns, *([None] * width)], len(some), upper=True)
    pairs: Found = set()
    for found, rows in probe(index, len(some), None, low, high, None, 65_536):
        pairs |= set(zip(found.tolist(), rows.tolist(), strict=True))
    spent = seconds(lambda: list(probe(index, len(some), None, low, high, None, 65_536)))
    return built, spent / len(some), pairs


def brute(work: Work) -> tuple[float, Found]:
    """Seconds per result, and what was found for the first results."""
    pairs: Found = set()
    began = time.process_time()
    for i, point in enumerate(work.points[:BRUTE]):
        inside = np.flatnonzero(((work.low <= point) & (work.high >= point)).all(axis=1))
        pairs |= {(i, int(box)) for box in inside}
    return (time.process_time() - began) / min(BRUTE, len(work.points)), pairs


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    asked = _asked(arguments)
    shape = [int(part) for part in asked.dimensions.split(",")]
    print(f"subscriptions, {asked.boxes:,} boxes, {asked.dimensions} dimensions, selectivity {asked.selectivity:g}, "
          f"{asked.slabs} slabs, seed {SEED}; {machine_line()}")  # fmt: skip
    for results in (int(part) for part in asked.results.split(",")):
        _measure(make(asked.boxes, shape, asked.selectivity, asked.tuples, results), results, asked)


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kernels for subscriptions.")
    parser.add_argument("--boxes", type=int, default=100_000)
    parser.add_argument("--dimensions", default="5,5", help="of the arriving tuple, and of what it joins")
    parser.add_argument("--selectivity", type=float, default=1e-4)
    parser.add_argument("--results", default="1,4,16", help="join results a tuple")
    parser.add_argument("--tuples", type=int, default=2_000)
    parser.add_argument("--slabs", type=int, default=SLABS)
    parser.add_argument("--added", type=int, default=10_000, help="boxes that come later")
    parser.add_argument("--only", action="store_true", help="bits alone")
    return parser.parse_args(arguments)


def _measure(work: Work, results: int, asked: argparse.Namespace) -> None:
    began = time.process_time()
    sets = BitSets(work.low, work.high, slabs=asked.slabs, room=asked.added)
    built = time.process_time() - began
    spent, (owners, slots) = seconds(lambda: ask_bits(sets, work)), ask_bits(sets, work)
    began = time.process_time()
    late = sets.add(work.low[: asked.added], work.high[: asked.added])
    added = time.process_time() - began
    sets.remove(late)
    print(f"{results} results a tuple, {len(owners) / len(work.which):.1f} matches a result")
    print(f"  narrow {work.tuples / spent:12,.0f} tuples/s  {len(work.which) / spent:12,.0f} results/s  "
          f"built in {built:.2f} s, {sets.nbytes / len(sets.ends):.0f} bytes a box, "
          f"{asked.added:,} added in {added:.3f} s")  # fmt: skip
    naive = seconds(lambda: ask_bits(sets, work, naive=True))
    print(f"  naive  {work.tuples / naive:12,.0f} tuples/s  {len(work.which) / naive:12,.0f} results/s")
    if asked.only:
        return
    box = np.empty(len(sets.ends), dtype=np.int64)
    box[sets.slots] = np.arange(len(work.low))
    pairs = set(zip(owners.tolist(), box[slots].tolist(), strict=True))
    took, each, found = tree(work)
    print(f"  tree   {1 / each / results:12,.0f} tuples/s  {1 / each:12,.0f} results/s  built in {took:.2f} s")
    _same("tree", found, pairs, TREE)
    each, found = brute(work)
    print(f"  brute  {1 / each / results:12,.0f} tuples/s  {1 / each:12,.0f} results/s")
    _same("brute", found, pairs, BRUTE)


def _same(name: str, found: Found, pairs: Found, upto: int) -> None:
    if found != {pair for pair in pairs if pair[0] < upto}:
        raise SystemExit(f"{name} and bits find different pairs")


if __name__ == "__main__":
    main()
