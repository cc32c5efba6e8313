"""Parts of streams: the slowest one says where the stream stands, unless it is idle."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from weft.host.idle import Silence
from weft.host.ingest import Ingest
from weft.host.parts import advance, left_out, note, place_of
from weft.query.model import Stream

SCHEMA = pa.schema([("t", pa.int64())])
STREAM = Stream("s", SCHEMA, "t", "us", idle=10_000_000)
Times = st.dictionaries(st.sampled_from(["s#0", "s#1", "s#2", "r"]), st.integers(0, 50))


@given(st.lists(Times, max_size=6))
def test_a_stream_stands_where_its_slowest_part_stands_and_never_goes_back(batches: list[dict[str, int]]) -> None:
    newest: dict[str, int] = {}
    best: dict[str, int] = {}
    for seen in batches:
        before = newest.get("s")
        newest = advance(newest, seen)
        for place, moment in seen.items():
            best[place] = max(moment, best.get(place, moment))
        parts = [moment for place, moment in best.items() if place.startswith("s#")]
        if parts:
            assert newest["s"] == max(min(parts), min(parts) if before is None else before)
        assert newest.get("r") == best.get("r")


def test_rows_say_which_part_they_are_from() -> None:
    rows = pa.RecordBatch.from_pydict({"t": [7, 9]}, schema=SCHEMA)
    assert (place_of("s", rows), left_out(rows)) == ("s", 0)
    noted = note(rows, "3", 2)
    assert (place_of("s", noted), left_out(noted)) == ("s#3", 2)
    *_, last = Ingest(STREAM, (), 1, {}).run([("", noted)], 0, {})
    assert last.report is not None
    assert last.report["newest"] == {"s#3": 9}
    assert last.report["unreadable"] == {"s": 2}
    assert last.report["rows_in"] == {"s": 2}


def test_a_part_that_is_idle_holds_nothing_up() -> None:
    now = [0.0]
    silence = Silence(lambda: now[0])
    newest = advance({}, {"s#0": 5, "s#1": 50})
    assert silence.after([STREAM], {"s": 2}, (), {}, newest) == ()
    now[0] = 11.0
    idle = silence.after([STREAM], {"s": 1}, (), newest, ["s#1"])
    assert idle == ("s#0",)
    assert advance(newest, {"s#1": 60}, idle)["s"] == 60
    woken = silence.after([STREAM], {"s": 1}, idle, newest, ["s#0"])
    assert woken == ()
