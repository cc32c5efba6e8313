"""All queries of TPC-H as continuous views over its eight tables, compared with DuckDB after every batch.

    python -m bench.published_views --scale 0.1 --batches 4         in this process
    python -m bench.published_views --scale 0.01 --spark Q3 Q13     some of them, on Spark

All tables are streams: their rows come in a random order, evenly, so every join sees partners in both orders.  Each
query runs in a session of its own.  A line says how many batches were right, how large the last answer is, and how
long Weft took for the batches, DuckDB for one answer over all rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from bench.published import TPCH
from bench.streams import SEED
from bench.tpch import generate
from weft.expr.types import normalize_schema
from weft.testing import Trial, assert_same_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
TOLERANCE = 1e-9
"""Averages are floats, and depend on the order in which they are added up."""


def batches_of(scale: float, count: int) -> list[dict[str, pa.Table]]:
    """The rows of every batch, by table."""
    found: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    for place, name in enumerate(TABLES):
        table = pq.read_table(generate(scale, name))
        table = table.cast(normalize_schema(table.schema))
        table = table.take(pa.array(np.random.default_rng(SEED + place).permutation(table.num_rows)))
        cuts = np.rint(np.linspace(0, table.num_rows, count + 1)).astype(int)
        for number, batch in enumerate(found):
            batch[name] = table.slice(cuts[number], cuts[number + 1] - cuts[number]).combine_chunks()
    return found


class Answers:
    """DuckDB over the rows that have come."""

    def __init__(self) -> None:
        self.duck, self.seconds = duckdb.connect(), 0.0

    def add(self, batch: Mapping[str, pa.Table]) -> None:
        """More rows."""
        for name, table in batch.items():
            self.duck.register("more", table)
            known = self.duck.execute(f"SELECT 1 FROM duckdb_tables() WHERE table_name = '{name}'").fetchone()
            what = f"INSERT INTO {name}" if known else f"CREATE TABLE {name} AS"
            self.duck.execute(f"{what} SELECT * FROM more")
            self.duck.unregister("more")

    def of(self, text: str) -> pa.Table:
        """The answer now."""
        began = time.perf_counter()
        found = self.duck.sql(text).to_arrow_table()
        self.seconds = time.perf_counter() - began
        return found


class Fed:
    """A query in this process, fed by hand."""

    def __init__(self, text: str, batches: Sequence[Mapping[str, pa.Table]], workers: int) -> None:
        session = weft.Session("never-made", workers=workers, progress=False)
        for name, table in batches[0].items():
            session.stream(name, weft.read.batches([table.slice(0, 0)]))
        session.query("q", text)
        self.trial, self.batches = Trial(session), batches

    def views(self) -> Iterator[pa.Table]:
        """The view after every batch."""
        for batch in self.batches:
            self.trial.feed(batch)
            yield self.trial.table("q")


class Run:
    """A query on Spark: a function of the user asks for the view after every batch."""

    def __init__(self, text: str, batches: Sequence[Mapping[str, pa.Table]], spark: SparkSession, folder: str) -> None:
        self.session = weft.Session(folder, spark=spark, progress=False)
        for name in TABLES:
            self.session.stream(name, weft.read.batches([batch[name] for batch in batches]))
        self.query = self.session.query("q", text).to_memory()

    def views(self) -> Iterator[pa.Table]:
        """The view at the end: the run is one, however many batches it has."""
        self.session.run()
        yield self.query.table()


@contextmanager
def opened(
    text: str, batches: Sequence[Mapping[str, pa.Table]], workers: int, spark: SparkSession | None
) -> Iterator[Fed | Run]:
    """A query at work."""
    if spark is None:
        yield Fed(text, batches, workers)
        return
    with tempfile.TemporaryDirectory(prefix="weft-tpch-") as folder:
        yield Run(text, batches, spark, folder)


def check(name: str, batches: Sequence[Mapping[str, pa.Table]], workers: int, spark: SparkSession | None) -> str:
    """Compare one query; what there is to say of it."""
    answers, spent, compared = Answers(), 0.0, 0
    with opened(TPCH[name], batches, workers, spark) as work:
        began, views = time.perf_counter(), work.views()
        steps = [*batches] if spark is None else [_all(batches)]
        for batch in steps:
            found = next(views)
            spent += time.perf_counter() - began
            answers.add(batch)
            right = answers.of(TPCH[name])
            assert_same_rows(found, right.cast(found.schema), f"{name}, batch {compared}: ", tolerance=TOLERANCE)
            compared, began = compared + 1, time.perf_counter()
    what = "batches" if spark is None else "end"
    return (
        f"{name:4} right after {compared} {what}, {right.num_rows} rows, {spent:.1f} s (DuckDB {answers.seconds:.2f} s)"
    )


def _all(batches: Sequence[Mapping[str, pa.Table]]) -> dict[str, pa.Table]:
    return {name: pa.concat_tables([batch[name] for batch in batches]) for name in TABLES}


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.published_views", description="TPC-H as views")
    parser.add_argument("queries", nargs="*", default=[], help="such as Q3; all if none is named")
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor")
    parser.add_argument("--batches", type=int, default=4, help="in how many parts rows come")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--spark", action="store_true", help="on Spark, compared at the end")
    args = parser.parse_args()
    names = args.queries or sorted(TPCH, key=lambda name: int(name[1:]))
    batches, spark, failed = batches_of(args.scale, args.batches), _spark(args) if args.spark else None, 0
    for name in names:
        try:
            print(check(name, batches, args.workers, spark), flush=True)
        except Exception:  # noqa: BLE001 - the others are still to be compared
            failed += 1
            print(f"{name:4} FAILED\n{traceback.format_exc(limit=-4)[-2000:]}", flush=True)
    print(
        f"TPC-H, scale {args.scale:g}, {args.batches} batches: {len(names) - failed} of {len(names)} right", flush=True
    )
    return 1 if failed else 0


def _spark(args: Any) -> SparkSession:
    from weft.launch.spark import local_session

    return local_session(args.workers)


if __name__ == "__main__":
    sys.exit(main())
