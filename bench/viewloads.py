"""The aggregates that `bench.views` measures: a join, what is added up, its data.

    reach/N    paths of three arcs by the page they start at, over a web-like graph: page k has in and out arcs in
               proportion to 1 / sqrt(k).  N times as many arcs on the same pages have N^3 times as many paths
    q3         TPC-H Q3 as published, without its order and its limit
    q9         Q9-partial: lineitem, partsupp and the parts with "green" in their name; profit by supplier
    tasks      Google's TaskCount: failed tasks by machine and platform
    groups/N   one stream, N times 5 million rows over the same million of groups

What must hold: all sums are of whole numbers (cents, percents), so that every system has the same bits.  Dates are
whole numbers, too (19950315), and a condition on a text that not all systems have is made a column.  Rows come in
random order, in four batches.  Sizes are those of scale 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from bench.peerloads import Load, count_rows
from bench.peersystems.job import Compare, Join, Measure, OneOf, Step
from bench.skewdata import zipf
from bench.streams import CACHE, SEED, cache_streams
from bench.tpch import generate

BATCHES = 4
ARCS, PAGES = 1_000_000, 200_000
ROWS, GROUPS = 5_000_000, 1_000_000
TASKS = 2_000_000
Tables = Mapping[str, pa.Table]

REACH = Join(
    "arcs1",
    (Step("arcs2", (("to1", "from2"),)), Step("arcs3", (("to2", "from3"),))),
    ("from1",),
    measures=(Measure("paths"),),
)
REACH_COUNTED = """
WITH one AS (SELECT from3 AS page, count(*) AS paths FROM arcs3 GROUP BY page),
     two AS (SELECT from2 AS page, sum(paths) AS paths FROM arcs2 JOIN one ON one.page = to2 GROUP BY from2)
