"""The examples of docs/kafka.md are run, with a broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from bench.broker import Broker
from tests.kafka._kit import QUIET, consume_all, json_rows, produce
from tests.test_docs import ROOT, blocks
from weft.script import open_session, parse_script

PAGE = ROOT / "docs" / "kafka.md"
ORDERS = [{"o_id": at, "o_price": 10.0 * at, "o_ts": f"2026-01-01T00:00:{at:02d}Z"} for at in range(5)]
PAYMENTS = [{"p_order": at, "p_ts": f"2026-01-01T00:01:{at:02d}Z"} for at in (1, 3)]
READINGS = [{"sensor": 7, "value": 41.5, "at": "2026-01-01T00:00:00"}, {"sensor": "?"}, {"sensor": 8, "value": 1}]


@pytest.mark.spark
def test_examples_with_a_broker_run(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    admin = AdminClient({"bootstrap.servers": broker.servers, **QUIET})
    topics = {"orders": ORDERS, "payments": PAYMENTS, "readings": READINGS, "paid": []}
    made = admin.create_topics([NewTopic(name, 1, 1, config={"retention.ms": "-1"}) for name in topics])
    for name, future in made.items():
        future.result(60)
        produce(broker, name, topics[name])
    scope: dict[str, object] = {}
    for number, code in enumerate(blocks(PAGE, "python kafka")):
        code = code.replace("broker:9092", broker.servers)
        exec(compile(code, f"kafka.md[{number}]", "exec", dont_inherit=True), scope)
    assert json_rows(consume_all(broker, "paid"), "o_id", "o_price") == {(1, 10.0): 1, (3, 30.0): 1}


def test_the_script_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "open sesame")
    (text,) = blocks(PAGE, "sql")
    session = open_session(parse_script(text, folder=tmp_path))
    assert "sesame" not in f"{session!r}{session.sources}{session.queries}"
