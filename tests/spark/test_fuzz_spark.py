"""Random queries on Spark, each under every strategy and random plans, in one session that crashes and starts again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz import DEATHS, TREES, Tally, check_on_spark, make_case
from weft.optimizer.wishes import STRATEGIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEEDS = (50_013, 50_018, 50_022, 50_025, 50_026, 50_028, 50_031, 50_039)
"""Cases with queries over three and more aliases, windows, several batches, and answers."""


@pytest.mark.spark
@pytest.mark.fuzz
@pytest.mark.crash
def test_random_plans_on_spark_answer_what_the_oracle_answers(spark: SparkSession) -> None:
    tally = Tally()
    for number, seed in enumerate(SEEDS):
        case = make_case(seed, queries=2)
        case.batches, case.workers = case.batches[:4], 2 + number % 2  # a batch takes half a second
        points = [DEATHS[(2 * number + i) % len(DEATHS)] for i in range(2)]
        try:
            tally += check_on_spark(case, spark, points)
        except Exception as error:
            error.add_note(case.describe())
            raise
    print(tally, dict(tally.deaths))
    assert tally.pairs >= 80
    assert tally.kept >= 40
    assert tally.nested >= 5
    assert tally.answered >= 20
    assert all(tally.strategies[name] >= 8 for name in (*TREES, "by hand"))
    assert all(tally.strategies[name] for name in STRATEGIES)
    assert all(tally.deaths[point] for point in DEATHS), tally.deaths
