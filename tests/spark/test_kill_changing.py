"""Upserts under outer joins and numbers of rows, killed from outside; and the time of a batch that is run again."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark import _changing
from tests.spark._changing import BATCHES, TEXTS, make_input
from tests.spark._kill import Job
from tests.wide import check_on_spark, in_duckdb, make_world, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.crash
def test_views_of_upserts_survive_a_kill_and_a_batch_keeps_its_time(tmp_path: Path) -> None:
    orders, lines = make_input(tmp_path)
    with Job(tmp_path, crash=("commit before", 1), module=_changing.__name__) as job:
        assert job.until(job.marked), job.log.read_text()
        job.kill()
    with Job(tmp_path, module=_changing.__name__) as job:
        assert job.finish() == 0, job.log.read_text()
    left = {
        "orders": pa.table({"id": list(orders), "c": [c for c, _ in orders.values()],
                            "price": [price for _, price in orders.values()]}),
        "lines": pa.table({"id": [key for key, _ in lines], "n": [n for _, n in lines]}),
    }  # fmt: skip
    for name, text in TEXTS.items():
        assert shown(pq.read_table(tmp_path / "out" / name)) == in_duckdb(text, left), name
    told: dict[int, list[str]] = defaultdict(list)
    for line in (tmp_path / "told").read_text().splitlines():
        number, _, rows = line.partition(" ")
        told[int(number)].append(rows)
    assert [len(told[number]) for number in range(BATCHES)] == [1, 2, 1], "one batch was told twice"
    assert told[1][0] == told[1][1]
    assert told[0][0].count("datetime.datetime") == 6
    assert len({rows[rows.index("datetime") :][:60] for (rows, *_) in told.values()}) == BATCHES


def test_random_queries_of_all_kinds_on_spark(spark: SparkSession) -> None:
    check_on_spark(make_world(41, 3), spark)
