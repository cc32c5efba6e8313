"""Bounds between event times that follow from windows and time bands, and how long rows are kept by them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from weft.query.model import Query, Stream
from weft.query.timebounds import differences, reason, retention
from weft.sql import to_query

MINUTE = 60_000_000
SECOND = 1_000_000
TS = pa.timestamp("us")


def stream(name: str, kind: pa.DataType = TS, unit: str = "s", timed: bool = True) -> Stream:
    schema = pa.schema([("k", pa.int64()), ("ts", kind), ("v", pa.float64())])
    return Stream(name, schema, "ts" if timed else None, unit)


STREAMS = {
    "a": stream("a"),
    "b": stream("b"),
    "c": stream("c"),
    "untimed": stream("untimed", timed=False),
    "i": stream("i", pa.int64()),
    "j": stream("j", pa.int32()),
    "ms": stream("ms", pa.int64(), "ms"),
    "day": stream("day", pa.date32()),
    "day2": stream("day2", pa.date32()),
}


def query(text: str) -> Query:
    return to_query(text, STREAMS, cross_product=True)


def test_window_bounds_every_later_partner() -> None:
    q = query("SELECT a.k FROM a WITHIN '10 minutes' JOIN b ON a.k = b.k")
    assert differences(q) == {("a", "b"): 10 * MINUTE - 1}
    assert retention(q) == {"a": 10 * MINUTE - 1, "b": None}
    assert reason(q, "a") == "window 10 minutes"
    assert reason(q, "b") == "full history"


def test_band_bounds_both_sides() -> None:
    q = query("SELECT a.k FROM a JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE")
    assert differences(q) == {("a", "b"): 10 * MINUTE, ("b", "a"): 0}
    assert retention(q) == {"a": 10 * MINUTE, "b": 0}
    assert reason(q, "a") == "time band with b, 10 minutes"
    assert reason(q, "b") == "time band with a, 0 seconds"


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a.ts < b.ts", {("b", "a"): -1}),
        ("a.ts <= b.ts", {("b", "a"): 0}),
        ("b.ts - a.ts <= INTERVAL '5' MINUTE", {("a", "b"): 5 * MINUTE}),
        ("INTERVAL '5' MINUTE > b.ts - a.ts", {("a", "b"): 5 * MINUTE - 1}),
        ("-(a.ts - b.ts) <= INTERVAL '5' MINUTE", {("a", "b"): 5 * MINUTE}),
        ("a.ts = b.ts", {("a", "b"): 0, ("b", "a"): 0}),
        ("b.ts - INTERVAL '1' HOUR < a.ts", {("a", "b"): 60 * MINUTE - 1}),
        ("a.ts <> b.ts", {}),
        ("a.ts < b.ts OR a.k = b.k", {}),
        ("NOT a.ts < b.ts", {}),
        ("a.v < b.v", {}),
        ("date_trunc('hour', a.ts) = date_trunc('hour', b.ts)", {}),
        ("a.ts < b.ts + a.k * INTERVAL '1' SECOND", {}),
    ],
)
def test_shapes_of_bands(condition: str, expected: dict[tuple[str, str], int]) -> None:
    assert differences(query(f"SELECT a.k FROM a, b WHERE {condition}")) == expected


def test_integer_times_use_the_unit_of_their_stream() -> None:
    q = query("SELECT i.k FROM i, j WHERE j.ts <= i.ts + 600 AND j.ts > i.ts")
    assert differences(q) == {("i", "j"): 600 * SECOND, ("j", "i"): -SECOND}
    assert retention(q) == {"i": 600 * SECOND, "j": 0}


def test_integer_times_of_different_units_give_no_bound() -> None:
    assert differences(query("SELECT i.k FROM i, ms WHERE ms.ts <= i.ts + 600")) == {}


def test_dates_count_days() -> None:
    day = 86_400 * SECOND
    assert differences(query("SELECT day.k FROM day, day2 WHERE day2.ts <= day.ts + 3")) == {("day", "day2"): 3 * day}
    assert differences(query("SELECT day.k FROM day, day2 WHERE day2.ts - day.ts < 3")) == {("day", "day2"): 2 * day}
    found = differences(query("SELECT day.k FROM day, a WHERE a.ts < day.ts + INTERVAL '1' DAY"))
    assert found == {("day", "a"): day - 1}


def test_bounds_add_up_along_a_chain() -> None:
    q = query("SELECT a.k FROM a, b, c WHERE b.ts <= a.ts + INTERVAL '1' MINUTE AND c.ts <= b.ts + INTERVAL '2' MINUTE")
    assert differences(q)["a", "c"] == 3 * MINUTE
    assert retention(q) == {"a": 3 * MINUTE, "b": None, "c": None}


def test_the_tighter_of_window_and_band_wins() -> None:
    q = query("SELECT a.k FROM a, b WHERE b.ts <= a.ts + INTERVAL '1' MINUTE WITHIN '1 hour'")
    assert retention(q) == {"a": MINUTE, "b": 60 * MINUTE - 1}


def test_rows_without_a_time_may_come_whenever_so_partners_stay() -> None:
    q = query("SELECT a.k FROM a WITHIN '1 minute', untimed u WHERE a.k = u.k")
    assert differences(q) == {}
    assert retention(q) == {"a": None, "u": None}
    assert reason(q, "a") == "u has no event time: its rows may come at any time"


def test_contradicting_bands_keep_nothing() -> None:
    q = query("SELECT a.k FROM a, b WHERE a.ts < b.ts AND b.ts < a.ts")
    assert retention(q) == {"a": 0, "b": 0}
