"""A published query through Weft in this process and through DuckDB, after every batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import weft
from weft.testing import Trial, assert_same_rows

TOLERANCE = 1e-9
Tables = Mapping[str, pa.Table]


def batches_of(tables: Tables, count: int, fixed: Sequence[str] = ()) -> list[dict[str, pa.Table]]:
    """Rows in their order, cut evenly; a fixed table comes whole, at the start."""
    found: list[dict[str, pa.Table]] = [{} for _ in range(count)]
    for name, table in tables.items():
        cuts = np.linspace(0, table.num_rows, count + 1).astype(int)
        for number, batch in enumerate(found):
            batch[name] = table.slice(cuts[number], cuts[number + 1] - cuts[number])
            if name in fixed:
                batch[name] = table if number == 0 else table.slice(0, 0)
    return found


def check(session: weft.Session, text: str, batches: Sequence[Tables], said: str | None = None) -> int:
    """Compare after every batch, `said` being the same in DuckDB's words; how many rows the last answer has."""
    session.query("q", text)
    trial, seen = Trial(session), dict[str, list[pa.Table]]()
    for batch in batches:
        trial.feed(batch)
        for name, table in batch.items():
            seen.setdefault(name, []).append(table)
        right = in_duckdb(said or text, {name: pa.concat_tables(parts) for name, parts in seen.items()})
        found = trial.table("q")
        assert_same_rows(found, right.cast(found.schema), tolerance=TOLERANCE)
    assert all(column.null_count < right.num_rows for column in right.columns), "the rows say something"
    return right.num_rows


def in_duckdb(text: str, tables: Tables) -> pa.Table:
    """The answer to a query over tables."""
    with duckdb.connect() as duck:
        for name, table in tables.items():
            duck.register(name, table)
        return duck.sql(text).to_arrow_table()


def rows_of_page(page: Path, heading: str) -> dict[str, str]:
    """Query -> what the table under a heading says of it."""
    part = page.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| ")]
    return {row[0].strip(): row[-1].strip() for row in cells if row[0].strip()[1:].isdigit()}