SELECT from1, sum(paths)::BIGINT AS paths FROM arcs1 JOIN two ON two.page = to1 GROUP BY from1"""
"""The same answer without the paths: DuckDB makes them all, and at scale 1 there are hundreds of millions."""
Q3 = Join(
    "customer",
    (Step("orders", (("c_custkey", "o_custkey"),)), Step("lineitem", (("o_orderkey", "l_orderkey"),))),
    ("l_orderkey", "o_orderdate", "o_shippriority"),
    keep=(
        OneOf("c_mktsegment", ("BUILDING",)),
        Compare("o_orderdate", "<", plus=19950315),
        Compare("l_shipdate", ">", plus=19950315),
    ),
    measures=(Measure("revenue", "l_extendedprice * (100 - l_discount)"),),
)
Q9 = Join(
    "lineitem",
    (
        Step("partsupp", (("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey"))),
        Step("part", (("l_partkey", "p_partkey"),)),
    ),
    ("l_suppkey",),
    keep=(Compare("p_green", "=", plus=1),),
    measures=(Measure("profit", "l_extendedprice * (100 - l_discount) - ps_supplycost * l_quantity * 100"),),
)
TASK_COUNT = Join(
    "machine",
    (Step("task", (("m_id", "t_machine"),)), Step("job", (("t_job", "j_id"),))),
    ("m_id", "m_platform"),
    keep=(Compare("t_failed", "=", plus=1),),
    measures=(Measure("failed"),),
)
ONE = Join("event", (), ("e_key",), measures=(Measure("events"), Measure("total", "e_value")))


# ----------------------------------------------------------------------------------------------------- data


def arcs(rng: np.random.Generator, count: int, pages: int) -> dict[str, pa.Table]:
    """The same arcs three times, under different names."""
    ends = [(rng.random(count) ** 2 * pages).astype(np.int64) for _ in range(2)]
    return {f"arcs{i}": pa.table({f"from{i}": ends[0], f"to{i}": ends[1]}) for i in (1, 2, 3)}


def tasks(rng: np.random.Generator, count: int) -> dict[str, pa.Table]:
    """Machines and jobs are 14.8 % of the tasks, as in the trace; jobs follow zipf 1; one task in twenty fails."""
    machines, jobs = max(4, count // 366), max(8, count * 10 // 69)
    job = rng.permutation(jobs)[zipf(rng, 1.0, jobs, count)]
    failed = (rng.random(count) < 0.05).astype(np.int64)
    return {
        "machine": pa.table({"m_id": np.arange(machines), "m_platform": np.arange(machines) % 3}),
        "task": pa.table({"t_job": job, "t_machine": rng.integers(0, machines, count), "t_failed": failed}),
        "job": pa.table({"j_id": np.arange(jobs), "j_class": np.arange(jobs) % 4}),
    }


def events(rng: np.random.Generator, count: int, groups: int) -> dict[str, pa.Table]:
    """Every group is as likely as any other."""
    values = rng.integers(0, 1_000, count)
    return {"event": pa.table({"e_key": rng.integers(0, groups, count), "e_value": values})}


TPCH: Mapping[str, Mapping[str, str]] = {
    "q3": {
        "customer": "c_custkey, c_mktsegment",
        "orders": "o_orderkey, o_custkey, {date:o_orderdate}, o_shippriority",
        "lineitem": "l_orderkey, {cents:l_extendedprice}, {cents:l_discount}, {date:l_shipdate}",
    },
    "q9": {
        "lineitem": "l_partkey, l_suppkey, {whole:l_quantity}, {cents:l_extendedprice}, {cents:l_discount}",
        "partsupp": "ps_partkey, ps_suppkey, {cents:ps_supplycost}",
        "part": "p_partkey, contains(p_name, 'green')::BIGINT AS p_green",
    },
}
"""Query -> table -> columns; money and percents as hundredths, dates as numbers."""


class _As:
    """`{cents:x}` in a list of columns is column x, made a whole number."""

    def __init__(self, number: str) -> None:
        self.number = number

    def __format__(self, column: str) -> str:
        return f"({self.number.format(column)})::BIGINT AS {column}"


WHOLE = {"whole": _As("{}"), "cents": _As("{} * 100"), "date": _As("strftime({}, '%Y%m%d')")}


def tpch(name: str, scale: float) -> dict[str, pa.Table]:
    """The tables of one query."""
    made = {}
    with duckdb.connect() as db:
        for table, columns in TPCH[name].items():
            chosen = columns.format(**WHOLE)
            made[table] = db.sql(f"SELECT {chosen} FROM '{generate(scale, table)}'").to_arrow_table()
    return {table: _plain(found) for table, found in made.items()}


def _plain(table: pa.Table) -> pa.Table:
    """Strings of the usual kind, as all readers know them."""
    kinds = [pa.int64() if pa.types.is_integer(field.type) else pa.string() for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))


# ----------------------------------------------------------------------------------------------------- loads


def _load(name: str, join: Join, key: str, make: Callable[[], Tables], truth: str | None = None) -> Load:
    folder = cache_streams(CACHE / f"views-{key}-{BATCHES}-{SEED}", make, BATCHES)
    return Load(name, join, folder, BATCHES, {s: count_rows(folder / s) for s in join.streams}, truth)


def reach(times: int, scale: float) -> Load:
    """Paths of three arcs."""
    count, pages = round(ARCS * scale) * times, max(2, round(PAGES * scale))
    make = lambda: arcs(np.random.default_rng([SEED, count]), count, pages)
    return _load(f"reach/{times}", REACH, f"reach-{count}-{pages}", make, REACH_COUNTED)


def _tpch_load(name: str, scale: float) -> Load:
    return _load(name, {"q3": Q3, "q9": Q9}[name], f"{name}-sf{scale:g}", partial(tpch, name, scale))


def task_count(scale: float) -> Load:
    """Failed tasks."""
    count = round(TASKS * scale)
    return _load("tasks", TASK_COUNT, f"tasks-{count}", lambda: tasks(np.random.default_rng([SEED, count]), count))


def groups(times: int, scale: float) -> Load:
    """Many groups of one stream."""
    count, many = round(ROWS * scale) * times, max(2, round(GROUPS * scale))
    make = lambda: events(np.random.default_rng([SEED, count]), count, many)
    return _load(f"groups/{times}", ONE, f"groups-{count}-{many}", make)


LOADS: Mapping[str, Callable[[float], Load]] = {
    "reach/1": partial(reach, 1),
    "reach/2": partial(reach, 2),
    "reach/4": partial(reach, 4),
    "q3": partial(_tpch_load, "q3"),
    "q9": partial(_tpch_load, "q9"),
    "tasks": task_count,
    "groups/1": partial(groups, 1),
    "groups/2": partial(groups, 2),
}
"""Name -> what makes it at a scale."""
