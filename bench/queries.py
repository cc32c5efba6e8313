"""Many queries in one session: every query as if alone, equal parts once, and plans chosen together.

    python -m bench.queries [--scale 0.1] [--batches 10] [--only tpch,ranks,curve] [--counts 5,10] [--seeds 0,1,2]

    tpch    5 and 10 queries over TPC-H, drawn with a seed from key joins and joins of columns of one type
            (CLASH VII.A), under sharing "none", "local" and "global": input rows/s, processor seconds, rows stored.
            "apart" is what the paper compares with: a job for each query, which reads its input itself; their
            seconds are added up.  First queries that overlap by chance, then ones that go on from joins of others
    ranks   eight sets of four queries: whether plans that are predicted to be faster are faster
    curve   1 to 100 queries of three streams: seconds to plan, seconds of a batch of 100,000 rows, rows and bytes kept

Every answer is compared with DuckDB's by count and checksum.  The paper's figures stand beside: 1.4 and 2.6 times the
throughput of independent queries, 3.1 and 5.3 times fewer rows stored.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from bench.machine import processor_seconds
from bench.saying import block, say
from bench.tpch import streams
from weft.observe.progress import human_bytes
from weft.optimizer.whole import whole_bill

MODES = ("none", "local", "global")
COLUMNS = {
    "customer": ("c_custkey", "c_nationkey"),
    "orders": ("o_orderkey", "o_custkey"),
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey"),
    "part": ("p_partkey", "p_size"),
    "partsupp": ("ps_partkey", "ps_suppkey", "ps_availqty"),
    "supplier": ("s_suppkey", "s_nationkey"),
    "nation": ("n_nationkey", "n_regionkey"),
}
KEYS = (
    ("c_custkey", "o_custkey"), ("o_orderkey", "l_orderkey"), ("l_partkey", "p_partkey"), ("l_suppkey", "s_suppkey"),
    ("ps_partkey", "p_partkey"), ("ps_suppkey", "s_suppkey"), ("c_nationkey", "n_nationkey"),
    ("s_nationkey", "n_nationkey"), ("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey"),
)  # fmt: skip
OTHERS = (
    ("c_custkey", "p_partkey"), ("o_custkey", "p_partkey"), ("c_custkey", "s_suppkey"), ("c_nationkey", "s_nationkey"),
    ("o_custkey", "s_suppkey"), ("p_size", "n_nationkey"), ("c_custkey", "ps_partkey"), ("o_orderkey", "p_partkey"),
)  # fmt: skip
"""Columns of one type that are no key pair: some select much, some little."""
NEAR = 0.1
"""Predictions that differ by less than this count as equal."""
MOST = 1.0
"""Queries whose answer has more rows than this times all input are drawn again: writing them would be all the work."""


@dataclass(frozen=True)
class Drawn:
    """A query of the workload."""

    name: str
    relations: tuple[str, ...]
    sql: str


def owner(column: str) -> str:
    """The table of a column."""
    return next(name for name, columns in COLUMNS.items() if column in columns)


def draw(count: int, seed: int, folder: Path, overlap: float = 0.0) -> list[Drawn]:
    """Random queries: a relation, then joins with what is there, three to five relations in all.

    That part of them which `overlap` says begins with two joined relations of an earlier query instead.
    """
    rng, drawn, seen = random.Random(seed), [], set[frozenset[tuple[str, str]]]()
    total = sum(_count(f"SELECT count(*) FROM '{folder}/{name}/*.parquet'") for name in COLUMNS)
    while len(drawn) < count:
        others = sorted({pair for key in seen for pair in key})
        first = [rng.choice(others)] if overlap and others and rng.random() < overlap else []
        joins = _draw_joins(rng, rng.choice((3, 3, 4, 5)), first)
        key = frozenset(joins)
        if not joins or key in seen:
            continue
        relations = tuple(sorted({owner(c) for pair in joins for c in pair}))
        where = " AND ".join(f"{a} = {b}" for a, b in sorted(joins))
        most = int(MOST * total)
        found = f"SELECT 1 FROM {_tables(relations, folder)} WHERE {where} LIMIT {most + 1}"
        if _count(f"SELECT count(*) FROM ({found})") > most:
            continue
        seen.add(key)
        outputs = ", ".join(COLUMNS[name][0] for name in relations)
        drawn.append(Drawn(f"q{len(drawn)}", relations, f"SELECT {outputs} FROM {', '.join(relations)} WHERE {where}"))
    return drawn


def _draw_joins(rng: random.Random, size: int, first: list[tuple[str, str]]) -> list[tuple[str, str]]:
    there, joins = {owner(column) for pair in first for column in pair} or {rng.choice(sorted(COLUMNS))}, [*first]
    while len(there) < size:
        pairs = [p for p in (*KEYS, *KEYS, *OTHERS) if len({owner(p[0]), owner(p[1])} & there) == 1]
        if not pairs:
            return []
        pair = rng.choice(pairs)
        joins.append(pair)
        there |= {owner(pair[0]), owner(pair[1])}
    return joins


def _tables(relations: Sequence[str], folder: Path) -> str:
    return ", ".join(f"'{folder}/{name}/*.parquet' {name}" for name in relations)


def _count(sql: str) -> int:
    return int(duckdb.connect().sql(sql).fetchall()[0][0])


@dataclass(frozen=True)
class Run:
    """What one run did."""

    mode: str
    queries: int
    rows: int
    seconds: float
    worked: float
    """Processor seconds of all processes."""
    stored: int
    probed: int
    batch: float
    planned: float
    predicted: float


def run(folder: Path, drawn: Sequence[Drawn], mode: str, seen: weft.Statistics) -> Run:
    """All queries in one session."""
    root = Path(tempfile.mkdtemp(prefix="weft-queries-"))
    s = weft.Session(root / "ck", workers=2, progress=False)
    for name in sorted(_read(drawn)):
        s.stream(name, weft.read.parquet(folder / name, max_files=1))
    s.options(sharing=mode, statistics=seen)
    for query in drawn:
        s.query(query.name, query.sql).to_parquet(root / query.name)
    began = time.perf_counter()
    topology = s.topology
    planned = time.perf_counter() - began
    begun = processor_seconds()
    report = s.run()
    worked = processor_seconds() - begun
    for query in drawn:
        _compare(query, folder, root / query.name)
    counters, seconds = report.counters, sum(b.seconds for b in report.batches)
    shutil.rmtree(root, ignore_errors=True)
    stores = {store.id for store in topology.stores}
    kept = sum(n for store, n in counters.stored.items() if store in stores)
    batch = statistics.median(b.seconds for b in report.batches)
    rows, probed = sum(report.rows_in.values()), sum(counters.probed.values())
    predicted = whole_bill(topology, s.choices).seconds
    return Run(mode, len(drawn), rows, seconds, worked, kept, probed, batch, planned, predicted)


def _compare(query: Drawn, folder: Path, found: Path) -> None:
    def sums(source: str) -> list[tuple[object, ...]]:
        names = query.sql.removeprefix("SELECT ").partition(" FROM ")[0].split(", ")
        added = ", ".join(f"sum(hash({name})::HUGEINT)" for name in names)
        return duckdb.connect().sql(f"SELECT count(*), {added} FROM ({source})").fetchall()

    wanted = query.sql.partition(" FROM ")[2].partition(" WHERE ")
    source = f"SELECT * FROM {_tables(query.relations, folder)} WHERE {wanted[2]}"
    if sums(source) != sums(f"SELECT * FROM '{found}/*.parquet'"):
        raise SystemExit(f"{query.name} is wrong: {query.sql}")


def run_apart(folder: Path, drawn: Sequence[Drawn], seen: weft.Statistics) -> Run:
    """Each query in a session of its own, one after the other; batches of all are one batch."""
    runs = [run(folder, [query], "none", seen) for query in drawn]
    rows_in = sum(_count(f"SELECT count(*) FROM '{folder}/{name}/*.parquet'") for name in _read(drawn))
    names = ("seconds", "worked", "stored", "probed", "batch", "planned", "predicted")
    summed = {name: sum(getattr(r, name) for r in runs) for name in names}
    return replace(runs[0], mode="apart", queries=len(drawn), rows=rows_in, **summed)


def _read(drawn: Sequence[Drawn]) -> set[str]:
    return {name for query in drawn for name in query.relations}


def measure_tpch(scale: float, batches: int, overlap: float, counts: Sequence[int], seeds: Sequence[int]) -> list[str]:
    """The table of the paper's Fig. 7; a seed of 0 is the number of queries."""
    folder, _ = streams("queries", COLUMNS, scale, batches)
    lines = [
        "queries  seed  sharing    rows/s  times  worked s  times   rows stored  times   tuples probed  s/batch  plan s"
    ]
    for count, seed in product(counts, seeds):
        drawn = draw(count, seed or count, folder, overlap)
        seen = _statistics(folder, drawn)
        run(folder, drawn, "local", seen)  # starts what Spark needs
        runs = {mode: run(folder, drawn, mode, seen) for mode in MODES} | {"apart": run_apart(folder, drawn, seen)}
        alone = runs["none"]
        for mode, done in runs.items():
            say(f"{count} queries, seed {seed or count}, {mode}: {done.seconds:.1f} s")
            faster, fewer = alone.seconds / done.seconds, alone.stored / done.stored
            speed = done.rows / done.seconds
            lines.append(
                f"{count:>7} {seed or count:>5}  {mode:<7} {speed:>9,.0f} {faster:>6.2f}"
                f" {done.worked:>9.1f} {alone.worked / done.worked:>6.2f}"
                f" {done.stored:>13,} {fewer:>6.2f}"
                f" {done.probed:>15,} {done.batch:>8.2f} {done.planned:>10.2f}"
            )
    return lines


