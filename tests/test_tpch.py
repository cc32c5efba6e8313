"""TPC-H's queries that Weft can answer: the answers are DuckDB's, after every batch, and the page tells the truth."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from bench.published import TPCH
from tests.published import batches_of, check, rows_of_page
from tests.tpchdata import tables

PAGE = Path(__file__).parent.parent / "docs" / "queries.md"


@pytest.mark.parametrize("name", TPCH)
def test_tpch_query_has_the_answer_of_duckdb_after_every_batch(name: str, tmp_path: Path) -> None:
    session = weft.Session(tmp_path, workers=2, progress=False)
    made = tables()
    for stream, table in made.items():
        session.stream(stream, weft.read.batches([table.slice(0, 0)]))
    assert check(session, TPCH[name], batches_of(made, 3))


def test_page_says_of_every_tpch_query_whether_it_runs() -> None:
    said = rows_of_page(PAGE, "TPC-H")
    assert [*said] == [f"Q{i}" for i in range(1, 23)]
    assert {name for name, what in said.items() if what.startswith("runs")} == set(TPCH)
