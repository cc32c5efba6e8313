"""One worker in one wave, fed by hand: what it stores, sends, answers, lets wait and reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.planned import plan
from weft.host import portions
from weft.host import worker as module
from weft.host.batch import Batch, Report
from weft.host.crash import CrashPoint
from weft.host.envelope import REPORT, Envelope
from weft.host.inprocess.run import MemoryResults, MemoryState
from weft.host.state import compaction
from weft.host.state.segment import SegmentRef
from weft.host.worker import Worker
from weft.query.model import Stream
from weft.query.resolve import resolve
from weft.sql import parse
from weft.topology.model import Topology
from weft.topology.node import Keep, Probe

SCHEMA = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("t", pa.int64()), ("w", pa.int64())])
PAIR = "SELECT a.j AS x, b.j AS y FROM a, b WHERE a.k = b.k"
CHAIN = "SELECT a.j AS x, b.j AS y, c.j AS z FROM a, b, c WHERE a.k = b.k AND b.j = c.j"
WINDOW = f"{PAIR} WITHIN INTERVAL '10' SECOND"
SECOND = 1_000_000


def topology(sql: str, workers: int = 1, strategy: str | weft.Plan = "flat", weight: str | None = None) -> Topology:
    streams = {name: Stream(name, SCHEMA, event_time="t", weight=weight) for name in "abc"}
    return plan({"q": resolve(parse(sql), streams, {})}, workers, {"q": {"strategy": strategy}})


def frame(values: Mapping[str, Sequence[int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(found, pa.int64()) for name, found in values.items()})


class Bench:
    """A topology whose workers are run one by one, with state and results in memory."""

    def __init__(self, plan: Topology) -> None:
        self.plan, self.state = plan, MemoryState()
        self.results: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.live: dict[int, tuple[SegmentRef, ...]] = {}

    def worker(self, number: int = 0, batch: int = 0, marks: dict[str, int | None] | None = None) -> Worker:
        world = Batch(batch, marks or {}, self.live)
        return Worker(self.plan, number, world, self.state, {}, MemoryResults(self.results))

    def run(
        self, wave: int, arrivals: Iterable[Envelope], number: int = 0, batch: int = 0, **more: Any
    ) -> tuple[list[Envelope], Report]:
        """A wave of a worker: what it sends, and its report."""
        *sent, last = self.worker(number, batch, **more).run(wave, arrivals)
        assert last.edge == REPORT
        assert last.dest == number
        report = Report()
        report.merge(last.report or {})
        return sent, report

    def commit(self, *reports: Report) -> None:
        """Make what was added live, and what was merged away gone."""
        gone = {name for report in reports for name in report.removed}
        refs = [ref for found in self.live.values() for ref in found if ref.name not in gone]
        refs += [SegmentRef(**ref) for report in reports for ref in report.added]
        self.live = {n: tuple(r for r in refs if r.worker == n) for n in range(self.plan.workers)}

    def edge(self, stream: str) -> str:
        """The edge whose rows are both stored and probed with; there is one where one worker or one key will do."""
        [found] = [edge.id for edge in self.plan.edges if edge.stream == stream]
        return found

    def rows(self, stream: str, *rows: tuple[int, int], seq: int = 0, weights: Sequence[int] | None = None) -> Envelope:
        """Rows (k, j) of a stream, as its edge brings them."""
        name = self.edge(stream)
        columns: dict[str, list[int]] = {"k": [k for k, _ in rows], "j": [j for _, j in rows], "#t": [0] * len(rows)}
        values = {column: columns[column] for column in self.plan.edge_by_id[name].columns}
        if weights is not None:
            values["#w"] = list(weights)
        return Envelope(
            0, seq, name, pa.RecordBatch.from_pydict({n: pa.array(v, pa.int64()) for n, v in values.items()})
        )

    def answers(self) -> list[tuple[Any, ...]]:
        """Results so far."""
        return sorted(row for part in self.results["q"] for row in zip(*part.to_pydict().values(), strict=True))

    def held(self, stream: str) -> list[tuple[Any, ...]]:
        """Live rows of a stream's store, in order."""
        refs = [r for found in self.live.values() for r in found if self.plan.store(r.store).stream == stream]
        return [row for ref in refs for row in zip(*self.state.open(ref).rows.to_pydict().values(), strict=True)]


