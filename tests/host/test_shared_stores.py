"""Stores that queries share although their clocks, windows and selections differ, against the oracle."""

from __future__ import annotations

import random

import pytest

from tests.fuzz import small_limits
from tests.planned import plan
from tests.shared import Shared, make_shared
from weft.host.inprocess.run import InProcess, MemoryState
from weft.host.marks import marks
from weft.testing import assert_same_rows, expected_after_lateness


def run(case: Shared) -> InProcess:
    """The session, compared with the oracle at the end."""
    host = InProcess(plan(case.queries, case.workers, case.asked))
    with small_limits(random.Random(case.seed)):
        for batch in case.batches:
            host.feed(batch)
    for name, query in case.queries.items():
        assert_same_rows(host.table(name), expected_after_lateness(query, case.batches), f"{case}{name}: ")
    return host


def count_marked(host: InProcess) -> int:
    """Segments that hold rows that are late for some users."""
    assert isinstance(host.state, MemoryState)
    return sum(bool(marks(host.state.open(ref).rows)) for ref in host.manifest.segments)


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(10))
def test_queries_of_different_clocks_answer_what_the_oracle_answers(chunk: int) -> None:
    marked = 0
    for seed in range(chunk * 40, (chunk + 1) * 40):
        marked += count_marked(run(make_shared(seed)))
    assert marked > 10, "hardly any row is late for one query and in time for another"
