"""Topics as sources: right rows, each once, whatever lies in the topic."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weft
from bench.broker import Broker
from tests.kafka._kit import make_topic, produce
from tests.spark._kit import answer, oracle

pytestmark = pytest.mark.spark

PAIRS = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
COLUMNS = {"id": "BIGINT", "k": "BIGINT"}


def rows(start: int, count: int) -> list[dict[str, int]]:
    return [{"id": at, "k": at % 50} for at in range(start, start + count)]


def test_two_topics_are_joined_and_a_second_run_reads_what_is_new(broker: Broker, tmp_path: Path) -> None:
    a, b = make_topic(broker, 3), make_topic(broker, 2)
    seen: dict[str, list[dict[str, int]]] = {a: [], b: []}

    def send(topic: str, start: int, count: int) -> None:
        produce(broker, topic, rows(start, count))
        seen[topic] += rows(start, count)

    for start in (0, 1000):
        send(a, start, 200)
        send(b, start, 100)
        s = weft.Session(tmp_path / "state", workers=2)
        for name, topic in (("a", a), ("b", b)):
            s.stream(name, weft.read.kafka(broker.servers, topic, schema=COLUMNS, max_rows=70))
        s.query("q", PAIRS).to_parquet(tmp_path / "out")
        report = s.run()
        assert sum(report.rows_in.values()) == 300
        assert answer(tmp_path / "out") == oracle(
            PAIRS, a=pa.Table.from_pylist(seen[a]), b=pa.Table.from_pylist(seen[b])
        )
