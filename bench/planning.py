"""What planning costs: milliseconds of one core for a query, by its aliases and by the queries of a session.

    python -m bench.planning [--workers 2] [--repeats 5]

The queries are TPC-H joins over two to six streams, with windows and selections that differ.  Nothing runs on Spark.

    plan      choosing a plan for each query, with statistics given by hand and all caches cold
    together  choosing the plans of all queries together after that; milliseconds in all
    glance    looking at samples of the sources, where no statistics are given
    explain   all that `s.explain()` does: the glance, the plans of all queries, the topology, the text
    assemble  putting the chosen plans of all queries into one topology and checking it; milliseconds in all, since what
              queries share is assembled once
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Iterator
from functools import lru_cache, partial

import numpy as np
import pyarrow as pa

import weft
from bench.machine import machine_line
from bench.saying import block
from weft.optimizer.choose import Choice
from weft.optimizer.joint.together import choose_together
from weft.optimizer.known import Known
from weft.optimizer.plan import choices, topology
from weft.optimizer.wishes import Wishes
from weft.query.model import Query

ROWS = {"customer": 150_000, "orders": 1_500_000, "lineitem": 6_001_215, "supplier": 10_000, "nation": 25, "region": 5}
KEYS = {
    "customer": {"c_custkey": 150_000, "c_nationkey": 25},
    "orders": {"o_orderkey": 1_500_000, "o_custkey": 99_996},
    "lineitem": {"l_orderkey": 1_500_000, "l_suppkey": 10_000},
    "supplier": {"s_suppkey": 10_000, "s_nationkey": 25},
    "nation": {"n_nationkey": 25, "n_regionkey": 5},
    "region": {"r_regionkey": 5},
}
"""Stream -> key -> how many values it has."""
JOINS = (
    ("customer c", ""),
    ("orders o", "o.o_custkey = c.c_custkey"),
    ("lineitem l", "l.l_orderkey = o.o_orderkey"),
    ("supplier s", "s.s_suppkey = l.l_suppkey AND s.s_nationkey = c.c_nationkey"),
    ("nation n", "n.n_nationkey = s.s_nationkey"),
    ("region r", "r.r_regionkey = n.n_regionkey"),
)
WINDOWS = ("", " WITHIN INTERVAL '1' MINUTE", " WITHIN INTERVAL '10' MINUTE", " WITHIN INTERVAL '1' HOUR")
SAMPLED = 20_000
"""Rows of each stream in a session that samples its sources."""


def main() -> None:
    """Measure and print everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    print(f"planning for {asked.workers} workers; milliseconds a query, best of {asked.repeats}; {machine_line()}")
    block("aliases     plan", by_aliases(asked.workers, asked.repeats))
    block(
        "queries     plan    glance   explain    assemble, in all    together, in all",
        by_queries(asked.workers, asked.repeats),
    )


def by_aliases(workers: int, repeats: int) -> Iterator[str]:
    """A query over two to six streams."""
    for aliases in range(2, len(JOINS) + 1):
        queries = [parse(aliases, number) for number in range(4)]
        yield f"{aliases:7} {plan(queries, workers, repeats):8.1f}"


def by_queries(workers: int, repeats: int) -> Iterator[str]:
    """Sessions of many queries over three streams."""
    for count in (1, 20, 200):
        queries = [parse(3, number) for number in range(count)]
        times = plan(queries, workers, repeats), glance(count, repeats), explain(count, workers, repeats)
        columns = " ".join(f"{milliseconds:9.1f}" for milliseconds in times)
        rest = assemble(queries, workers, repeats), together(queries, workers, repeats)
        yield f"{count:7}{columns} {rest[0]:19.1f} {rest[1]:19.1f}"


def plan(queries: list[Query], workers: int, repeats: int) -> float:
    """Choosing plans, with statistics given by hand."""
    given = known()
    return best(lambda: lambda: choose(queries, workers, given), repeats) / len(queries)