# ------------------------------------------------------------------------------------------------- wave 1


def test_rows_are_stored_before_anybody_looks() -> None:
    bench = Bench(topology(PAIR))
    sent, report = bench.run(1, [bench.rows("b", (1, 20)), bench.rows("a", (1, 10), (2, 11))])
    assert sent == []
    assert bench.answers() == [(10, 20)], "made by one of the two, once"
    bench.commit(report)
    assert bench.held("a") == [(10, 1), (11, 2)]
    assert bench.held("b") == [(20, 1)]
    assert sum(report.stored.values()) == 3
    assert report.results == {"q": 1}
    assert report.load == {"0": 3 + 3}, "what was stored, and what was answered"
    assert sum(report.probed.values()) == 3
    assert sum(report.matched.values()) == 1


def test_rows_of_earlier_batches_are_met_from_both_sides() -> None:
    bench = Bench(topology(PAIR))
    bench.commit(bench.run(1, [bench.rows("a", (1, 10))])[1])
    assert bench.answers() == []
    bench.commit(bench.run(1, [bench.rows("b", (1, 20))], batch=1)[1])
    bench.commit(bench.run(1, [bench.rows("a", (1, 11))], batch=2)[1])
    assert bench.answers() == [(10, 20), (11, 20)]


def test_a_batch_that_is_run_again_writes_the_same_segments() -> None:
    bench = Bench(topology(PAIR))
    runs = [bench.run(1, [bench.rows("a", (1, 10)), bench.rows("b", (1, 20))])[1] for _ in range(2)]
    assert runs[0].added == runs[1].added
    assert len({ref["name"] for ref in runs[0].added}) == 2


def test_rows_are_stored_in_the_order_of_their_numbers() -> None:
    bench = Bench(topology(PAIR))
    rows = [bench.rows("a", (n, n), seq=seq) for n, seq in ((3, 7), (1, 2), (2, 5))]
    bench.commit(bench.run(1, rows)[1])
    assert bench.held("a") == [(1, 1), (2, 2), (3, 3)]


def test_nothing_comes_of_nothing() -> None:
    bench = Bench(topology(PAIR))
    sent, report = bench.run(1, [])
    assert sent == []
    assert not report.added
    assert not report.stored
    assert set(report.seconds) == {"1"}


def test_reports_of_others_are_handed_on_unread() -> None:
    bench = Bench(topology(CHAIN, 2, weft.Plan(placement=BY_KEY)))
    note = Envelope(0, 3, REPORT, report={"anything": 1})
    for wave in (1, 2):
        assert bench.run(wave, [note])[0] == [note]


def test_a_self_join_makes_every_pair_once() -> None:
    bench = Bench(topology("SELECT x.j AS x, y.j AS y FROM a x, a y WHERE x.k = y.k"))
    bench.commit(bench.run(1, [bench.rows("a", (1, 10), (1, 11))])[1])
    bench.run(1, [bench.rows("a", (1, 12))], batch=1)
    assert bench.answers() == sorted((x, y) for x in (10, 11, 12) for y in (10, 11, 12))


def test_a_query_over_one_stream_keeps_nothing() -> None:
    bench = Bench(topology("SELECT a.j AS x FROM a"))
    _, report = bench.run(1, [bench.rows("a", (1, 10))])
    assert bench.answers() == [(10,)]
    assert not report.added


def test_many_rows_are_answered_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION_ROWS", 10)
    bench = Bench(topology(PAIR))
    bench.run(1, [bench.rows("b", (1, 0)), bench.rows("a", *((1, j) for j in range(35)))])
    assert [part.num_rows for part in bench.results["q"]] == [35]
    bench.results.clear()
    bench = Bench(topology(PAIR))
    bench.commit(bench.run(1, [bench.rows("a", (1, 0))])[1])
    bench.run(1, [bench.rows("b", *((1, j) for j in range(35)))], batch=1)
    assert [part.num_rows for part in bench.results["q"]] == [10, 10, 10, 5]


# ------------------------------------------------------------------------------------------------- routes

