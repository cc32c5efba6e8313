"""Compares results with DuckDB's answer to one statement over the same files, as multisets.

A doubled row is as wrong as a missing one, so both differences are computed with EXCEPT ALL.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from weft.demo.data import DemoStream
from weft.demo.queries import DemoQuery


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many rows there are, how many there should be, and how many differ."""

    rows: int
    expected: int
    missing: int
    extra: int

    @property
    def equal(self) -> bool:
        """Whether the results are exactly the answer."""
        return self.missing == 0 and self.extra == 0


def has_duckdb() -> bool:
    """Whether results can be checked."""
    return importlib.util.find_spec("duckdb") is not None


class Oracle:
    """DuckDB with the demo's streams as views."""

    def __init__(self, streams: Iterable[DemoStream]) -> None:
        import duckdb

        self.duck = duckdb.connect()
        for stream in streams:
            self.duck.register(stream.name, ds.dataset(stream.folder, format="parquet"))

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *_: object) -> None:
        self.duck.close()

    def check(self, query: DemoQuery, results: Path) -> Verdict:
        """Compare the folder `results` with the answer of `query`."""
        self.duck.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {query.oracle}")
        self.duck.register("found", self._results(results))
        return Verdict(
            rows=self._count("FROM found"),
            expected=self._count("FROM wanted"),
            missing=self._count("(FROM wanted) EXCEPT ALL (FROM found)"),
            extra=self._count("(FROM found) EXCEPT ALL (FROM wanted)"),
        )

    def sample(self, results: Path, rows: int) -> list[dict[str, Any]]:
        """The first few rows of the folder `results`, in the order of their values."""
        self.duck.register("found", self._results(results))
        found: pa.Table = self.duck.sql(f"FROM found ORDER BY ALL LIMIT {rows:d}").to_arrow_table()
        return found.to_pylist()

    def _results(self, folder: Path) -> ds.Dataset | pa.Table:
        """The results; an empty table with the right columns if there is no file."""
        files = ds.dataset(folder, format="parquet") if folder.is_dir() else None
        if files is not None and files.files:
            return files
        return self.duck.sql("FROM wanted LIMIT 0").to_arrow_table()

    def _count(self, statement: str) -> int:
        [(count,)] = self.duck.sql(f"SELECT count(*) FROM ({statement})").fetchall()
        return int(count)
