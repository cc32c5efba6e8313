"""Tables as streams: rows in a seeded random order, cut into files, one file a micro-batch.

Every stream arrives evenly from the first batch to the last, also one with fewer rows than there are batches: the cost
model counts on it.  Data is made once and kept in a cache folder.
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


def cached(folder: Path, tables: Callable[[], Mapping[str, pa.Table]], batches: int) -> Path:
    """The folder with one sub-folder of `batches` Parquet files for each table; written if it is not there."""
    if not (folder / "done").exists():
        for number, (name, table) in enumerate(tables().items()):
            _write(table, folder / name, batches, SEED + number)
        (folder / "done").touch()
    return folder


def _write(table: pa.Table, folder: Path, batches: int, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    order = np.random.default_rng(seed).permutation(table.num_rows)
    cuts = np.rint(np.linspace(0, table.num_rows, batches + 1)).astype(np.int64)
    for number, (start, end) in enumerate(pairwise(cuts)):
        part = table.take(pa.array(order[start:end]))
        pq.write_table(part, folder / f"{number:04d}.parquet", row_group_size=GROUP)
