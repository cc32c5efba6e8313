"""TPC-H tables as streams, cut to the columns a workload needs, and the joins of Q2, Q3 and Q5 over them.

Equality joins only: no selection, no aggregate, no subquery (MultiStream, 000, V).  Q5 is the cycle of four relations
of 001 section 5, nation and region left out; `q5six` has all six.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.streams import CACHE, cache_streams
from bench.workload import Pair, Workload

Columns = Mapping[str, tuple[str, ...]]

Q3_COLUMNS: Columns = {
    "customer": ("c_custkey", "c_nationkey", "c_acctbal"),
    "orders": ("o_orderkey", "o_custkey", "o_totalprice"),
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice"),
}
_CYCLE: Columns = {
    "customer": ("c_custkey", "c_nationkey"),
    "orders": ("o_orderkey", "o_custkey"),
    "lineitem": ("l_orderkey", "l_suppkey", "l_extendedprice"),
    "supplier": ("s_suppkey", "s_nationkey"),
}
_PLACES: Columns = {"nation": ("n_nationkey", "n_regionkey"), "region": ("r_regionkey",)}
COLUMNS: Mapping[str, Columns] = {
    "q2": {
        "part": ("p_partkey", "p_size"),
        "partsupp": ("ps_partkey", "ps_suppkey", "ps_supplycost"),
        "supplier": ("s_suppkey", "s_nationkey"),
        **_PLACES,
    },
    "q3": Q3_COLUMNS,
    "q5": _CYCLE,
    "q5six": {**_CYCLE, **_PLACES},
}

_FROM_CYCLE = """
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
JOIN supplier ON s_suppkey = l_suppkey AND s_nationkey = c_nationkey"""
SQL: Mapping[str, str] = {
    "q2": """
SELECT p_partkey, p_size, ps_supplycost, s_suppkey, n_nationkey, r_regionkey
FROM part
JOIN partsupp ON ps_partkey = p_partkey
JOIN supplier ON s_suppkey = ps_suppkey
JOIN nation ON n_nationkey = s_nationkey
JOIN region ON r_regionkey = n_regionkey""",
    "q3": """
SELECT c_custkey, c_nationkey, c_acctbal, o_orderkey, o_totalprice, l_partkey, l_suppkey, l_quantity, l_extendedprice
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey""",
    "q5": f"SELECT c_custkey, o_orderkey, l_extendedprice, s_suppkey, s_nationkey {_FROM_CYCLE}",
    "q5six": f"""
SELECT c_custkey, o_orderkey, l_extendedprice, s_suppkey, n_nationkey, r_regionkey {_FROM_CYCLE}
JOIN nation ON n_nationkey = s_nationkey
JOIN region ON r_regionkey = n_regionkey""",
}
KEYS: Mapping[Pair, str] = {
    ("part", "partsupp"): "part",
    ("partsupp", "supplier"): "supplier",
    ("supplier", "nation"): "nation",
    ("nation", "region"): "region",
    ("customer", "orders"): "customer",
    ("orders", "lineitem"): "orders",
    ("lineitem", "supplier"): "supplier",
    ("customer", "supplier"): "nation",
}
"""Joined relations -> the relation whose key they meet in."""
NATIONS = 25


def tpch(name: str, scale: float, batches: int) -> Workload:
    """The join of one query at one scale factor."""
    folder, rows = streams(name, COLUMNS[name], scale, batches)
    return workload(name, folder, rows)


def streams(name: str, columns: Columns, scale: float, batches: int) -> tuple[Path, dict[str, int]]:
    """The folder of streams with these columns, and how many rows each has."""

    def tables() -> dict[str, pa.Table]:
        return {table: _plain(pq.read_table(files[table], columns=[*wanted])) for table, wanted in columns.items()}

    files = {table: generate(scale, table) for table in columns}
    rows = {table: pq.read_metadata(file).num_rows for table, file in files.items()}
    return cache_streams(CACHE / f"{name}-sf{scale:g}-{batches}", tables, batches), rows


def workload(name: str, folder: Path, rows: Mapping[str, int]) -> Workload:
    """The join of one query over tables of any origin: an equality with a key lets one in |keys| pairs through."""
    keys = {"nation": NATIONS, **rows}
    edges = {pair: 1 / keys[key] for pair, key in KEYS.items() if set(pair) <= set(rows)}
    return Workload(name, folder, SQL[name], rows, edges)


def generate(scale: float, name: str) -> Path:
    """The file of a table; made if it is not there."""
    folder = CACHE / f"tpch-sf{scale:g}"
    file = folder / f"{name}.parquet"
    if not file.exists():
        program = str(Path(sys.executable).parent / "tpchgen-cli")
        subprocess.run(
            [program, "parquet", "-s", f"{scale:g}", f"--tables={name}", f"--output-dir={folder}"], check=True
        )
    return file


def _plain(table: pa.Table) -> pa.Table:
    """Decimals as doubles, so that every system moves the same bytes."""
    kinds = [pa.float64() if pa.types.is_decimal(field.type) else field.type for field in table.schema]
    return table.cast(pa.schema(list(zip(table.column_names, kinds, strict=True))))