BY_KEY = {"a": "a.k", "b": "b.k", "c": "c.j"}
"""Tuples of a find b where they come, and go on to c by b.j."""
BACK = "SELECT a.j AS x, b.j AS y, c.j AS z FROM a, b, c WHERE c.k = b.k AND b.j = a.j"
"""The same with a, whose rows are the oldest of a batch, at the end."""
BACK_BY_KEY = {"c": "c.k", "b": "b.k", "a": "a.j"}


def ones(columns: Iterable[str], *values: int) -> pa.RecordBatch:
    """A frame with the same values in all columns."""
    return frame(dict.fromkeys(columns, values or (1,)))


def test_matches_travel_to_the_owner_of_their_key() -> None:
    bench = Bench(topology(CHAIN, 3, weft.Plan(placement=BY_KEY)))
    edges = {e.stream: e for e in bench.plan.edges if e.stores and e.starts}
    sent, report = bench.run(1, [Envelope(0, 0, edges[name].id, ones(edges[name].columns, 1, 1)) for name in "ab"])
    assert bench.answers() == []
    assert sent
    for envelope in sent:
        node = bench.plan.nodes[envelope.edge]
        assert isinstance(node, Probe)
        assert (node.members, node.route, node.wave) == (("c",), "key", 2)
        assert envelope.frame is not None
        assert set(envelope.frame.schema.names) == set(node.fields)
    assert sum(report.sent.values()) == sum(report.matched.values()) == 4
    assert sum(report.messages.values()) == len(sent) == 1
    assert len({envelope.dest for envelope in sent}) == 1


@pytest.mark.parametrize(("sql", "homes", "target", "met"), [(CHAIN, BY_KEY, "c", 0), (BACK, BACK_BY_KEY, "a", 1)])
def test_the_second_wave_looks_into_what_the_first_has_noted(
    sql: str, homes: dict[str, str], target: str, met: int
) -> None:
    """Rows of its own batch are met by a tuple iff they are older."""
    bench = Bench(topology(sql, 2, weft.Plan(placement=homes)))
    assert bench.plan.waves == 2
    [edge] = [e for e in bench.plan.edges if e.stream == target and e.stores]
    first = bench.run(1, [Envelope(1, 0, edge.id, ones(edge.columns))], number=1)[1]
    assert sum(first.stored.values()) == 1
    probes = [p for p in bench.plan.probes if p.wave == 2 and p.members == (target,)]
    assert probes
    for probe in probes:
        sent, report = bench.run(2, [Envelope(1, 1, probe.id, ones(probe.fields))], number=1)
        assert sent == []
        assert report.probed == {probe.id: 1}
        assert report.matched.get(probe.id, 0) == len(probe.sees) == met
        assert not report.added, "rows of streams were told of in the first wave"
    bench.commit(first)
    for probe in probes:
        bench.run(1, [], number=1, batch=1)
        assert bench.run(2, [Envelope(1, 1, probe.id, ones(probe.fields))], number=1, batch=1)[1].matched


def test_tuples_for_a_later_wave_are_handed_on_unread() -> None:
    plan = topology(CHAIN, 2, weft.Plan(placement=BY_KEY))
    probe = next(p for p in plan.probes if p.wave == 2)
    bench = Bench(replace(plan, probes=tuple(replace(p, wave=3) if p == probe else p for p in plan.probes)))
    bench.run(1, [])
    early = Envelope(0, 9, probe.id, ones(probe.fields))
    sent, report = bench.run(2, [early])
    assert sent == [early]
    assert not report.probed


def test_a_broadcast_asks_every_worker() -> None:
    plan = topology("SELECT a.j AS x, b.j AS y, c.j AS z FROM a, b, c WHERE a.k = b.k AND b.j < c.j", 3)
    bench = Bench(plan)
    edges = {e.stream: e for e in plan.edges if e.stores and e.starts and e.stream != "c"}
    sent, report = bench.run(1, [Envelope(0, 0, edges[name].id, ones(edges[name].columns)) for name in "ab"])
    to_c = [e for e in sent if e.edge != REPORT and plan.nodes[e.edge].route == "broadcast"]
    assert [e.dest for e in to_c] == [0, 1, 2]
    assert sum(report.routed.values()) * 3 == sum(report.sent.values())


