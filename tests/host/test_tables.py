"""Tables: read once, before all streams; against the oracle after every batch, under random plans."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

import weft
from tests.fuzz import (
    Case,
    QueryMaker,
    StreamCase,
    Tables,
    cut,
    functions,
    make_stream,
    plain_functions,
    small_limits,
    some_plans,
)
from tests.planned import plan
from weft.errors import QueryError
from weft.host.inprocess.run import InProcess
from weft.query.calls import FunctionSignature
from weft.query.model import Query, Stream
from weft.query.resolve import resolve
from weft.sql import parse
from weft.testing import Trial, assert_same_rows, expected_after_lateness
from weft.topology.model import Topology

FEW = {2: 25, 3: 14, 4: 9}
"""Most rows of a relation, by the number of relations of a query."""


@dataclass(frozen=True)
class TableCase:
    """Random tables and streams, a query over them, and the rows in batches: those of tables in the first."""

    seed: int
    text: str
    query: Query
    batches: Sequence[Tables]
    workers: int


def make_case(seed: int) -> TableCase:
    rng = random.Random(seed)
    count = rng.choice([2, 2, 3, 3, 4])
    keys = rng.choice([1, 2, 3])
    tables = [make_table(rng, f"t{i}", FEW[count], keys) for i in range(rng.randint(1, 2))]
    streams = [make_stream(rng, f"r{i}", FEW[count], keys) for i in range(rng.randint(1, min(3, count)))]
    known = {stream.name: stream for stream in (*tables, *streams)}
    text = QueryMaker(rng, known, extremes=True).query(count)
    case = Case(seed, {stream.name: stream for stream in streams}, {}, 1)
    batches = cut(rng, case)
    batches[0] |= {table.name: table.rows for table in tables}
    return TableCase(seed, text, read(text, known), batches, rng.randint(1, 4))


def make_table(rng: random.Random, name: str, most: int, keys: int) -> StreamCase:
    """Rows as a stream has them, without an event time."""
    return replace(make_stream(rng, name, most, keys), event_time=None)


def read(text: str, known: Mapping[str, StreamCase]) -> Query:
    streams = {
        s.name: Stream(
            s.name,
            s.schema,
            s.event_time,
            s.unit,  # type: ignore[arg-type]
            int(s.lateness * 1_000_000),
            table=s.name.startswith("t"),
        )
        for s in known.values()
    }
    signatures = {name: FunctionSignature(name, returns) for name, (returns, _) in functions().items()}
    return resolve(parse(text), streams, signatures)


def run(case: TableCase) -> int:
    """The case under some plans, compared after every batch; how many rows it answered."""
    rng = random.Random(case.seed + 1)
    plans = {f"q{i}": asked for i, asked in enumerate(some_plans(rng, case.query, case.workers))}
    host = InProcess(plan(dict.fromkeys(plans, case.query), case.workers, plans), plain_functions())
    check_plan(host.topology, case.query)
    with small_limits(rng):
        for number, batch in enumerate(case.batches):
            host.feed(batch)
            wanted = expected_after_lateness(case.query, case.batches[: number + 1], plain_functions())
            for name, asked in plans.items():
                what = f"seed {case.seed}, batch {number}, {asked}, {case.workers} workers, {case.text}: "
                assert_same_rows(host.table(name), wanted, what)
    return wanted.num_rows * len(plans)


def check_plan(topology: Topology, query: Query) -> None:
    """What a plan must not do for the sake of a table."""
    streams = [r.stream.name for r in query.relations if not r.stream.table]
    stored = {store.stream for store in topology.stores}
    if len(streams) == 1:
        assert streams[0] not in stored, "rows of a stream are kept for the sake of a table"
        assert not topology.clocks
    tables = {r.stream.name for r in query.relations if r.stream.table}
    assert not tables & {name for clock in topology.clocks for name, _ in clock.streams}
    for start in topology.starts:
        if start.label in topology.tables and streams:
            assert not list(emits(topology, start.then)), "a row of a table begins a result"


def emits(topology: Topology, following: Sequence[str]) -> Iterator[str]:
    """Queries whose results leave somewhere on a way."""
    for name in following:
        node = topology.nodes[name]
        if name in {emit.id for emit in topology.emits}:
            yield name
        yield from emits(topology, getattr(node, "then", ()))


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(4))
def test_tables_and_streams_answer_what_the_oracle_answers(chunk: int) -> None:
    rows = sum(run(make_case(seed)) for seed in range(chunk * 12, chunk * 12 + 12))
    assert rows > 100, "the cases of this chunk join next to nothing"


# ------------------------------------------------------------------------------------------ small things

EVENTS = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("t", pa.int64())])
NAMES = pa.schema([("k", pa.int64()), ("name", pa.string())])


def events(*values: tuple[int, int, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "j": j, "t": t} for k, j, t in values], EVENTS)


def named(**values: int) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "name": name} for name, k in values.items()], NAMES)


def session(workers: int = 1, *, tables: Sequence[str] = ("d",)) -> weft.Session:
    """Streams a and b with event times in seconds, and tables."""
    s = weft.Session("unused", workers=workers)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([events()]), event_time="t")
    for name in tables:
        s.table(name, weft.read.batches([named(one=1)]))
    return s


@pytest.mark.parametrize("workers", [1, 3])
def test_a_stream_looks_a_table_up_and_leaves_nothing_behind(workers: int) -> None:
    s = session(workers)
    s.query("q", "SELECT d.name, a.t FROM a, d WHERE a.k = d.k")
    trial = Trial(s)
    trial.feed({"d": named(one=1, two=2, uno=1), "a": events((1, 0, 5))})
    held = trial.state_rows
    trial.feed({"a": events((2, 0, 9), (1, 0, 1), (3, 0, 1))})
    assert trial.state_rows == held
    assert [store.stream for store in trial.topology.stores] == ["d"]
    found = sorted((row["name"], row["t"]) for row in trial.table("q").to_pylist())
    assert found == [("one", 1), ("one", 5), ("two", 9), ("uno", 1), ("uno", 5)]


def test_with_a_window_too_nothing_is_late_for_a_table() -> None:
    s = session()
    query = s.query("q", "SELECT d.name, a.t FROM a WITHIN INTERVAL '5' SECOND, d WHERE a.k = d.k").query
    batches = [{"d": named(one=1), "a": events((1, 0, 100))}, {"a": events((1, 0, 1))}]
    trial = Trial(s)
    for batch in batches:
        trial.feed(batch)
    assert trial.late == {}
    assert_same_rows(trial.table("q"), expected_after_lateness(query, batches))
    assert trial.table("q").num_rows == 2


def test_the_watermark_goes_on_without_the_table() -> None:
    s = session()
    sql = "SELECT d.name, a.t AS x, b.t AS y FROM a, b, d WHERE a.k = b.k AND d.k = a.k WITHIN INTERVAL '10' SECOND"
    s.query("q", sql)
    trial = Trial(s)
    assert [[name for name, _ in clock.streams] for clock in trial.topology.clocks] == [["a", "b"]]
    trial.feed({"d": named(one=1), "a": events((1, 0, 100)), "b": events((1, 0, 100))})
    trial.feed({"a": events((1, 0, 1), (1, 0, 101))})
    assert trial.late == {"a": 1}
    trial.feed({"a": events((1, 0, 200)), "b": events((1, 0, 200))})
    rows = {trial.topology.store(name).stream: count for name, count in trial.state_rows.items()}
    assert rows == {"a": 1, "b": 1, "d": 1}, "streams expire, the table stays"


def test_a_query_over_tables_alone_answers() -> None:
    s = session(2, tables=("d", "e"))
    s.query("q", "SELECT d.name AS x, e.name AS y FROM d, e WHERE d.k = e.k")
    s.query("alone", "SELECT d.name FROM d WHERE d.k > 1")
    s.query("twice", "SELECT x.name AS x, y.name AS y FROM d x, d y WHERE x.k < y.k")
    trial = Trial(s)
    trial.feed({"d": named(one=1, two=2), "e": named(uno=1, eins=1)})
    assert sorted(map(tuple, (row.values() for row in trial.table("q").to_pylist()))) == [
        ("one", "eins"),
        ("one", "uno"),
    ]
    assert trial.table("alone").to_pylist() == [{"name": "two"}]
    assert trial.table("twice").to_pylist() == [{"x": "one", "y": "two"}]


@pytest.mark.parametrize("strategy", ["flat", "left_deep", "exhaustive", "hypercube:hash"])
def test_a_join_of_tables_may_be_kept(strategy: str) -> None:
    s = session(2, tables=("d", "e"))
    sql = "SELECT a.t, d.name AS x, e.name AS y FROM a, d, e WHERE a.k = d.k AND d.k = e.k"
    query = s.query("q", sql, strategy=strategy).query
    s.query("kept", sql, strategy=weft.Plan([("d", "e")]))
    s.query("useless", sql, strategy=weft.Plan([("a", "d")]))
    batches = [
        {"d": named(one=1, two=2), "e": named(uno=1, eins=1), "a": events((1, 0, 3))},
        {"a": events((1, 0, 5), (2, 0, 5))},
    ]
    trial = Trial(s)
    kept = [store for store in trial.topology.stores if store.members]
    assert [store.members for store in kept] == [("d", "e")], "what only a table is joined with is not kept"
    for batch in batches:
        trial.feed(batch)
    for name in ("q", "kept", "useless"):
        assert_same_rows(trial.table(name), expected_after_lateness(query, batches))


def test_a_table_has_no_event_time() -> None:
    with pytest.raises(QueryError, match='table "d" has an event time') as caught:
        Stream("d", EVENTS, event_time="t", table=True)
    assert caught.value.detail
    assert caught.value.hint


def test_a_table_has_no_window() -> None:
    with pytest.raises(QueryError, match='table "d" has no window') as caught:
        session().query("q", "SELECT d.name FROM a, d WITHIN INTERVAL '5' SECOND WHERE a.k = d.k")
    assert caught.value.hint == 'leave WITHIN out after "d".'


def test_a_name_is_given_once() -> None:
    s = session()
    with pytest.raises(QueryError, match="exists already"):
        s.table("a", weft.read.batches([named(one=1)]))
    with pytest.raises(QueryError, match="exists already"):
        s.stream("d", weft.read.batches([named(one=1)]))


def test_positions_begin_with_tables() -> None:
    s = session(2, tables=("z",))
    s.query("q", "SELECT z.name, a.t AS x, b.t AS y FROM a, b, z WHERE a.k = b.k AND z.k = b.j")
    topology = s.topology
    assert topology.tables == {"z"}
    assert {start.label: start.position for start in topology.starts} == {"a": 1, "b": 2}
    assert all(probe.sees for probe in topology.probes if probe.members == ("z",))
