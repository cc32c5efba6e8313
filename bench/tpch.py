"""TPC-H tables as streams: rows in a seeded random order, cut into equal files, one file a micro-batch.

Data is made once and kept in a cache folder; only the columns a workload needs are written.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(__file__).parent / ".data"
SEED = 7
GROUP = 131_072

Q3_COLUMNS = {
    "customer": ("c_custkey", "c_nationkey", "c_acctbal"),
    "orders": ("o_orderkey", "o_custkey", "o_totalprice"),
    "lineitem": ("l_orderkey", "l_partkey", "l_suppkey", "l_quantity", "l_extendedprice"),
}


def q3_streams(scale: float, batches: int) -> Path:
    """A folder with one sub-folder of `batches` Parquet files for each stream of the Q3 join."""
    folder = CACHE / f"q3-sf{scale:g}-{batches}"
    if not (folder / "done").exists():
        for number, (table, columns) in enumerate(Q3_COLUMNS.items()):
            _write(_table(scale, table).select(list(columns)), folder / table, batches, SEED + number)
        (folder / "done").touch()
    return folder


def _table(scale: float, name: str) -> pa.Table:
    folder = CACHE / f"tpch-sf{scale:g}"
    if not (folder / f"{name}.parquet").exists():
        program = str(Path(sys.executable).parent / "tpchgen-cli")
        subprocess.run(
            [program, "parquet", "-s", f"{scale:g}", f"--tables={name}", f"--output-dir={folder}"], check=True
        )
    return pq.read_table(folder / f"{name}.parquet")


def _write(table: pa.Table, folder: Path, batches: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(seed).permutation(table.num_rows)
    for number, rows in enumerate(np.array_split(order, batches)):
        part = table.take(pa.array(rows))
        plain = pa.table({name: _plain(part.column(name)) for name in part.column_names})
        pq.write_table(plain, folder / f"{number:04d}.parquet", row_group_size=GROUP)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decimals as doubles, so that every system moves the same bytes."""
    return column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column