def test_arriving_tuples_are_answered_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portions, "PORTION_ROWS", 4)
    bench = Bench(topology(BACK, 2, weft.Plan(placement=BACK_BY_KEY)))
    [edge] = [e for e in bench.plan.edges if e.stream == "a" and e.stores]
    bench.run(1, [Envelope(0, 0, edge.id, ones(edge.columns))])
    probe = next(p for p in bench.plan.probes if p.wave == 2 and p.members == ("a",))
    _, report = bench.run(2, [Envelope(0, n, probe.id, ones(probe.fields, 1, 1, 1)) for n in range(5)])
    assert report.probed == {probe.id: 15}
    assert [part.num_rows for part in bench.results["q"]] == [6, 6, 3]


# -------------------------------------------------------------------------------------- intermediate results


def kept(workers: int = 1) -> Bench:
    """The join of a and b is kept; c looks into it."""
    places = {"a": "a.k", "b": "b.k", "c": "c.j", ("a", "b"): "b.j"}
    return Bench(topology(CHAIN, workers, weft.Plan([("a", "b")], placement=places)))


def test_what_is_kept_is_there_for_those_of_a_later_position() -> None:
    bench = kept()
    assert [start.position for start in bench.plan.starts] == [0, 1, 2]
    rows = [bench.rows("c", (7, 5)), bench.rows("b", (1, 5)), bench.rows("a", (1, 10), (2, 11))]
    _, report = bench.run(1, rows)
    assert bench.answers() == [(10, 5, 5)], "by c, which is the newest of the batch"
    bench.commit(report)
    [store] = [s.id for s in bench.plan.stores if s.members]
    [ref] = [r for r in bench.live[0] if r.store == store]
    assert ref.origin == "b"
    assert ref.rows == 1
    bench.run(1, [bench.rows("c", (8, 5))], batch=1)
    assert bench.answers() == [(10, 5, 5)] * 2


def test_who_is_older_than_what_is_kept_does_not_see_it() -> None:
    """a makes (a, b) with a b of an earlier batch; c of this batch is newer and makes the result, once."""
    bench = kept()
    bench.commit(bench.run(1, [bench.rows("b", (1, 5))])[1])
    bench.commit(bench.run(1, [bench.rows("a", (1, 10)), bench.rows("c", (7, 5))], batch=1)[1])
    assert bench.answers() == [(10, 5, 5)]
    origins = {r.origin for r in bench.live[0] if bench.plan.store(r.store).members}
    assert origins == {"a"}


def test_rows_to_keep_travel_first() -> None:
    bench = kept(3)
    edges = {e.stream: e for e in bench.plan.edges if e.stores and e.starts}
    sent, report = bench.run(1, [Envelope(0, 0, edges[name].id, ones(edges[name].columns)) for name in "ab"])
    ordered = [bench.plan.nodes[e.edge] for e in sorted(sent, key=lambda e: e.seq)]
    assert any(isinstance(node, Keep) for node in ordered)
    assert any(isinstance(node, Probe) for node in ordered)
    places = [node.position for node in ordered]
    assert places == sorted(places), "what is kept comes before those who look"
    assert not [ref for ref in report.added if bench.plan.store(ref["store"]).members], "it is stored where it arrives"


def test_the_second_wave_keeps_what_comes_before_it_answers() -> None:
    bench = kept(2)
    [keep] = [k for k in bench.plan.keeps if k.origin == "b"]
    [probe] = [p for p in bench.plan.probes if p.origin == "c"]
    assert keep.wave == probe.wave == bench.plan.waves == 2
    bench.run(1, [])
    arrivals = [Envelope(0, 1, keep.id, ones(keep.fields, 5)), Envelope(0, 2, probe.id, ones(probe.fields, 5))]
    sent, report = bench.run(2, arrivals)
    assert sent == []
    assert report.matched == {probe.id: 1}
    assert bench.answers() == [(5, 5, 5)]
    assert [ref["origin"] for ref in report.added] == ["b"]


