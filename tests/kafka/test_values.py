"""Values of records become rows: one for each record, or an error that says which."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.errors import SourceError
from weft.host.sources.kafka.declared import read_declared
from weft.host.sources.kafka.sifting import sift
from weft.host.sources.kafka.values import Csv, Json, Plain

COLUMNS = pa.schema([("a", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us")), ("d", pa.date32())])


def by_hand(value: bytes) -> dict[str, Any] | None:
    """What Python's own reader says of a JSON value; None if it is bad."""
    try:
        found = json.loads(value)
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    a, s = found.get("a"), found.get("s")
    if not (a is None or (type(a) is int and abs(a) < 2**63)) or not (s is None or isinstance(s, str)):
        return None
    return {"a": a, "s": s}


TRICKY = [
    b"", b" ", b"{}", b" {} ", b"{} {}", b"{}\n{}", b'{"a":1}{"a":2}', b"null", b"5", b"[1]", b'"x"', b"{", b"}",
    b'{"a":', b'{"s":"', b'"}', b'{"s":"a\nb"}', b'{"a":1,}', b'{"a":1}}', b'{"a":"1"}', b'{"a":1.5}', b'{"a":true}',
    b'{"s":3}', b'{"a":99999999999999999999}', b'{"other":{"x":[1,{}]}}', b'{"a": 1,\n "s": "two lines"}',
    b'{"s":"\xff"}', b'{"s":"caf\xc3\xa9"}', b'{"s":"\\ud83d\\ude00"}',
    b'{"a":null,"s":null}', b'{"A":1}', b'{"a":1},',
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(TRICKY), st.integers(-5, 5).map(lambda n: b'{"a":%d,"s":"x"}' % n))))
def test_json_gives_one_row_for_each_record_whatever_lies_beside_it(values: list[bytes]) -> None:
    columns = pa.schema([COLUMNS.field("a"), COLUMNS.field("s")])
    if not values:
        return
    found = sift(Json(), values, columns)
    expected = {at: by_hand(value) for at, value in enumerate(values)}
    assert {at for at, row in expected.items() if row is None} == {*found.bad}
    assert found.rows.to_pylist() == [row for row in expected.values() if row is not None]
    assert [*found.good] == [at for at, row in expected.items() if row is not None]


def test_json_times_may_have_a_zone_and_dates_are_dates() -> None:
    values = [
        b'{"t":"2026-01-01T10:00:00Z","d":"2026-01-02"}',
        b'{"t":"2026-01-01T10:00:00.5+02:00"}',
        b'{"d":"2026-01-02T01:00:00"}',
    ]
    found = sift(Json(), values, COLUMNS)
    assert [row["t"] for row in found.rows.to_pylist()] == [
        datetime.datetime(2026, 1, 1, 10),  # noqa: DTZ001 - event times have no zone
        datetime.datetime(2026, 1, 1, 8, 0, 0, 500_000),  # noqa: DTZ001
    ]
    assert found.rows.column("d").to_pylist() == [datetime.date(2026, 1, 2), None]
    assert {*found.bad} == {2}, "a time is no date"


def test_dates_may_lie_inside_of_structs_and_lists() -> None:
    kind = pa.struct([("d", pa.date32()), ("x", pa.float64())])
    columns = pa.schema([("s", kind), ("l", pa.list_(pa.date32()))])
    day = datetime.date(2026, 1, 2)
    values = [
        b'{"s":{"d":"2026-01-02","x":NaN},"l":["2026-01-02",null]}',
        b'{"s":null,"l":[]}',
        b'{"s":{"d":"2026-01-02T01:00:00"}}',
        b'{"l":["2026-01-02T01:00:00"]}',
    ]
    found = sift(Json(), values, columns)
    assert [*found.good] == [0, 1], "a time is no date"
    first, second = found.rows.to_pylist()
    assert (first["s"]["d"], first["l"], second) == (day, [day, None], {"s": None, "l": []})


def test_types_that_json_cannot_fill_are_refused_before_a_record_is_read() -> None:
    for kind in (pa.duration("us"), pa.map_(pa.string(), pa.int64())):
        with pytest.raises(SourceError, match=r'column "a" of type .* is not read from JSON'):
            weft.read.kafka("127.0.0.1:9", "t", schema=pa.schema([("a", kind)]))


LINES = [
    b"1,x",
    b'2,"a,b"',
    b"",
    b",",
    b'3,"x',
    b'y"',
    b"4,x,y",
    b"z,x",
    b"5",
    b"6,caf\xc3\xa9",
    b"7,\xff",
    b"8,a\nb",
    b"9,x\r\n",
]


@given(st.lists(st.sampled_from(LINES), min_size=1))
def test_csv_gives_the_same_rows_together_as_alone(values: list[bytes]) -> None:
    columns = pa.schema([COLUMNS.field("a"), COLUMNS.field("s")])
    form = Csv(("a", "s"))
    alone = [sift(form, [value], columns) for value in values]
    found = sift(form, values, columns)
    assert found.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert {*found.bad} == {at for at, one in enumerate(alone) if one.bad}
    assert not {b'3,"x', b"7,\xff", b"8,a\nb"} & {values[at] for at in found.good}, "an open quote, no text, two lines"


def test_text_that_is_not_utf8_is_bad_and_bytes_are_always_good() -> None:
    values = [b"x", b"\xff", b""]
    assert {*sift(Plain(), values, pa.schema([("value", pa.string())])).bad} == {1}
    found = sift(Plain(), values, pa.schema([("value", pa.binary())]))
    assert found.rows.to_pylist() == [{"value": value} for value in values]


class Order:
    id: int
    at: datetime.datetime
    note: str | None
    tags: list[str]


def test_columns_are_declared_by_names_by_arrow_or_by_a_class() -> None:
    wanted = pa.schema(
        [("id", pa.int64()), ("at", pa.timestamp("us")), ("note", pa.string()), ("tags", pa.list_(pa.string()))]
    )
    assert read_declared(Order, "x") == wanted
    assert read_declared(wanted, "x") == wanted
    named = read_declared({"id": "BIGINT", "p": "DECIMAL(12, 2)", "f": float, "n": pa.int32()}, "x")
    assert [str(field.type) for field in named] == ["int64", "decimal128(12, 2)", "double", "int32"]


@pytest.mark.parametrize("given", [None, {}, 5, {"a": "NUMBER"}, {"a": object}])
def test_a_wrong_declaration_is_refused(given: Any) -> None:
    with pytest.raises(SourceError) as caught:
        read_declared(given, "topic x")
    assert caught.value.hint
