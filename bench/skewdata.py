"""Joins with uneven keys as workloads, small enough for one machine and as uneven as those of Squall.

    tpch9   Part, PartSupp, Lineitem; parts of lines follow zipf 2, suppliers are those of the part
    reach   arcs of a graph, three times in a row
    hub     arcs into a hub page, arcs out of it, and content of pages that link to it
    tasks   tasks with their machine and job; jobs follow zipf 1

What is known of a workload is what `s.analyze()` finds in its files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.runs import Setting, open_session
from bench.skewsim import supplier
from bench.streams import CACHE, SEED, cache_streams
from bench.workload import Workload
from weft.kernels.codes import Ints
from weft.stats.model import Statistics


@dataclass(frozen=True, slots=True)
class Skewed(Workload):
    """A workload whose statistics were measured."""

    known: Statistics

    @property
    def statistics(self) -> Statistics:
        """What was measured."""
        return self.known


Made = tuple[str, Mapping[str, pa.Table]]
"""SQL, and the streams it joins."""


def zipf(rng: np.random.Generator, exponent: float, values: int, n: int) -> Ints:
    """Ranks from 0; rank k comes with a frequency of 1 / (k + 1)^exponent."""
    weights = 1 / np.arange(1, values + 1) ** exponent
    return np.searchsorted(np.cumsum(weights / weights.sum()), rng.random(n)).astype(np.int64).clip(0, values - 1)


def tpch9(rng: np.random.Generator, lines: int) -> Made:
    """The third, 22nd, and so on of the most frequent parts pass the filter, one in nineteen as in TPC-H."""
    parts = max(40, lines // 30)
    suppliers = max(8, parts // 20)
    order = rng.permutation(parts) + 1
    part = order[zipf(rng, 2.0, parts, lines)]
    green = order[2::19]
    pairs = np.arange(4 * parts)
    tables = {
        "part": pa.table({"p_partkey": green, "p_size": np.arange(len(green)) % 50}),
        "partsupp": pa.table(
            {
                "ps_partkey": pairs // 4 + 1,
                "ps_suppkey": supplier(pairs // 4 + 1, pairs % 4, suppliers),
                "ps_supplycost": pairs % 997,
            }
        ),
        "lineitem": pa.table(
            {
                "l_partkey": part,
                "l_suppkey": supplier(part, rng.integers(0, 4, lines), suppliers),
                "l_price": np.arange(lines),
            }
        ),
    }
    sql = """
SELECT p_partkey, p_size, ps_supplycost, l_price
FROM part
JOIN partsupp ON ps_partkey = p_partkey
JOIN lineitem ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey"""
    return sql, tables


def reach(rng: np.random.Generator, arcs: int) -> Made:
    """Ends fall as x^-1/2 over twice as many pages as there are arcs."""
    ends = {end: (rng.random(arcs) ** 2 * 2 * arcs).astype(np.int64) for end in ("src", "dst")}
    sql = """
SELECT w1.src AS a, w1.dst AS b, w2.dst AS c, w3.dst AS d
FROM web w1
JOIN web w2 ON w2.src = w1.dst
JOIN web w3 ON w3.src = w2.dst"""
    return sql, {"web": pa.table(ends)}


def hub(rng: np.random.Generator, pages: int) -> Made:
    """Page 0 is the hub; of the pages that link to it few are crawled, so that results stay few."""
    into, out, crawled = max(2, pages // 40), max(4, pages // 11), 20
    sources = rng.choice(np.arange(1, 10 * pages), into, replace=False)
    targets = rng.integers(1, 10 * pages, out)
    urls = np.setdiff1d(np.arange(1, 10 * pages), sources)
    urls = np.concatenate([rng.choice(urls, pages, replace=False), sources[:crawled]])
    others = rng.integers(1, 10 * pages, (2, pages // 4))
    src = np.concatenate([sources, np.zeros(out, np.int64), others[0]])
    dst = np.concatenate([np.zeros(into, np.int64), targets, others[1]])
    tables = {
        "web": pa.table({"src": src, "dst": dst}),
        "content": pa.table({"url": urls, "score": np.arange(len(urls)) % 101}),
    }
    sql = """
SELECT w1.src AS a, w2.dst AS c, content.score
FROM web w1
JOIN web w2 ON w2.src = w1.dst
JOIN content ON content.url = w1.src
WHERE w1.dst = 0 AND w2.src = 0"""
    return sql, tables


def tasks(rng: np.random.Generator, count: int) -> Made:
    """Machines and jobs are 14.8 % of the tasks, as in the trace; all tasks of a job are on a few machines."""
    machines, jobs = max(4, count // 366), max(8, count * 10 // 69)
    job = rng.permutation(jobs)[zipf(rng, 1.0, jobs, count)]
    tables = {
        "machine": pa.table({"m_id": np.arange(machines), "m_platform": np.arange(machines) % 3}),
        "job": pa.table({"j_id": np.arange(jobs), "j_class": np.arange(jobs) % 4}),
        "task": pa.table(
            {"t_job": job, "t_machine": rng.integers(0, machines, count), "t_number": np.arange(count)},
        ),
    }
    sql = """
SELECT m_id, m_platform, j_class, t_number
FROM machine
JOIN task ON t_machine = m_id
JOIN job ON j_id = t_job"""
    return sql, tables


MAKERS: Mapping[str, tuple[Callable[[np.random.Generator, int], Made], int]] = {
    "tpch9": (tpch9, 1_200_000),
    "reach": (reach, 200_000),
    "hub": (hub, 220_000),
    "tasks": (tasks, 1_000_000),
}
"""Workload -> how it is made, and how large."""


def workload(name: str, share: float, batches: int, cache: Path = CACHE) -> Skewed:
    """A workload at a share of its usual size."""
    maker, usual = MAKERS[name]
    size = round(usual * share)
    sql, tables = maker(np.random.default_rng([SEED, size]), size)
    folder = cache_streams(cache / f"skew-{name}-{size}-{batches}", lambda: tables, batches)
    rows = {stream: table.num_rows for stream, table in tables.items()}
    made = Skewed(name, folder, sql, rows, {}, Statistics())
    with tempfile.TemporaryDirectory() as aside, open_session(made, Setting("", "flat"), Path(aside)) as s:
        return replace(made, known=s.analyze())


def most_frequent(workload: Workload, stream: str, column: str) -> float:
    """The share of the most frequent value."""
    values = pa.concat_tables(batch[stream] for batch in workload.batches()).column(column)
    counts = pc.value_counts(values).field("counts")
    return pc.max(counts).as_py() / len(values)
