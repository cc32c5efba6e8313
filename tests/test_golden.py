"""The golden numbers of the specification: windows (G-W1..G-W5) and messages (G-M1, G-M2)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

import weft
from tests.optimizer.test_plans import ways
from weft.host.batch import Report
from weft.testing import Trial
from weft.topology.clock import Policy
from weft.topology.model import Edge
from weft.topology.node import Probe

Arrival = tuple[str, dict[str, object]]


def trial(
    columns: dict[str, Sequence[str]], sql: str, *, lateness: float = 0, workers: int = 1, policy: Policy = "min"
) -> Trial:
    """A session over streams with integer columns and an event time `t` in seconds."""
    session = weft.Session("unused", workers=workers)
    session.options(watermark=policy)
    for stream, names in columns.items():
        schema = pa.schema([(name, pa.int64()) for name in (*names, "t")] + [("id", pa.string())])
        session.stream(stream, weft.read.batches([schema.empty_table()]), event_time="t", lateness=lateness)
    session.query("q", sql)
    return Trial(session)


def feed(run: Trial, *arrivals: Arrival) -> Report:
    """One micro-batch of these rows."""
    schemas = {stream.name: stream.schema for stream in run.topology.streams}
    tables = {
        name: pa.Table.from_pylist([row for stream, row in arrivals if stream == name], schema)
        for name, schema in schemas.items()
    }
    return run.feed(tables)


def found(run: Trial) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in run.table("q").to_pylist())


W1 = {"R": ["a"], "S": ["a", "b"], "T": ["b"]}
W1_SQL = """SELECT r.id AS r, s.id AS s, t.id AS t FROM R r, S s, T t
            WHERE r.a = s.a AND s.b = t.b WITHIN INTERVAL '{}' SECOND"""
W1_ROWS: list[Arrival] = [
    ("R", {"a": 1, "t": 10, "id": "r"}),
    ("T", {"b": 7, "t": 12, "id": "t"}),
    ("S", {"a": 1, "b": 7, "t": 16, "id": "s"}),
]


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("window", "expected"), [(7, 1), (6, 0), (10, 1), (5, 0)])
def test_gw1_the_newest_tuple_makes_the_result_inside_the_window(window: int, expected: int, workers: int) -> None:
    one_by_one, at_once = (trial(W1, W1_SQL.format(window), lateness=100, workers=workers) for _ in range(2))
    made = [feed(one_by_one, arrival).results.get("q", 0) for arrival in W1_ROWS]
    feed(at_once, *W1_ROWS)
    assert made == [0, 0, expected]
    assert found(one_by_one) == found(at_once) == [("r", "s", "t")] * expected


def test_gw2_the_window_of_the_newest_tuple_is_not_used() -> None:
    sql = """SELECT r.id AS r, s.id AS s, t.id AS t FROM R r WITHIN INTERVAL '10' SECOND,
             S s WITHIN INTERVAL '2' SECOND,
             T t WITHIN INTERVAL '4' SECOND WHERE r.a = s.a AND s.b = t.b"""
    rows: list[Arrival] = [
        ("R", {"a": 1, "t": 0, "id": "r"}),
        ("T", {"b": 7, "t": 7, "id": "t"}),
        ("S", {"a": 1, "b": 7, "t": 9, "id": "s"}),
    ]
    run = trial(W1, sql)
    for row in rows:
        feed(run, row)
    assert found(run) == [("r", "s", "t")]


@pytest.mark.parametrize("order", ["rs", "sr", "both"])
def test_gw3_ties_make_one_result_whichever_is_read_first(order: str) -> None:
    run = trial(
        {"R": ["a"], "S": ["a"]},
        "SELECT r.id AS r, s.id AS s FROM R r, S s WHERE r.a = s.a WITHIN INTERVAL '10' SECOND",
    )
    rows: dict[str, Arrival] = {"r": ("R", {"a": 1, "t": 5, "id": "r"}), "s": ("S", {"a": 1, "t": 5, "id": "s"})}
    for batch in [["r", "s"]] if order == "both" else [[name] for name in order]:
        feed(run, *(rows[name] for name in batch))
    assert found(run) == [("r", "s")]


W4_ROWS: list[Arrival] = [
    ("U", {"z": 1, "t": 1, "id": "u1"}),
    ("R", {"x": 1, "t": 2, "id": "r1"}),
    ("T", {"y": 1, "z": 1, "t": 3, "id": "t1"}),
    ("S", {"x": 1, "y": 1, "t": 4, "id": "s1"}),
    ("R", {"x": 2, "t": 5, "id": "r2"}),
    ("S", {"x": 2, "y": 9, "t": 6, "id": "s2"}),
    ("S", {"x": 2, "y": 1, "t": 20, "id": "s3"}),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("window", ["INTERVAL '10' SECOND", "UNBOUNDED"])
def test_gw4_a_tuple_that_left_its_window_is_no_partner(window: str, together: bool, workers: int) -> None:
    sql = f"""SELECT r.id AS r, s.id AS s, t.id AS t, u.id AS u
              FROM R r, S s, T t, U u WITHIN {window}
              WHERE r.x = s.x AND s.y = t.y AND t.z = u.z WITHIN INTERVAL '100' SECOND"""
    run = trial({"R": ["x"], "S": ["x", "y"], "T": ["y", "z"], "U": ["z"]}, sql, lateness=100, workers=workers)
    if together:
        feed(run, *W4_ROWS)
    else:
        for row in W4_ROWS:
            feed(run, row)
    expected = [("r1", "s1", "t1", "u1")] + ([("r2", "s3", "t1", "u1")] if window == "UNBOUNDED" else [])
    assert found(run) == expected


W5_SQL = "SELECT r.id AS r, s.id AS s FROM R r, S s WHERE r.a = s.a WITHIN INTERVAL '10' SECOND"


@pytest.mark.parametrize("policy", ["min", "max"])
def test_gw5_a_late_tuple_above_the_watermark_is_matched(policy: Policy) -> None:
    run = trial({"R": ["a"], "S": ["a"]}, W5_SQL, lateness=2, policy=policy)
    assert feed(run, ("R", {"a": 1, "t": 8, "id": "r"})).results == {}
    assert feed(run, ("S", {"a": 1, "t": 7, "id": "s"})).results == {"q": 1}
    assert run.late == {}


@pytest.mark.parametrize("policy", ["min", "max"])
def test_gw5_a_tuple_below_the_watermark_is_dropped_and_counted(policy: Policy) -> None:
    run = trial({"R": ["a"], "S": ["a"]}, W5_SQL, lateness=2, policy=policy)
    feed(run, ("R", {"a": 1, "t": 8, "id": "r"}))
    feed(run, ("R", {"a": 5, "t": 20, "id": "r'"}), ("S", {"a": 6, "t": 20, "id": "s'"}))
    feed(run, ("S", {"a": 1, "t": 7, "id": "s"}))
    assert found(run) == []
    assert run.late == {"S": 1}


def probes_of(run: Trial, alias: str) -> list[Probe]:
    """The probes of an alias's tuples, in order."""
    return dict(ways(run.topology, "q"))[alias]


