"""Aggregates over values at their edges against DuckDB; `python -m tests.edges --n 1000` runs more."""

import pytest

from tests.edges import OP, Tally, check_edges, make_edge_case

CASES = 20


@pytest.mark.fuzz
def test_views_of_values_at_their_edges_are_those_of_duckdb() -> None:
    tally = Tally()
    for seed in range(CASES):
        case = make_edge_case(seed)
        try:
            tally += check_edges(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.edges --seed {seed} --n 1 -v")
            raise
    assert tally.views >= 3 * CASES
    assert tally.rows >= 5 * CASES


def test_cases_have_all_there_is_to_draw() -> None:
    """Otherwise the test above would say less than it seems to."""
    cases = [make_edge_case(seed) for seed in range(300)]
    for part in ("FULL JOIN", "ROLLUP", "CUBE", "GROUPING SETS", "DISTINCT", "FILTER", "HAVING", "a.r", "a.l", "a.z"):
        assert sum(part in case.text for case in cases) >= 8, part
    gone = sum("delete" in batch["x"][OP].to_pylist() for case in cases if case.is_changing for batch in case.batches)
    assert gone >= 100, "next to nothing goes"