def test_large_intermediate_results_are_written_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEEP_BYTES", 100)
    monkeypatch.setattr(portions, "PORTION_ROWS", 10)
    bench = kept(2)
    [keep] = [k for k in bench.plan.keeps if k.origin == "b"]
    bench.run(1, [])
    _, report = bench.run(2, [Envelope(0, n, keep.id, ones(keep.fields, *range(20))) for n in range(3)])
    assert sum(ref["rows"] for ref in report.added) == 60
    assert len({ref["name"] for ref in report.added}) == len(report.added) == 3


# --------------------------------------------------------------------------------------------- time and merging


def test_expired_segments_are_not_looked_into() -> None:
    bench = Bench(topology(WINDOW))
    [clock] = [c.id for c in bench.plan.clocks]
    bench.commit(bench.run(1, [bench.rows("a", (1, 10))])[1])
    bench.run(1, [bench.rows("b", (1, 20))], batch=1, marks={clock: 5 * SECOND})
    assert bench.answers() == [(10, 20)]
    bench.results.clear()
    bench.run(1, [bench.rows("b", (1, 20))], batch=1, marks={clock: 11 * SECOND})
    assert bench.answers() == []


def test_segments_are_merged_and_the_driver_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN", 3)
    bench = Bench(topology(PAIR))
    for batch in range(3):
        _, report = bench.run(1, [bench.rows("a", (batch, batch))], batch=batch)
        bench.commit(report)
    assert len(report.removed) == 2
    assert [(ref["rows"], ref["level"]) for ref in report.added] == [(3, 1)]
    assert bench.held("a") == [(0, 0), (1, 1), (2, 2)]
    assert report.stored == {ref["store"]: 1 for ref in report.added}, "rows that are merged are not stored anew"


def test_a_worker_dies_where_it_is_told_to() -> None:
    bench = Bench(topology(PAIR))
    for place in ("wave 1 before", "segment write", "wave 1 after"):
        batch = Batch(0, {}, {}, crash=CrashPoint(place, 0))
        dying = Worker(bench.plan, 0, batch, bench.state, {}, MemoryResults(bench.results))
        with pytest.raises(weft.HostError, match=f"crash point reached: {place}"):
            list(dying.run(1, [bench.rows("a", (1, 1))]))


# ------------------------------------------------------------------------------------------------- weights


def test_weights_go_in_and_come_out() -> None:
    bench = Bench(topology(PAIR, weight="w"))
    _, report = bench.run(1, [bench.rows("a", (1, 10), weights=[3]), bench.rows("b", (1, 20), weights=[-2])])
    assert bench.answers() == [(10, 20, -6)]
    assert [part.schema.names for part in bench.results["q"]] == [["x", "y", "#w"]]
    bench.commit(report)
    assert bench.held("a") == [(10, 1, 3)]


def test_weights_are_kept_in_intermediate_results() -> None:
    bench = kept()
    rows = [bench.rows("a", (1, 10), weights=[2]), bench.rows("b", (1, 5), weights=[3]), bench.rows("c", (7, 5))]
    bench.commit(bench.run(1, rows)[1])
    bench.run(1, [bench.rows("c", (8, 5), weights=[-1])], batch=1)
    assert bench.answers() == [(10, 5, 5, -6), (10, 5, 5, 6)]


def test_segments_with_and_without_weights_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN", 2)
    bench = Bench(topology(PAIR))
    bench.commit(bench.run(1, [bench.rows("a", (1, 10))])[1])
    bench.commit(bench.run(1, [bench.rows("a", (1, 11), weights=[5])], batch=1)[1])
    assert bench.held("a") == [(10, 1, 1), (11, 1, 5)]


def test_without_weights_nobody_has_the_column() -> None:
    bench = kept(3)
    edges = {e.stream: e for e in bench.plan.edges if e.stores and e.starts}
    sent, report = bench.run(1, [Envelope(0, 0, edges[name].id, ones(edges[name].columns)) for name in "ab"])
    bench.commit(report)
    frames = [e.frame for e in sent if e.frame is not None]
    frames += [bench.state.open(ref).rows for refs in bench.live.values() for ref in refs]
    assert frames
    assert all("#w" not in found.schema.names for found in frames)