def edge_of(run: Trial, alias: str) -> Edge:
    """The edge that brings an alias's tuples to their first probe."""
    start = run.topology.all_starts_of("q")[alias][0]
    return next(edge for edge in run.topology.edges if start.id in edge.starts)


@pytest.mark.parametrize("match", [True, False])
def test_gm1_messages_of_a_three_way_probe_with_scattered_stores(match: bool) -> None:
    sql = "SELECT r.id AS r, s.id AS s, t.id AS t FROM S s, R r, T t WHERE r.a < s.a AND s.b < t.b"
    run = trial(W1, sql, workers=2)
    assert all(not store.placement for store in run.topology.stores), "the stores are meant to be scattered"
    feed(
        run,
        *(("R", {"a": a if match else 100, "t": 0, "id": f"r{a}"}) for a in (0, 1)),
        *(("T", {"b": b, "t": 0, "id": f"t{b}"}) for b in (8, 9)),
    )
    report = feed(run, ("S", {"a": 5, "b": 5, "t": 1, "id": "s"}))
    store = next(store for store in run.topology.stores if store.stream == "S")
    to_r, to_t = probes_of(run, "s")
    assert (to_r.members, to_t.members) == (("r",), ("t",))
    edge = edge_of(run, "s")
    assert report.stored == {store.id: 1}, "one copy is stored"
    assert report.sent[edge.id] == 2, "it goes to both R tasks"
    assert report.probed[to_r.id] == 2
    if match:  # one match on each R task: two partial results, each to both T tasks
        assert report.sent[to_t.id] == report.probed[to_t.id] == 4
        assert report.results == {"q": 4}, "one for each matching triple"
    else:
        assert to_t.id not in report.sent
        assert report.results == {}


