"""The workloads that every system gets: a join, its data, how many batches.

    q2, q3, q5, q9     joins of TPC-H, equality only, rows in random order, in 4 and in 20 batches; q5 is a cycle, q9
                       is lineitem, partsupp and part ("Q9-partial")
    window             four streams in a chain at a steady rate, all rows of a result within ten seconds
    band               two streams without a common key: at most five seconds apart, and a price below a limit
    star               five streams on one key, with one row per key in each
    nexmark-qN         the join of Nexmark's query: q8 without its grouping, with the window as an equality; q9 all bids
                       of an open auction without the choice of the highest; q3, q20 and q23 as published, fewer columns

What must hold: one seed, one answer.  Sizes are those of scale 1; a scale multiplies the rows of every stream.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import nexmark
from bench.chains import even_keys
from bench.peeranswers import is_parquet, settled
from bench.peersystems.job import Compare, Join, OneOf, Step
from bench.streams import CACHE, SEED, cache_streams
from bench.tpch import COLUMNS, Columns, streams
from bench.workload import Answer, sum_answer

KINDS = {"int32": "int", "int64": "bigint", "double": "double", "string": "string"}
CASTS = {"int": "BIGINT", "bigint": "BIGINT", "double": "DOUBLE", "string": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class Load:
    """One workload, made."""

    name: str
    join: Join
    folder: Path
    batches: int
    rows: Mapping[str, int]
    truth_sql: str | None = None
    """Another statement with the same answer, where that of the join would take too long."""
    span: int = 0
    """Milliseconds by which rows may be out of order where files are read in any order: all of the time there is."""

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    @property
    def schemas(self) -> dict[str, dict[str, str]]:
        return {name: _schema(self.folder / name) for name in self.join.streams}

    def truth(self) -> Answer:
        """The right answer, found once."""
        kept = self.folder / f"answer-{self.name.partition('/')[0]}.json"
        if not kept.exists():
            with duckdb.connect() as oracle:
                oracle.execute("SET disabled_optimizers = 'join_order'")
                for name in self.join.streams:
                    oracle.execute(f"CREATE VIEW {name} AS FROM read_parquet('{self.folder / name}/*.parquet')")
                kept.write_text(json.dumps(sum_answer(oracle, self._cast(f"({self.truth_sql or self.join.sql()})"))))
        count, total = json.loads(kept.read_text())
        return count, total

    def answer(self, results: Path) -> Answer:
        """The answer that a system wrote, as Parquet or CSV; files that are not committed have a dot before them."""
        files = [p for p in results.glob("*") if p.is_file() and p.stat().st_size and p.name[0] not in "._"]
        if not files:
            return 0, 0
        names = [str(p) for p in files]
        with duckdb.connect() as oracle:
            return sum_answer(oracle, self._cast(self._reading(names)))

    def _reading(self, names: list[str]) -> str:
        if self.join.measures:
            return settled(names, self.join)
        if not any(name.endswith(".csv") for name in names) and is_parquet(names[0]):
            return f"read_parquet({names})"
        if names[0].endswith(".csv"):
            return f"read_csv({names}, header = true, all_varchar = true)"
        columns = dict.fromkeys(self.join.select, "VARCHAR")
        return f"read_csv({names}, header = false, columns = {columns})"

    def _cast(self, relation: str) -> str:
        kinds = {column: kind for schema in self.schemas.values() for column, kind in schema.items()}
        kinds |= {measure.name: "bigint" for measure in self.join.measures}
        casts = ", ".join(f"CAST({c} AS {CASTS[kinds[c]]}) AS {c}" for c in self.join.outputs)
        return f"SELECT {casts} FROM {relation}"

    def whole(self) -> None:
        """Every stream as one Parquet file, in order, for readers that take files in any order."""
        for name in self.join.streams:
            file = self.folder / "whole" / name / "all.parquet"
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                parts = sorted((self.folder / name).glob("*.parquet"))
                pq.write_table(pa.concat_tables(pq.read_table(part) for part in parts), file.with_suffix(".new"))
                file.with_suffix(".new").rename(file)

    def csv(self, kind: str) -> None:
        """The streams as CSV beside the Parquet files: `csv` with a line of names, `bare` without."""
        for name in self.join.streams:
            folder = self.folder / kind / name
            if (folder / ".done").exists():
                continue
            folder.mkdir(parents=True, exist_ok=True)
            for file in sorted((self.folder / name).glob("*.parquet")):
                copy = f"COPY (FROM '{file}') TO '{folder / file.stem}.csv' (HEADER {str(kind == 'csv').lower()})"
                with duckdb.connect() as oracle:
                    oracle.execute(copy)
            (folder / ".done").touch()


# -------------------------------------------------------------------------------------------------- TPC-H

Q9: Columns = {
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice"),
    "partsupp": ("ps_partkey", "ps_suppkey", "ps_supplycost"),
    "part": ("p_partkey", "p_size"),
}
TPCH: Mapping[str, Join] = {
    "q2": Join(
        "part",
        (
            Step("partsupp", (("p_partkey", "ps_partkey"),)),
            Step("supplier", (("ps_suppkey", "s_suppkey"),)),
            Step("nation", (("s_nationkey", "n_nationkey"),)),
            Step("region", (("n_regionkey", "r_regionkey"),)),
        ),
        ("p_partkey", "p_size", "ps_supplycost", "s_suppkey", "n_nationkey", "r_regionkey"),
    ),
    "q3": Join(
        "customer",
        (Step("orders", (("c_custkey", "o_custkey"),)), Step("lineitem", (("o_orderkey", "l_orderkey"),))),
        (
            "c_custkey",
            "c_nationkey",
            "c_acctbal",
            "o_orderkey",
            "o_totalprice",
            "l_partkey",
            "l_suppkey",
            "l_quantity",
            "l_extendedprice",
        ),
    ),
    "q5": Join(
        "customer",
        (
            Step("orders", (("c_custkey", "o_custkey"),)),
            Step("lineitem", (("o_orderkey", "l_orderkey"),)),
            Step("supplier", (("l_suppkey", "s_suppkey"), ("c_nationkey", "s_nationkey"))),
        ),
        ("c_custkey", "o_orderkey", "l_extendedprice", "s_suppkey", "s_nationkey"),
    ),
    "q9": Join(
        "lineitem",
        (
            Step("partsupp", (("l_partkey", "ps_partkey"), ("l_suppkey", "ps_suppkey"))),
            Step("part", (("l_partkey", "p_partkey"),)),
        ),
        ("l_orderkey", "l_quantity", "l_extendedprice", "ps_suppkey", "ps_supplycost", "p_partkey", "p_size"),
    ),
}


def _tpch(name: str, batches: int, scale: float) -> Load:
    folder, rows = streams(name, {**COLUMNS, "q9": Q9}[name], scale, batches)
    return Load(f"{name}/{batches}", TPCH[name], folder, batches, rows)


# ------------------------------------------------------------------------------------------------- in time

CHAIN = Join(
    "r1",
    (Step("r2", (("b1", "a2"),)), Step("r3", (("b2", "a3"),)), Step("r4", (("b3", "a4"),))),
    ("id1", "id2", "id3", "id4"),
    times=(("r1", "t1"), ("r2", "t2"), ("r3", "t3"), ("r4", "t4")),
    within=10_000,
)
BAND = Join(
    "offer",
    (
        Step(
            "wish",
            where=(
                Compare("w_ts", ">=", "o_ts", -5_000),
                Compare("w_ts", "<=", "o_ts", 5_000),
                Compare("w_limit", ">", "o_price"),
            ),
        ),
    ),
    ("o_id", "o_price", "w_id", "w_limit"),
)
STAR = Join(
    "hub",
    tuple(Step(f"s{i}", (("k", f"k{i}"),)) for i in range(1, 5)),
    ("k", "x", "x1", "x2", "x3", "x4"),
)


def _chain_tables(size: int) -> dict[str, pa.Table]:
    """250 rows a second of each stream; a row meets one partner of each neighbour within ten seconds."""
    rng, keys = np.random.default_rng(SEED), 2_500
    found = {}
    for i in range(1, 5):
        columns = {f"id{i}": np.arange(size), f"t{i}": np.sort(rng.integers(0, size * 4, size=size))}
        columns |= {f"a{i}": rng.integers(keys, size=size)} if i > 1 else {}
        columns |= {f"b{i}": rng.integers(keys, size=size)} if i < 4 else {}
        found[f"r{i}"] = pa.table(columns)
    return found


def _band_tables(size: int) -> dict[str, pa.Table]:
    """A hundred rows a second of each stream; a row has a thousand others in its band, one of them below the limit."""
    rng = np.random.default_rng(SEED)
    times = [np.sort(rng.integers(0, size * 10, size=size)) for _ in range(2)]
    ids = np.arange(size)
    price, limit = rng.integers(0, 1_000_000, size=size), rng.integers(0, 2_000, size=size)
    return {
        "offer": pa.table({"o_id": ids, "o_ts": times[0], "o_price": price}),
        "wish": pa.table({"w_id": ids, "w_ts": times[1], "w_limit": limit}),
    }


def _star_tables(size: int) -> dict[str, pa.Table]:
    rng = np.random.default_rng(SEED)
    hub = {"hub": pa.table({"k": even_keys(rng, size, size), "x": np.arange(size)})}
    return hub | {
        f"s{i}": pa.table({f"k{i}": even_keys(rng, size, size), f"x{i}": rng.random(size)}) for i in range(1, 5)
    }


# ------------------------------------------------------------------------------------------------- Nexmark

NEXMARK: Mapping[str, tuple[Join, int]] = {
    "q3": (
        Join(
            "auction",
            (Step("person", (("a_seller", "p_id"),)),),
            ("p_name", "p_city", "p_state", "a_id"),
            keep=(Compare("a_category", "=", plus=10), OneOf("p_state", ("OR", "ID", "CA"))),
        ),
        25_000_000,
    ),
    "q8": (
        Join(
            "person",
            (Step("auction", (("p_id", "a_seller"), ("p_window", "a_window"))),),
            ("p_id", "p_name", "p_window", "a_id"),
        ),
        25_000_000,
    ),
    "q9": (
        Join(
            "auction",
            (
                Step(
                    "bid",
                    (("a_id", "b_auction"),),
                    (Compare("b_ts", ">=", "a_ts"), Compare("b_ts", "<=", "a_expires")),
                ),
            ),
            ("a_id", "a_item", "a_reserve", "a_seller", "a_category", "b_bidder", "b_price", "b_ts"),
        ),
        2_000_000,
    ),
    "q20": (
        Join(
            "bid",
            (Step("auction", (("b_auction", "a_id"),)),),
            ("b_auction", "b_bidder", "b_price", "b_channel", "b_ts", "a_item", "a_reserve", "a_seller", "a_expires"),
            keep=(Compare("a_category", "=", plus=10),),
        ),
        2_000_000,
    ),
    "q23": (
        Join(
            "bid",
            (Step("person", (("b_bidder", "p_id"),)), Step("auction", (("p_id", "a_seller"),))),
            ("b_bidder", "b_price", "b_channel", "p_name", "p_city", "a_id", "a_item", "a_reserve"),
        ),
        2_000_000,
    ),
}
"""Query -> its join, and how many events (persons, auctions and bids) at scale 1: about two million rows to join."""


# ----------------------------------------------------------------------------------------------------- all


def _in_time(name: str, join: Join, make: Callable[[int], dict[str, pa.Table]], size: int, scale: float) -> Load:
    """A workload in the order of time, ten batches."""
    batches, count = 10, max(50, int(size * scale))
    folder = cache_streams(CACHE / f"peers-{name}-{count}-{SEED}", partial(make, count), batches, in_order=True)
    rows = {stream: count_rows(folder / stream) for stream in join.streams}
    last = dict(join.times).get(join.first)
    span = 0 if last is None else _last(folder / join.first, last)
    return Load(name, join, folder, batches, rows, span=span)


def _nexmark(name: str, scale: float) -> Load:
    join, events = NEXMARK[name]

    return _in_time(f"nexmark-{name}", join, lambda count: nexmark.tables(count, SEED, join.streams), events, scale)


def _star(scale: float) -> Load:
    return _in_time("star", STAR, _star_tables, 400_000, scale)


LOADS: Mapping[str, Callable[[float], Load]] = {
    **{f"{name}/{batches}": partial(_tpch, name, batches) for name in ("q3", "q5", "q9", "q2") for batches in (4, 20)},
    "window": partial(_in_time, "window", CHAIN, _chain_tables, 500_000),
    "band": partial(_in_time, "band", BAND, _band_tables, 200_000),
    "star": _star,
    **{f"nexmark-{name}": partial(_nexmark, name) for name in NEXMARK},
}
"""Name -> what makes it at a scale."""


def loader(name: str) -> Callable[[float], Load] | None:
    """What makes a workload; TPC-H joins can be had in any number of batches."""
    shape, _, batches = name.partition("/")
    if shape in TPCH and batches.isdecimal() and int(batches):
        return partial(_tpch, shape, int(batches))
    return LOADS.get(name)


def _schema(folder: Path) -> dict[str, str]:
    first = min(folder.glob("*.parquet"))
    return {field.name: KINDS[str(field.type)] for field in pq.read_schema(first)}


def count_rows(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.glob("*.parquet"))


def _last(folder: Path, column: str) -> int:
    table = pq.read_table(max(folder.glob("*.parquet")), columns=[column])
    return int(table[column][-1].as_py())
