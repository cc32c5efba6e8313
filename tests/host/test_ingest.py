"""Wave 0 by itself: rows of a stream become envelopes, over hand-made edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from weft.errors import SourceError
from weft.expr.model import Call, Column, Literal
from weft.host import envelope as envelopes
from weft.host.batch import Watermarks
from weft.host.envelope import REPORT, Envelope
from weft.host.ingest import Ingest, ingests
from weft.host.routing import route
from weft.query.model import Stream
from weft.topology.clock import NEVER_LATE
from weft.topology.model import Edge, Topology
from weft.topology.node import Route
from weft.topology.spread import Axis, Cube

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string()), ("t", pa.int64()), ("w", pa.int64())])
K = Column("", "k", pa.int64())
POSITIVE = Call(">", (K, Literal(0, pa.int64())), pa.bool_())
CLOCK = "clock"
SECOND = 1_000_000


def edge(name: str = "e", columns: Sequence[str] = ("k",), how: Route = "scatter", **more: Any) -> Edge:
    key = (K,) if how == "key" else ()
    made = Edge(name, "s", (), tuple(columns), how, key, more.pop("tasks", 3), (NEVER_LATE,), (), ())
    return replace(made, **more)


def stream(**more: Any) -> Stream:
    return Stream("s", SCHEMA, **more)


def rows(*values: tuple[int | None, str | None, int | None, int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip("kvtw", row, strict=True)) for row in values], SCHEMA)


def keys(*values: int | None) -> pa.RecordBatch:
    return rows(*((k, "x", 0, 1) for k in values))


def run(ingest: Ingest, *batches: pa.RecordBatch, task: int = 0, marks: Watermarks | None = None) -> list[Envelope]:
    return list(ingest.run((("", batch) for batch in batches), task, marks or {}))


def sent(found: list[Envelope], column: str = "k") -> list[tuple[int, str, list[Any]]]:
    """(Worker, edge, values) of every envelope but the report."""
    return [(e.dest, e.edge, e.frame[column].to_pylist()) for e in found if e.edge != REPORT]


def report(found: list[Envelope]) -> dict[str, Any]:
    [*_, last] = found
    assert last.edge == REPORT
    return last.report or {}


# ------------------------------------------------------------------------------------------------ routes


def test_rows_are_dealt_in_turn_and_tasks_begin_with_different_workers() -> None:
    ingest = Ingest(stream(), (edge(),), 3, {})
    assert sent(run(ingest, keys(10, 11, 12, 13))) == [(0, "e", [10, 13]), (1, "e", [11]), (2, "e", [12])]
    assert sent(run(ingest, keys(10), task=2)) == [(2, "e", [10])]


def test_the_next_table_goes_on_where_the_last_one_ended() -> None:
    ingest = Ingest(stream(), (edge(),), 3, {})
    assert [dest for dest, _, _ in sent(run(ingest, keys(1), keys(2), keys(3), keys(4)))] == [0, 1, 2, 0]


def test_equal_keys_meet_on_one_worker_wherever_they_come_from() -> None:
    ingest = Ingest(stream(), (edge(how="key"),), 3, {})
    found = sent(run(ingest, keys(*range(50)))) + sent(run(ingest, keys(*range(49, -1, -1)), task=1))
    homes = {k: {dest for dest, _, values in found if k in values} for k in range(50)}
    assert all(len(home) == 1 for home in homes.values())
    assert {home.copy().pop() for home in homes.values()} == {0, 1, 2}
    as_probes = {dest: part["k"].to_pylist() for dest, part in route(keys(*range(50)), "key", (K,), 3, {}, 0)}
    assert as_probes == {dest: values for dest, _, values in found[:3]}, "probes find what edges have placed"


def test_a_row_without_a_key_goes_to_one_worker() -> None:
    found = sent(run(Ingest(stream(), (edge(how="key"),), 3, {}), keys(None, None, None)))
    assert sorted(dest for dest, _, _ in found) == [0, 1, 2]


def test_every_worker_gets_what_is_broadcast() -> None:
    found = run(Ingest(stream(), (edge(how="broadcast"),), 3, {}), keys(1, 2))
    assert sent(found) == [(worker, "e", [1, 2]) for worker in range(3)]
    assert report(found)["routed"] == {"e": 2}
    assert report(found)["sent"] == {"e": 6}
    assert report(found)["messages"] == {"e": 3}


def test_a_route_over_fewer_tasks_leaves_the_other_workers_alone() -> None:
    assert {dest for dest, _, _ in sent(run(Ingest(stream(), (edge(tasks=2),), 5, {}), keys(*range(9))))} == {0, 1}


def test_a_spread_sends_copies_along_the_axes_that_are_not_owned() -> None:
    cube = Cube((Axis(2, "copy"), Axis(2, "hash", K)))
    found = sent(run(Ingest(stream(), (edge(how="spread", spread=cube, tasks=4),), 4, {}), keys(*range(8))))
    homes = [{dest for dest, _, values in found if k in values} for k in range(8)]
    assert all(home in ({0, 2}, {1, 3}) for home in homes)


def test_every_edge_gets_its_own_columns_and_rows() -> None:
    two = (edge("all", ("v", "k"), tasks=1), edge("some", ("k",), tasks=1, filter=(POSITIVE,)))
    found = run(Ingest(stream(), two, 1, {}), keys(-1, 1, None))
    assert sent(found) == [(0, "all", [-1, 1, None]), (0, "some", [1])]
    assert [e.frame.schema.names for e in found if e.frame is not None] == [["v", "k"], ["k"]]
    assert report(found)["rows_in"] == {"s": 3}
    assert report(found)["routed"] == {"all": 3, "some": 1}


@pytest.mark.parametrize("how", ["key", "spread"])
def test_rows_find_their_workers_by_what_they_do_not_carry(how: Route) -> None:
    here = Cube((Axis(3, "hash", K), Axis(2, "copy")))
    given = rows(*((k, "x", 0, k % 2) for k in range(40)))
    is_odd = Call(">", (Column("", "w", pa.int64()), Literal(0, pa.int64())), pa.bool_())
    more: dict[str, Any] = {"spread": here, "tasks": 6} if how == "spread" else {}
    whole, cut = (
        run(Ingest(stream(), (edge("e", columns, how, filter=(is_odd,), **more),), 6, {}), given)
        for columns in (("k", "v", "w"), ("v",))
    )
    assert [(dest, len(found)) for dest, _, found in sent(cut, "v")] == [(d, len(f)) for d, _, f in sent(whole, "v")]
    assert all(k % 2 for _, _, found in sent(whole) for k in found)


def test_nothing_is_sent_where_nothing_is_left() -> None:
    ingest = Ingest(stream(), (edge(filter=(POSITIVE,)),), 3, {})
    assert sent(run(ingest, keys(-1, 0), keys())) == []
    assert "sent" not in report(run(ingest, keys(-1)))


def test_payloads_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "PAYLOAD_ROWS", 4)
    found = run(Ingest(stream(), (edge(tasks=1),), 1, {}), keys(*range(10)))
    assert [len(values) for _, _, values in sent(found)] == [4, 4, 2]
    assert report(found)["messages"] == {"e": 3}


def test_envelopes_are_numbered_in_order_and_apart_from_those_of_other_tasks() -> None:
    ingest = Ingest(stream(), (edge(),), 3, {})
    one, other = ([e.seq for e in run(ingest, keys(*range(7)), keys(8), task=task)] for task in (0, 1))
    assert one == sorted(set(one))
    assert not set(one) & set(other)
    assert [e.seq for e in run(ingest, keys(*range(7)), keys(8))] == one, "a task that is run again does the same"


def test_the_report_goes_to_some_worker() -> None:
    ingest = Ingest(stream(), (), 3, {})
    assert [run(ingest, task=task)[-1].dest for task in range(4)] == [0, 1, 2, 0]


def test_a_stream_nobody_listens_to_is_counted() -> None:
    ingest = Ingest(stream(event_time="t"), (), 1, {})
    assert ingest.columns == ("t",)
    assert Ingest(stream(), (), 1, {}).columns == ("k",), "rows cannot be counted without a column"
    found = run(ingest, rows((1, "x", 7, 1)))
    assert report(found)["rows_in"] == {"s": 1}
    assert report(found)["newest"] == {"s": 7 * SECOND}


def test_columns_are_those_that_somebody_reads() -> None:
    filtered = edge("one", ("v",), filter=(POSITIVE,))
    assert Ingest(stream(), (filtered,), 1, {}).columns == ("k", "v")
    assert Ingest(stream(), (edge("two", ("v",), how="key"),), 1, {}).columns == ("k", "v")
    watching = edge("three", ("v",), watch=(("s.k", K, ()),))
    assert Ingest(stream(), (watching,), 1, {}).columns == ("k", "v")


# ------------------------------------------------------------------------------------------------- times


def timed(*, lateness: int = 0, clocked: bool = True, **more: Any) -> Ingest:
    clock = CLOCK if clocked else NEVER_LATE
    one = edge("e", ("k", "#t") if clocked else ("k",), tasks=1, clocks=(clock,), **more)
    return Ingest(stream(event_time="t", lateness=lateness), (one,), 1, {})


def at(*moments: int | None) -> pa.RecordBatch:
    return rows(*((i, "x", t, 1) for i, t in enumerate(moments)))


def test_rows_below_the_watermark_are_refused_and_counted() -> None:
    found = run(timed(), at(4, 5, 6), marks={CLOCK: 5 * SECOND})
    assert sent(found, "#t") == [(0, "e", [5 * SECOND, 6 * SECOND])]
    assert report(found)["late"] == {"s": 1}
    assert "untimed" not in report(found)


@pytest.mark.parametrize("mark", [None, 0])
def test_rows_without_a_time_are_refused_and_counted(mark: int | None) -> None:
    found = run(timed(), at(4, None, 6), marks={CLOCK: mark})
    assert sent(found) == [(0, "e", [0, 2])]
    assert report(found)["untimed"] == {"s": 1}
    assert "late" not in report(found)


def test_where_nothing_expires_nothing_is_late() -> None:
    found = run(timed(clocked=False), at(4, None), marks={CLOCK: 5 * SECOND})
    assert sent(found) == [(0, "e", [0, 1])]
    assert not {"late", "untimed"} & set(report(found))


def test_the_newest_time_is_that_of_all_rows() -> None:
    found = run(timed(filter=(POSITIVE,)), at(100, 7), at(3), marks={CLOCK: 50 * SECOND})
    assert report(found)["newest"] == {"s": 100 * SECOND}, "also of rows that are late or not selected"
    assert sent(found) == []


def test_a_row_is_late_once_by_the_strictest_of_its_edges() -> None:
    two = (edge("one", ("#t",), tasks=1, clocks=("c1",)), edge("two", ("#t",), tasks=1, clocks=("c2",)))
    found = run(Ingest(stream(event_time="t"), two, 1, {}), at(1, 2, 3), marks={"c1": 2 * SECOND, "c2": 3 * SECOND})
    assert [(name, len(values)) for _, name, values in sent(found, "#t")] == [("one", 2), ("two", 1)]
    assert report(found)["late"] == {"s": 2}


def test_all_times_missing() -> None:
    found = run(timed(), at(None, None))
    assert sent(found) == []
    assert "newest" not in report(found)
    assert report(found)["untimed"] == {"s": 2}


@pytest.mark.parametrize(("unit", "step"), [("s", 1_000_000), ("ms", 1_000), ("us", 1)])
def test_units_of_event_times(unit: str, step: int) -> None:
    ingest = Ingest(stream(event_time="t", unit=unit), (edge("e", ("#t",), tasks=1, clocks=(CLOCK,)),), 1, {})
    assert sent(run(ingest, at(7)), "#t") == [(0, "e", [7 * step])]


def test_a_time_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SourceError, match='event time "t" of stream "s" is out of range') as caught:
        run(timed(), at(2**62))
    assert caught.value.detail
    assert caught.value.hint


# ------------------------------------------------------------------------------------- weights and values


def test_weights_travel_beside_the_columns() -> None:
    ingest = Ingest(stream(weight="w"), (edge("e", ("v",), tasks=1),), 1, {})
    assert ingest.columns == ("v", "w")
    found = run(ingest, rows((1, "x", 0, 2), (2, "y", 0, 0), (3, "z", 0, -1)))
    assert [e.frame.to_pydict() for e in found if e.frame is not None] == [{"v": ["x", "z"], "#w": [2, -1]}]
    assert report(found)["rows_in"] == {"s": 3}


def test_without_weights_the_hidden_column_is_not_there() -> None:
    found = run(Ingest(stream(), (edge("e", ("v", "w"), tasks=1),), 1, {}), keys(1))
    assert [e.frame.schema.names for e in found if e.frame is not None] == [["v", "w"]]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SourceError, match=r'column "k" of stream "s" is missing in file\.csv'):
        list(Ingest(stream(), (edge(),), 3, {}).run([(" in file.csv", keys(1).select(["v"]))], 0, {}))


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        (pa.array([1], pa.int32()), True),
        (pa.array([None], pa.null()), True),
        (pa.array([1.5]), False),
        (pa.array(["1"]), False),
        (pa.array([2**63], pa.uint64()), False),
    ],
    ids=["narrower", "nothing but NULL", "a float", "text", "too large"],
)
def test_values_are_brought_to_the_declared_type_or_refused(given: pa.Array, fits: bool) -> None:
    batch = pa.RecordBatch.from_arrays([given], names=["k"])
    ingest = Ingest(stream(), (edge(tasks=1),), 1, {})
    if fits:
        [found, _] = run(ingest, batch)
        assert found.frame is not None
        assert found.frame.schema.field("k").type == pa.int64()
        return
    with pytest.raises(SourceError, match='column "k" of stream "s"') as caught:
        run(ingest, batch)
    assert caught.value.detail
    assert caught.value.hint


def test_every_stream_of_a_topology_has_its_reader() -> None:
    other = Stream("other", SCHEMA)
    plan = Topology(2, (stream(), other), (), (), (edge("one"), edge("two")), (), (), ())
    found = ingests(plan, {})
    assert {name: [e.id for e in ingest.edges] for name, ingest in found.items()} == {"s": ["one", "two"], "other": []}