# ------------------------------------------------------------------------------------------------- G-M2

M2_SQL = "SELECT r.id AS r, s.id AS s, t.id AS t FROM R r, S s, T t WHERE r.a = s.a AND s.b = t.b"
M2_PLAN = {"r": "r.a", "s": "s.a", "t": "t.b"}


def trial_of(keep: Sequence[Sequence[str]], placement: dict[str | tuple[str, ...], str]) -> Trial:
    session = weft.Session("unused", workers=5)
    for stream, names in W1.items():
        schema = pa.schema([(name, pa.int64()) for name in (*names, "t")] + [("id", pa.string())])
        session.stream(stream, weft.read.batches([schema.empty_table()]), event_time="t")
    session.query("q", M2_SQL, strategy=weft.Plan(keep, placement=placement))
    return Trial(session)


def stored_s(k: int) -> list[Arrival]:
    """k tuples of S that match a = 1, with different b, and some that do not."""
    rows = [(1, b) for b in range(k)] + [(a, 50 + a) for a in range(2, 9)]
    return [("S", {"a": a, "b": b, "t": 0, "id": f"s{a}.{b}"}) for a, b in rows]


@pytest.mark.parametrize("k", [0, 1, 3, 12])
def test_gm2_a_tuple_goes_to_the_one_owner_of_its_key_hop_by_hop(k: int) -> None:
    run = trial_of([], M2_PLAN)
    feed(run, *stored_s(k), *(("T", {"b": b, "t": 0, "id": f"t{b}"}) for b in range(k)))
    report = feed(run, ("R", {"a": 1, "t": 1, "id": "r"}))
    edge = edge_of(run, "r")
    assert (report.sent[edge.id], report.messages[edge.id]) == (1, 1), "stored and sent to S by a: one message for both"
    first, second = (probe.id for probe in probes_of(run, "r"))
    assert report.probed[first] == 1
    assert report.probed.get(second, 0) == report.routed.get(second, 0) == k, "k tuples, one target each"
    assert report.sent.get(second, 0) == k
    assert report.results.get("q", 0) == k


def test_gm2_a_tuple_without_the_key_goes_to_all_five_tasks() -> None:
    run = trial_of([], M2_PLAN)
    feed(run, *stored_s(3), ("R", {"a": 1, "t": 0, "id": "r"}))
    report = feed(run, ("T", {"b": 2, "t": 1, "id": "t"}))
    first, second = (probe.id for probe in probes_of(run, "t"))
    assert report.probed[first] == 5, "S lies by a, which t does not know"
    edge = edge_of(run, "t")
    assert (report.routed[edge.id], report.sent[edge.id], report.messages[edge.id]) == (1, 5, 5)
    assert report.probed[second] == 1
    assert report.results == {"q": 1}
    assert sum(report.stored.values()) == 1


def test_gm2_an_intermediate_store_by_the_other_key_is_asked_once() -> None:
    run = trial_of([("r", "s")], {**M2_PLAN, ("r", "s"): "s.b"})
    feed(run, *stored_s(3), ("R", {"a": 1, "t": 0, "id": "r"}))
    [kept] = [store for store in run.topology.stores if store.members]
    assert run.counters.stored[kept.id] == 3, "r JOIN S is in the store"
    report = feed(run, ("T", {"b": 2, "t": 1, "id": "t"}))
    edge = edge_of(run, "t")
    assert (report.sent[edge.id], report.messages[edge.id]) == (1, 1)
    [only] = probes_of(run, "t")
    assert report.probed == {only.id: 1}, "one message, one hop"
    assert report.results == {"q": 1}
    report = feed(run, ("R", {"a": 1, "t": 2, "id": "r2"}))
    assert report.stored[kept.id] == 3, "k tuples of r JOIN S come in"
    assert sum(report.probed[probe.id] for probe in run.topology.probes if probe.id in report.probed) == 4
    assert report.results == {"q": 1}
