"""Topics in scripts."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from bench.broker import Broker
from tests.kafka._kit import consume_all, json_rows, make_topic, produce
from tests.spark._kit import oracle
from weft.errors import ParseError, SourceError
from weft.script import open_session, parse_script
from weft.sql.script import parse_statements

PAIRS = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"
SELECT = "CREATE QUERY q INTO PARQUET 'out' AS SELECT a.k FROM a;"


@pytest.mark.spark
def test_a_script_joins_topics_into_a_topic(broker: Broker, tmp_path: Path) -> None:
    a, b, out = make_topic(broker), make_topic(broker), make_topic(broker)
    rows = [{"id": at, "k": at % 7} for at in range(30)]
    produce(broker, a, rows)
    produce(broker, b, [*rows, b"bad"])
    text = f"""
        CREATE STREAM a (id BIGINT, k BIGINT) FROM KAFKA '{broker.servers}' TOPIC '{a}'
            (start = ('0' = 10), columns = ('#timestamp')) WITH (event_time = '#timestamp', lateness = '1 day');
        CREATE STREAM b (id BIGINT, k BIGINT) FROM KAFKA '{broker.servers}' TOPIC '{b}'
            (value = 'json', max_rows = 10, bad = 'sink', bad_folder = 'bad', options = ('client.id' = 'me'));
        CREATE QUERY q INTO KAFKA '{broker.servers}' TOPIC '{out}' (key = 'aid') AS {PAIRS};
    """
    report = open_session(parse_script(text, folder=tmp_path), workers=2).run()
    expected = oracle(PAIRS, a=pa.Table.from_pylist(rows[10:]), b=pa.Table.from_pylist(rows))
    assert json_rows(consume_all(broker, out), "aid", "bid") == expected
    assert report.unreadable == {"b": 1}
    assert len([*(tmp_path / "bad").iterdir()]) == 1


def test_a_secret_in_a_script_is_refused_without_quoting_it(tmp_path: Path) -> None:
    for option in ("options = ('sasl.password' = 'open sesame')", "registry = 'http://me:open sesame@host'"):
        with pytest.raises(ParseError) as caught:
            parse_statements(f"CREATE STREAM a (k BIGINT) FROM KAFKA 'b:9' TOPIC 't' ({option}); {SELECT}")
        assert "sesame" not in str(caught.value)
    option = "options = ('sasl.password' = 'env:NOT_SET_HERE')"
    text = f"CREATE STREAM a (k BIGINT) FROM KAFKA 'b:9' TOPIC 't' ({option}); {SELECT}"
    with pytest.raises(SourceError, match="the environment has no variable NOT_SET_HERE"):
        open_session(parse_script(text, folder=tmp_path))


def test_columns_of_keys_are_named_with_their_types(tmp_path: Path) -> None:
    text = f"""
        CREATE STREAM a (v VARCHAR) FROM KAFKA 'b:9' TOPIC 't' (key = 'json', key_schema = ('k' = 'BIGINT'))
            WITH (key = ('k'));
        {SELECT}
    """
    session = open_session(parse_script(text, folder=tmp_path))
    assert {"k": pa.int64(), "v": pa.string()}.items() <= {f.name: f.type for f in session.streams["a"].schema}.items()


def test_bad_records_are_not_kept_at_a_url(tmp_path: Path) -> None:
    given = "bad = 'sink', bad_folder = 's3://bucket/bad'"
    text = f"CREATE STREAM a (k BIGINT) FROM KAFKA 'b:9' TOPIC 't' ({given}); {SELECT}"
    with pytest.raises(SourceError, match="bad_folder is at a URL"):
        open_session(parse_script(text, folder=tmp_path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE STREAM a FROM KAFKA 'b:9' TOPIC 't' (key_schema = ('k' = 5));", "takes types by column"),
        ("CREATE STREAM a FROM KAFKA 'b:9';", "TOPIC"),
        ("CREATE STREAM a FROM KAFKA 'b:9' TOPIC 't' (offset = 5);", 'unknown option "offset"'),
        ("CREATE STREAM a FROM KAFKA 'b:9' TOPIC 't' (max_rows = 'x');", "takes a whole number"),
        ("CREATE TABLE a FROM KAFKA 'b:9' TOPIC 't';", "a table that is a topic has no key"),
    ],
)
def test_what_is_wrong_is_pointed_at(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parse_statements(f"{text} {SELECT}")
