"""Random queries on Spark, several in one session, against the oracle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.fuzz import check_on_spark, make_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SESSIONS, QUERIES = 10, 5


@pytest.mark.spark
@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(SESSIONS))
def test_random_queries_on_spark_answer_what_the_oracle_answers(seed: int, spark: SparkSession) -> None:
    case = make_case(50_000 + seed, queries=QUERIES)
    case.batches = case.batches[:5]  # a batch takes half a second
    assert len(case.queries) >= QUERIES
    try:
        check_on_spark(case, spark)
    except Exception as error:
        error.add_note(case.describe())
        raise