def measure_ranks(scale: float, batches: int) -> list[str]:
    """Whether what is predicted to be faster is faster."""
    folder, _ = streams("queries", COLUMNS, scale, batches)
    lines, right, pairs = ["workload  predicted none / local / global s   measured none / local / global s"], 0, 0
    for seed in range(100, 108):
        drawn = draw(4, seed, folder)
        seen = _statistics(folder, drawn)
        runs = [min((run(folder, drawn, mode, seen) for _ in range(2)), key=lambda r: r.seconds) for mode in MODES]
        say(f"workload {seed}")
        for one, other in combinations(runs, 2):
            if abs(one.predicted - other.predicted) > NEAR * max(one.predicted, other.predicted):
                pairs += 1
                right += (one.predicted < other.predicted) == (one.seconds < other.seconds)
        predicted, measured = ([f"{getattr(r, what):.2f}" for r in runs] for what in ("predicted", "seconds"))
        lines.append(f"{seed:>8}  {' / '.join(predicted):<36} {' / '.join(measured)}")
    return [*lines, f"{right} of {pairs} pairs whose predictions differ by more than {NEAR:.0%} rank as predicted"]


def _statistics(folder: Path, drawn: Sequence[Drawn]) -> weft.Statistics:
    s = weft.Session("unused", workers=2, progress=False)
    for name in COLUMNS:
        s.stream(name, weft.read.parquet(folder / name))
    for query in drawn:
        s.query(query.name, query.sql)
    return s.analyze()


