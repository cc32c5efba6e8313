"""A name that means two things says nothing; nothing hides what was given by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stats.kit import NUMBERS, STREAMS, queries, samples, session
from weft.optimizer.cost.estimate import estimate
from weft.stats.analyze import analyze
from weft.stats.model import Statistics


def test_a_name_that_means_two_things_says_nothing() -> None:
    mixed = queries(
        "SELECT a.k FROM t a JOIN u b ON a.k = b.k AND a.x < b.x WHERE a.x > 1",
        "SELECT a.k FROM u a JOIN t b ON a.k = b.k AND a.x < b.x WHERE a.x > 1",
    )
    found = analyze(STREAMS, samples("t", "u"), mixed)
    assert found.predicate("a.k = b.k") is found.predicate("a.x > 1") is found.selectivity("a", "b") is None
    assert found.distinct("t", "k") == 3
    assert analyze(STREAMS, samples("t", "u"), mixed[:1]).selectivity("a", "b") is not None


@pytest.mark.parametrize(
    "other",
    [
        "SELECT t.k FROM t JOIN u ON t.k = u.k",
        "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.x < u.x WHERE t.x > 2",
        "SELECT a.k FROM t a JOIN u b ON a.k = b.k",
    ],
)
def test_a_pair_is_left_out_if_another_join_would_find_its_number(other: str) -> None:
    one = "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.x < u.x"
    assert analyze(STREAMS, samples("t", "u"), queries(one, one)).selectivity("t", "u") is not None
    assert analyze(STREAMS, samples("t", "u"), queries(one, other)).selectivity("t", "u") is None


def test_an_alias_has_a_size_of_its_own_only_if_it_is_the_same_rows_everywhere() -> None:
    one, other = "SELECT a.k FROM t a WHERE a.x > 1 AND a.k > 2", "SELECT a.k FROM t a WHERE a.x > 1 AND a.k > 1"
    assert analyze(STREAMS, samples("t"), queries(one, one)).rows("a") == 1
    assert analyze(STREAMS, samples("t"), queries(one, other)).rows("a") is None
    assert analyze(STREAMS, samples("t"), queries("SELECT t.k FROM t WHERE t.x > 1 AND t.k > 2")).rows("t") == 4


def test_a_stream_whose_name_is_an_alias_of_another_is_left_out() -> None:
    found = analyze(
        STREAMS, samples("t", "u"), queries("SELECT u.k FROM t u JOIN u t ON t.k = u.k", "SELECT v.k FROM v")
    )
    assert found.rows("t") is found.rows("u") is found.distinct("t", "k") is None


@pytest.mark.parametrize(
    "given",
    [
        Statistics(predicates={"t.k = u.k": 0.01}),
        Statistics(predicates={"u.k = t.k": 0.01}),
        Statistics(predicates={"t.x < u.x": 0.01}),
        Statistics(distinct={"t.k": 100}),
        Statistics(distinct={"b.k": 100}),
        Statistics(selectivities={("t", "u"): 0.01}),
        Statistics(selectivities={("a", "b"): 0.01}),
    ],
)
def test_no_measured_number_hides_one_given_by_hand(given: Statistics, tmp_path: Path) -> None:
    text = "SELECT a.k FROM t a JOIN u b ON a.k = b.k AND a.x < b.x"
    swap = {"t.k = u.k": "a.k = b.k", "u.k = t.k": "b.k = a.k", "t.x < u.x": "a.x < b.x"}
    for old, new in swap.items():
        if (share := given.predicate(old)) is not None:
            given = Statistics(predicates={new: share})
    s = session(tmp_path, t=NUMBERS, u=NUMBERS)
    query = s.query("q", text).query
    free = estimate(query, s.analyze()).edges[0][2]
    s.options(statistics=given)
    bound = estimate(query, s.analyze()).edges[0][2]
    assert free == 1 / 16
    assert bound < 0.011 < free


def test_sizes_given_by_hand_win_also_over_measured_aliases(tmp_path: Path) -> None:
    s = session(tmp_path, t=NUMBERS)
    query = s.query("q", "SELECT a.k FROM t a WHERE a.x > 1 AND a.k > 2").query
    assert estimate(query, s.analyze()).relations[0].size == 1
    s.options(statistics=Statistics({"t": 4000}))
    assert estimate(query, s.analyze()).relations[0].size == 1000
    s.options(statistics=Statistics({"a": 7}))
    assert estimate(query, s.analyze()).relations[0].size == 7
    s.options(statistics=Statistics(predicates={"a.x > 1": 0.25}))
    assert estimate(query, s.analyze()).relations[0].size == 4 * 0.25 * 0.25
