"""Jobs between topics that are killed, brokers that are killed: an independent reader counts what is in the topic."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from bench.broker import Broker
from tests.kafka._job import COLUMNS, PAIRS
from tests.kafka._kit import consume_all, json_rows, make_topic, produce
from tests.spark._kill import Job
from tests.spark._kit import answer, moment, oracle

pytestmark = [pytest.mark.spark, pytest.mark.crash]

ORACLE = """
    SELECT a.id, b.id FROM a JOIN b ON a.k = b.k
    WHERE greatest(a.ts, b.ts) - a.ts < INTERVAL 60 SECOND AND greatest(a.ts, b.ts) - b.ts < INTERVAL 40 SECOND
"""
POINTS = (("commit before", True), ("commit after", False), ("publish", False))
"""Crash points, and whether the driver is killed alone."""


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    dice = random.Random(seed)
    return [
        {"id": seed * 10_000 + at, "k": dice.randrange(40), "ts": str(moment(dice.randrange(300)))}
        for at in range(count)
    ]


def as_table(given: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(given).set_column(
        2, "ts", pa.array([row["ts"] for row in given]).cast(pa.timestamp("us"))
    )


def test_jobs_that_are_killed_send_every_result_once(broker: Broker, tmp_path: Path) -> None:
    a, b, out = make_topic(broker, 3), make_topic(broker, 2), make_topic(broker, 2)
    sent: dict[str, list[dict[str, Any]]] = {a: [], b: []}
    place = f"{broker.servers},{a},{b},{out}"
    for number, (point, only_driver) in enumerate(POINTS):
        for topic in (a, b):
            more = rows(10 * number + len(sent[a]) + (topic == b), 250)
            produce(broker, topic, more)
            sent[topic] += more
        last = weft.Session(tmp_path / "state").checkpoint.last
        with Job(tmp_path, crash=(point, last + 2), plans=place, module="tests.kafka._job") as job:
            assert job.until(job.marked), f"{point}: {job.log.read_text()}"
            job.kill(only_driver=only_driver)
        expected = oracle(ORACLE, a=as_table(sent[a]), b=as_table(sent[b]))
        assert json_rows(consume_all(broker, out), "aid", "bid") <= expected
    with Job(tmp_path, plans=place, module="tests.kafka._job") as job:
        assert job.finish() == 0, job.log.read_text()
    assert json_rows(consume_all(broker, out), "aid", "bid") == expected


def test_a_broker_that_is_killed_and_comes_back_is_waited_for(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as mortal:
        a, b, out = make_topic(mortal, 2), make_topic(mortal, 2), make_topic(mortal)
        first, second = rows(1, 300), rows(2, 300)
        produce(mortal, a, first)
        s = weft.Session(tmp_path / "state", workers=2)
        for name, topic in (("a", a), ("b", b)):
            source = weft.read.kafka(mortal.servers, topic, schema=COLUMNS, max_rows=100, patience="3 minutes")
            s.stream(name, source, event_time="ts", lateness="1 day")
        q = s.query("q", PAIRS).to_kafka(mortal.servers, out, patience="3 minutes")
        q.to_parquet(tmp_path / "out")
        handle = s.start(every=0.05)
        while handle.progress() is None:
            assert not handle.wait(0.1)
        mortal.stop()
        mortal.start()
        produce(mortal, b, second)
        while handle.report().rows_in.get("b", 0) < 300:
            assert not handle.wait(0.1)
        handle.stop()
        expected = oracle(ORACLE, a=as_table(first), b=as_table(second))
        assert answer(tmp_path / "out") == expected
        assert json_rows(consume_all(mortal, out), "aid", "bid") == expected
