"""Statistics give the numbers they were made with, None for all others, and refuse nonsense."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from weft.errors import QueryError
from weft.stats.model import Statistics

FULL = Statistics(
    {"orders": 1_500_000, "customer": 150_000},
    rates={"orders": 20.5},
    widths={"orders": 64},
    distinct={"orders.customer": 99_996},
    selectivities={("orders", "customer"): 1 / 150_000},
    predicates={"o.price > 10": 0.25},
)


def test_what_was_not_told_is_none() -> None:
    s = Statistics()
    assert s.rows("r") is s.rate("r") is s.width("r") is s.distinct("r", "a") is None
    assert s.selectivity("r", "s") is s.predicate("r.a = s.a") is None


def test_zero_is_a_number_and_not_unknown() -> None:
    s = Statistics({"r": 0}, selectivities={("r", "s"): 0})
    assert s.rows("r") == 0.0
    assert s.selectivity("r", "s") == 0.0


def test_every_number_is_found_again() -> None:
    assert FULL.rows("orders") == 1_500_000
    assert FULL.rate("orders") == 20.5
    assert FULL.width("orders") == 64
    assert FULL.distinct("orders", "customer") == 99_996
    assert FULL.selectivity("customer", "orders") == FULL.selectivity("orders", "customer") == 1 / 150_000
    assert FULL.predicate("o.price  >\n 10") == 0.25


def test_json_gives_back_an_equal_value() -> None:
    assert Statistics.from_json(FULL.to_json()) == FULL
    assert Statistics.from_json("{}") == Statistics()
    assert hash(pickle.loads(pickle.dumps(FULL))) == hash(FULL)


def test_json_may_name_a_pair_in_either_direction_or_in_both() -> None:
    one = Statistics.from_json('{"selectivities": {"a": {"b": 0.1}}}')
    other = Statistics.from_json('{"selectivities": {"b": {"a": 0.1}}}')
    both = Statistics.from_json('{"selectivities": {"a": {"b": 0.1}, "b": {"a": 0.1}}}')
    assert one == other == both


def test_a_change_makes_new_statistics_and_overrides() -> None:
    changed = FULL.with_rows("orders", 7).with_rate("orders", 8).with_width("orders", 9)
    changed = changed.with_distinct("orders", "customer", 3).with_selectivity("customer", "orders", 0.5)
    changed = changed.with_predicate("o.price > 10", 0.75)
    assert (changed.rows("orders"), changed.rate("orders"), changed.width("orders")) == (7, 8, 9)
    assert changed.distinct("orders", "customer") == 3
    assert changed.selectivity("orders", "customer") == 0.5
    assert changed.predicate("o.price > 10") == 0.75
    assert FULL.rows("orders") == 1_500_000
    assert changed.rows("customer") == 150_000


def test_of_two_statistics_the_other_wins() -> None:
    merged = Statistics({"r": 1, "s": 2}).merge(Statistics({"s": 3}, rates={"s": 4}))
    assert merged == Statistics({"r": 1, "s": 3}, rates={"s": 4})


def test_numpy_numbers_are_numbers() -> None:
    assert Statistics({"r": np.int64(3)}) == Statistics({"r": np.float64(3)}) == Statistics({"r": 3})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": {"r": -1}}, 'rows of "r" is -1'),
        ({"rates": {"r": float("nan")}}, 'rate of "r" is nan'),
        ({"widths": {"r": float("inf")}}, 'width of "r" is inf'),
        ({"distinct": {"r.a": True}}, 'distinct count of "r.a" is True'),
        ({"rows": {"r": "many"}}, 'rows of "r" is'),
        ({"selectivities": {("r", "s"): 1.5}}, r'selectivity of \("r", "s"\) is 1.5'),
        ({"selectivities": {("r", "s"): -0.1}}, r'selectivity of \("r", "s"\) is -0.1'),
        ({"selectivities": {("r", "s"): 0.1, ("s", "r"): 0.2}}, 'two selectivities between "s" and "r"'),
        ({"selectivities": {("r", "r"): 0.1}}, 'selectivity between "r" and itself'),
        ({"predicates": {"r.a = s.a": 2}}, 'selectivity of "r.a = s.a" is 2'),
    ],
)
def test_nonsense_is_refused_with_detail_and_hint(given: dict[str, Any], message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        Statistics(**given)
    assert refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"sizes": {}}', 'unknown key "sizes"'),
        ("[]", '"statistics" is not a JSON object'),
        ('{"rows": 3}', '"rows" is not a JSON object'),
        ('{"selectivities": {"a": 0.1}}', '"selectivities.a" is not a JSON object'),
        ('{"rows": {"r": null}}', 'rows of "r" is None'),
        ('{"rows"', "not JSON"),
    ],
)
def test_json_of_another_form_is_refused_with_detail_and_hint(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        Statistics.from_json(text)
    assert refused.value.detail
    assert refused.value.hint


@pytest.mark.parametrize(
    ("other", "still"),
    [
        (FULL, True),
        (FULL.with_rate("orders", 20.5 * 1.24), True),
        (FULL.with_rate("orders", 20.5 * 1.26), False),
        (FULL.with_rows("customer", 100_000), False),
        (FULL.with_distinct("orders", "customer", 70_000), False),
        (FULL.with_predicate("o.price > 10", 0.5), False),
        (FULL.with_predicate("o.price < 5", 0.25), False),
        (Statistics({"orders": 1_500_000, "customer": 150_000}), False),
        (FULL.with_selectivity("orders", "customer", 1 / 300_000), False),
    ],
)
def test_nothing_has_moved_if_the_same_is_known_and_no_number_differs_much(other: Statistics, still: bool) -> None:
    assert FULL.is_still(other, 1.25) == other.is_still(FULL, 1.25) == still


def test_shares_of_rows_that_hardly_find_a_partner_are_alike() -> None:
    s = Statistics({"r": 1e6}, predicates={"r.a = s.a": 1e-9}, selectivities={("r", "s"): 0.0})
    assert s.is_still(s.with_predicate("r.a = s.a", 2e-8).with_selectivity("r", "s", 3e-8), 1.25)
    assert not s.is_still(s.with_predicate("r.a = s.a", 1e-6), 1.25)


def test_frequent_values_may_differ_by_a_few_of_all_rows() -> None:
    s = Statistics(heavy={"r.a": [(1, 0.4), (2, 0.1)]})
    assert s.is_still(Statistics(heavy={"r.a": [(1, 0.36), (2, 0.12), (3, 0.04)]}), 1.25)
    assert not s.is_still(Statistics(heavy={"r.a": [(7, 0.4), (2, 0.1)]}), 1.25)
    assert not s.is_still(Statistics(heavy={"r.a": [(1, 0.3), (2, 0.1)]}), 1.25)
    assert not s.is_still(Statistics(heavy={"r.a": ()}), 1.25)