def assemble(queries: list[Query], workers: int, repeats: int) -> float:
    """Putting chosen plans into one topology and checking it, all queries together."""
    return best(lambda: partial(topology, choose(queries, workers, known())), repeats)


def choose(queries: list[Query], workers: int, given: weft.Statistics) -> tuple[Choice, ...]:
    """The plan of each query."""
    named = {f"q{number}": query for number, query in enumerate(queries)}
    return choices(named, workers, dict.fromkeys(named, Wishes()), dict.fromkeys(named, Known(given)), "local")


def together(queries: list[Query], workers: int, repeats: int) -> float:
    """Choosing the plans of all queries together."""
    return best(lambda: partial(choose_together, choose(queries, workers, known())), repeats)


def glance(count: int, repeats: int) -> float:
    """Measuring samples of the sources."""
    return best(lambda: session(count).analyze, repeats) / count


def explain(count: int, workers: int, repeats: int) -> float:
    """All that `s.explain()` does."""
    return best(lambda: session(count, workers).explain, repeats) / count


def best(prepare: Callable[[], Callable[[], object]], repeats: int) -> float:
    """The shortest of some runs, in milliseconds of this process; preparing is not measured."""
    found = []
    for _ in range(repeats):
        run = prepare()
        forget()
        began = time.process_time()
        run()
        found.append(time.process_time() - began)
    return min(found) * 1e3


def forget() -> None:
    """Empty the caches of the package."""
    kind = type(lru_cache(maxsize=1)(len))
    for found in gc.get_objects():
        if isinstance(found, kind) and str(getattr(found, "__module__", "")).startswith("weft"):
            found.cache_clear()


# ------------------------------------------------------------------------------------------------- queries


def sql(aliases: int, number: int) -> str:
    """A join of the first streams; every number has another selection, every fourth number the same windows."""
    window, (first, _) = WINDOWS[number % len(WINDOWS)], JOINS[0]
    joined = "".join(f" JOIN {stream}{window} ON {on}" for stream, on in JOINS[1:aliases])
    return f"SELECT c.c_custkey FROM {first}{window}{joined} WHERE c.c_nationkey > {number % 24}"


def parse(aliases: int, number: int) -> Query:
    """The same join as a query."""
    s = weft.Session(checkpoint="never-made", progress=False)
    for name in KEYS:
        s.stream(name, weft.read.batches([rows(name, 0)]), event_time="ts")
    return s.query("q", sql(aliases, number)).query


def session(count: int, workers: int = 2) -> weft.Session:
    """A session of queries over three streams, with rows to sample."""
    s = weft.Session(checkpoint="never-made", workers=workers, progress=False)
    for name in ("customer", "orders", "lineitem"):
        s.stream(name, weft.read.batches([rows(name, SAMPLED)]), event_time="ts")
    for number in range(count):
        s.query(f"q{number}", sql(3, number))
    return s


def rows(name: str, count: int) -> pa.Table:
    """Rows of a stream; keys are uneven, so that frequent values are found and weighed."""
    random = np.random.default_rng(len(name))
    keys = {key: (random.pareto(1.0, count) * 10).astype(np.int64) % values for key, values in KEYS[name].items()}
    return pa.table({**keys, "ts": pa.array(np.arange(count) * 1000).cast(pa.timestamp("us"))})


def known() -> weft.Statistics:
    """TPC-H at scale factor 1 in an hour, with some frequent values."""
    distinct = {f"{name}.{key}": count for name, keys in KEYS.items() for key, count in keys.items()}
    heavy = {key: [(value, 0.2 / (value + 1)) for value in range(min(12, count))] for key, count in distinct.items()}
    rates = {name: count / 3600 for name, count in ROWS.items()}
    return weft.Statistics(ROWS, rates=rates, distinct=distinct, heavy=heavy)


if __name__ == "__main__":
    main()