def measure_curve(counts: Sequence[int]) -> list[str]:
    """From one query to a hundred, over ten streams of three columns."""
    root = Path(tempfile.mkdtemp(prefix="weft-curve-"))
    rng, columns = np.random.default_rng(5), ("a", "b", "c")
    for stream in range(10):
        (root / f"s{stream}").mkdir()
        for number in range(6):
            table = pa.table({c: rng.integers(0, 50_000, 10_000) for c in columns})
            pq.write_table(table, root / f"s{stream}" / f"{number}.parquet")
    lines = ["queries  distinct  planned s  s/batch of 100,000 rows  rows of state  bytes of state  probed tuples"]
    for count in counts:
        drawn = _chains(count)
        s = weft.Session(root / f"ck{count}", workers=2, progress=False)
        for stream in range(10):
            s.stream(f"s{stream}", weft.read.parquet(root / f"s{stream}", max_files=1))
        for number, sql in enumerate(drawn):
            s.query(f"q{number}", sql).to_memory()
        began = time.perf_counter()
        s.topology  # noqa: B018 - planned here
        planned = time.perf_counter() - began
        report = s.run()
        later = statistics.median(b.seconds for b in report.batches[1:])
        say(f"{count} queries: {later:.2f} s a batch")
        last, probed = report.batches[-1], sum(report.counters.probed.values())
        lines.append(
            f"{count:>7} {len(set(drawn)):>9} {planned:>10.2f} {later:>24.2f} {last.state_rows:>14,}"
            f" {human_bytes(last.state_bytes):>15} {probed:>14,}"
        )
    shutil.rmtree(root, ignore_errors=True)
    return lines


def _chains(count: int) -> list[str]:
    """Chains of three streams joined by random columns."""
    rng, found = random.Random(3), list[str]()
    while len(found) < count:
        x, y, z = rng.sample(range(10), 3)
        a, b, c, d = (rng.choice("abc") for _ in range(4))
        found.append(
            f"SELECT s{x}.{a} AS x, s{y}.{b} AS y, s{z}.{d} AS z FROM s{x}, s{y}, s{z} "
            f"WHERE s{x}.{a} = s{y}.{b} AND s{y}.{c} = s{z}.{d}"
        )
    return found


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--only", default="tpch,ranks,curve")
    parser.add_argument("--counts", default="5,10", help="how many queries over TPC-H")
    parser.add_argument("--seeds", default="0", help="of the queries over TPC-H; 0 is their number")
    parser.add_argument("--overlap", default="0,0.8", help="which part of them goes on from joins of others")
    asked = parser.parse_args()
    counts, seeds = ([int(part) for part in text.split(",")] for text in (asked.counts, asked.seeds))
    for overlap in map(float, asked.overlap.split(",") if "tpch" in asked.only else ()):
        title = f"Queries over TPC-H, {overlap:.0%} of which go on from joins of others"
        block(title, measure_tpch(asked.scale, asked.batches, overlap, counts, seeds))
    if "ranks" in asked.only:
        block("Predicted and measured", measure_ranks(asked.scale, asked.batches))
    if "curve" in asked.only:
        block("Queries of three streams in one session", measure_curve((1, 3, 10, 30, 100)))


if __name__ == "__main__":
    main()
