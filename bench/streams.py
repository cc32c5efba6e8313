"""Tables as streams: rows in a seeded random order or their own, cut into files, one file per micro-batch.

Every stream arrives evenly from the first batch to the last, also one with fewer rows than there are batches: the cost
model relies on it.  Data is made once and kept in a cache folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(__file__).parent / ".data"
SEED = 7
GROUP = 131_072


def cache_streams(
    folder: Path, tables: Callable[[], Mapping[str, pa.Table]], batches: int, *, in_order: bool = False
) -> Path:
    """The folder with one sub-folder of `batches` Parquet files for each table; written if it is not there.

    `in_order` keeps the order of the rows: that of time, where there is time.
    """
    if not (folder / "done").exists():
        for number, (name, table) in enumerate(tables().items()):
            rng = None if in_order else np.random.default_rng(SEED + number)
            _write(table, folder / name, batches, rng)
        (folder / "done").touch()
    return folder


def _write(table: pa.Table, folder: Path, batches: int, rng: np.random.Generator | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    order = np.arange(table.num_rows) if rng is None else rng.permutation(table.num_rows)
    cuts = np.rint(np.linspace(0, table.num_rows, batches + 1)).astype(np.int64)
    for number, (start, end) in enumerate(pairwise(cuts)):
        part = table.take(pa.array(order[start:end]))
        pq.write_table(part, folder / f"{number:04d}.parquet", row_group_size=GROUP)
