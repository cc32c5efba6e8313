"""What is written differently and means the same has one spelling; what means something else has another."""

import pytest

from tests.sql.shop import STREAMS
from weft.expr.spelling import spell
from weft.sql import to_query


def spelling(where: str) -> str:
    text = f"SELECT 1 AS one FROM orders o, lineitem l WHERE {where}"
    return spell(to_query(text, STREAMS, cross_product=True).predicates)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("o_orderkey = l_partkey", "l_partkey = o_orderkey"),
        ("o_orderkey <> l_partkey", "l_partkey != o_orderkey"),
        ("o_orderkey > l_partkey", "l_partkey < o_orderkey"),
        ("o_orderkey >= l_partkey + 1", "l_partkey + 1 <= o_orderkey"),
        ("o_orderkey = 1 AND l_partkey = 2", "2 = l_partkey AND 1 = o_orderkey"),
        ("o_orderkey = 1 OR l_partkey > 2", "2 < l_partkey OR o_orderkey = 1"),
        ("NOT (o_orderkey = l_partkey)", "NOT (l_partkey = o_orderkey)"),
        ("o_orderkey BETWEEN 1 AND 2", "o_orderkey <= 2 AND o_orderkey >= 1"),
        ("(o_orderkey = 1) AND o_orderkey = 1", "o_orderkey = 1"),
    ],
)
def test_one_spelling(one: str, other: str) -> None:
    assert spelling(one) == spelling(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("o_orderkey < l_partkey", "l_partkey < o_orderkey"),
        ("o_orderkey < l_partkey", "o_orderkey <= l_partkey"),
        ("o_orderkey - l_partkey = 1", "l_partkey - o_orderkey = 1"),
        ("o_orderkey = 1 OR l_partkey = 2", "o_orderkey = 1 AND l_partkey = 2"),
    ],
)
def test_other_meanings_have_other_spellings(one: str, other: str) -> None:
    assert spelling(one) != spelling(other)
