"""What a query reads of others is called in plain words."""

from __future__ import annotations

import pyarrow as pa
import pytest

import weft

TEXT = """
    SELECT d.k, n, b.k AS other FROM (SELECT k, count(*) AS n FROM
      (SELECT k FROM a UNION ALL SELECT k FROM b) u GROUP BY k) d JOIN b ON b.k = d.n
"""


@pytest.mark.parametrize("stage", ["resolved", "candidates", "chosen", "topology"])
@pytest.mark.parametrize("format_", ["text", "json", "mermaid"])
def test_no_hidden_name_is_shown(stage: str, format_: str) -> None:
    session = weft.Session("never-made", workers=2)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([pa.table({"k": [1]})]))
    session.query("q", TEXT)
    shown = session.explain(stage, format_)
    assert format_ == "json" or "#" not in shown.replace("&#", "")  # names of stores are for programs
    assert "q.d" in shown
    assert "q.d.u, part 2" in shown


@pytest.mark.parametrize("format_", ["text", "json", "html"])
def test_groups_with_sums_of_floats_that_another_query_reads_are_shown(format_: str) -> None:
    session = weft.Session("never-made", workers=2)
    session.stream("a", weft.read.batches([pa.table({"k": [1], "x": [0.5]})]))
    session.query("q", "SELECT a.k, d.m FROM a JOIN (SELECT k, avg(x) AS m FROM a GROUP BY k) d ON d.k = a.k")
    assert "m as it was shown" in session.explain("topology", format_)
