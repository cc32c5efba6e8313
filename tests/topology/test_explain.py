"""What explain prints is written down: a changed plan shows up as a changed file.

Set WEFT_REWRITE=1 to write the files anew, then read the difference.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.topology.shop import QUERIES, session

SNAPSHOTS = Path(__file__).parent / "snapshots"
CASES = {
    "matched-1": (1, ["matched"]),
    "matched-4": (4, ["matched"]),
    "near-4": (4, ["near"]),
    "triangle-4": (4, ["triangle"]),
    "all-2": (2, list(QUERIES)),
}


@pytest.mark.parametrize("name", CASES)
def test_explain_prints_what_is_written_down(name: str) -> None:
    workers, queries = CASES[name]
    s = session(workers)
    for query in queries:
        s.query(query, QUERIES[query])
    path = SNAPSHOTS / f"{name}.txt"
    if os.environ.get("WEFT_REWRITE"):
        path.write_text(s.explain())
    assert s.explain() == path.read_text()


def test_explain_does_not_depend_on_the_run() -> None:
    texts = set()
    for _ in range(3):
        s = session()
        for name, sql in QUERIES.items():
            s.query(name, sql)
        texts.add(s.explain())
    assert len(texts) == 1
