"""Random lives of sessions against the oracle; `python -m tests.migrations --n 1000` lives more of them."""

import pytest

from tests.migrations import Tally, check

CHUNKS, EACH = 4, 16


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_change_of_a_session_loses_or_doubles_a_result(chunk: int) -> None:
    tally = Tally()
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        tally += check(seed)
    print(tally)
    assert tally.rows + tally.queries["rows of views"] > 500, "the queries of this chunk join next to nothing"
    assert all(tally.changes[kind] >= 3 for kind in ("add", "drop", "rescale", "replan", "options"))
    assert tally.stores["compared"] >= 100
    assert tally.stores["taken"] >= 20
    assert tally.stores["rows moved"] >= 20
    assert tally.queries["views"] >= 20
    assert tally.queries["rows of views"] >= 40
    assert tally.queries["complete"] >= 2
    assert tally.queries["incomplete"] >= 2
    assert sum(tally.deaths.values()) >= 3


@pytest.mark.parametrize("seed", [900002, 900135, 900253])
def test_a_query_over_tables_alone_has_its_results_among_old_rows(seed: int) -> None:
    """No store had the columns of the tables: they are read again."""
    check(seed)


@pytest.mark.parametrize("seed", [9056])
def test_aliases_that_come_to_share_a_store_keep_the_rows_of_a_query_that_is_incomplete(seed: int) -> None:
    """Each alias had a store with columns of its own: no old one has those of both."""
    assert check(seed).stores["compared"] >= 20
