"""What comes first, asking subscriptions or the join: what the plan expects, and what was measured.

    python -m bench.asking [--subscriptions 20000] [--rows 100000] [--wanted 0.01,0.1,0.5,0.9,1] [--results 1,4,16]

Stream w is there from the beginning: `results` rows for each key.  Rows of t come in batches.  A subscription has an
interval in a value of each stream; those of t lie in the first part of its values, so that `wanted` of all rows find
one.  Each order runs in one process without Spark, on one worker; all must find the same.  Times are seconds of the
processor for the batches of t, the least of some runs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import weft
from bench.machine import machine_line
from bench.streams import SEED
from weft.query.parameters import REMOVED, Strategy
from weft.testing import Trial

DOMAIN = 1 << 15
SQL = """
    SELECT t.id, w.id AS other FROM t JOIN w ON t.k = w.k
    WHERE t.x BETWEEN :a AND :b AND w.y BETWEEN :c AND :d
"""
COVER = 8
"""So many subscriptions lie around a value that is wanted, on average."""
ORDERS: tuple[Strategy, ...] = ("narrow", "join")


@dataclass(frozen=True, slots=True)
class Work:
    """A workload."""

    t: pa.Table
    w: pa.Table
    parameters: pa.Table
    batches: int = 4

    def session(self, folder: str, strategy: Strategy) -> weft.Session:
        """A session that knows samples of all of it."""
        session = weft.Session(checkpoint=folder, workers=1, progress=False)
        for name in ("t", "w"):
            session.stream(name, weft.read.batches([getattr(self, name)]))
        session.subscriptions("a", SQL, parameters=self.parameters, key="who", strategy=strategy)
        return session

    def run(self, strategy: Strategy) -> tuple[float, int]:
        """Seconds for the batches of t, and how many results there are."""
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(self.session(folder, strategy))
            added = self.parameters.append_column(REMOVED, pa.array(np.zeros(len(self.parameters), dtype=np.bool_)))
            trial.feed({"w": self.w, "a-subscriptions": added, "t": self.t.slice(0, 100)})
            began, rows = time.process_time(), self.t.slice(100)
            for part in np.array_split(np.arange(len(rows)), self.batches):
                trial.feed({"t": rows.take(pa.array(part))})
            return time.process_time() - began, trial.counters.results["a"]

    def expect(self) -> tuple[str, dict[str, float]]:
        """What is chosen, and what each order is expected to cost: microseconds a row."""
        with tempfile.TemporaryDirectory() as folder:
            (choice,) = self.session(folder, "auto").choices
            flat = [c for c in choice.weighed if c.layout.subscriptions in ORDERS and not c.layout.spread]
            price = {str(c.layout.subscriptions): c.bill.micros for c in reversed(flat)}
            return str(choice.chosen.layout.subscriptions), price


def make(subscriptions: int, rows: int, wanted: float, results: int) -> Work:
    """The workload."""
    rng = np.random.default_rng(SEED)
    keys = rng.permutation(rows // results)
    t = {"id": np.arange(len(keys)), "k": keys, "x": rng.integers(0, DOMAIN, len(keys))}
    other = np.repeat(keys, results)
    w = {"id": np.arange(len(other)), "k": other, "y": rng.integers(0, DOMAIN, len(other))}
    first, third = (rng.integers(0, max(1, int(end)), subscriptions) for end in (DOMAIN * wanted, DOMAIN * 0.99))
    wide = int(COVER * DOMAIN * wanted / subscriptions)
    ends = {"a": first, "b": first + wide, "c": third, "d": third + DOMAIN // 100}
    return Work(pa.table(t), pa.table(w), pa.table({"who": np.arange(subscriptions), **ends}))


def measure(work: Work, times: int) -> dict[str, float]:
    """Order -> seconds; orders take turns, and must find the same."""
    found: dict[str, list[tuple[float, int]]] = {order: [] for order in ORDERS}
    for _ in range(times):
        for order in ORDERS:
            found[order].append(work.run(order))
    if len({count for runs in found.values() for _, count in runs}) > 1:
        raise SystemExit("orders find different results")
    return {order: min(seconds for seconds, _ in runs) for order, runs in found.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description="Subscriptions first, or the join.")
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=100_000, help="of w; t has as many by the results")
    parser.add_argument("--wanted", default="0.01,0.1,0.5,0.9,1", help="share of t that somebody wants")
    parser.add_argument("--results", default="1,4,16", help="join results a tuple")
    parser.add_argument("--times", type=int, default=3)
    asked = parser.parse_args(arguments)
    print(f"what comes first, {asked.subscriptions:,} subscriptions, {asked.rows:,} rows, one core, seed {SEED}; "
          f"{machine_line()}")  # fmt: skip
    print(f"  {'results':>7} {'wanted':>7} {'expected, us a row':>22} {'measured, s':>16}  chosen")
    print(f"  {'':>7} {'':>7} {'narrow':>12} {'join':>9} {'narrow':>9} {'join':>6}")
    lost = []
    for results in (int(part) for part in asked.results.split(",")):
        for wanted in (float(part) for part in asked.wanted.split(",")):
            work = make(asked.subscriptions, asked.rows, wanted, results)
            (chosen, price), seconds = work.expect(), measure(work, asked.times)
            lost.append(seconds[chosen] / min(seconds.values()) - 1)
            print(f"  {results:>7} {wanted:>7.0%} {price['narrow']:>12.3f} {price['join']:>9.3f} "
                  f"{seconds['narrow']:>9.3f} {seconds['join']:>6.3f}  {chosen}", flush=True)  # fmt: skip
    right = sum(share == 0 for share in lost)
    print(f"the faster order was chosen {right} of {len(lost)} times; the slower one cost at most {max(lost):.0%} more")


if __name__ == "__main__":
    main()
