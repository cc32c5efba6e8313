"""Results may be sent to the worker that a key names before they leave, as a group-by will ask for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.host.ingest import ingests
from weft.host.inprocess.run import InProcess, MemoryResults, MemoryState
from weft.host.state.manifest import Manifest
from weft.host.worker import Worker
from weft.optimizer.plan import topology
from weft.topology.model import Topology

SQL = "SELECT a.g AS g, b.y AS y, c.z AS z FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m"


def tables(seed: int, rows: int = 40) -> dict[str, pa.Table]:
    rng = np.random.default_rng(seed)
    columns = {"a": ("k", "g"), "b": ("k", "m", "y"), "c": ("m", "z")}
    return {name: pa.table({column: rng.integers(0, 6, rows) for column in wanted}) for name, wanted in columns.items()}


def planned(strategy: str, workers: int) -> Topology:
    s = weft.Session("unused", workers=workers)
    for name, table in tables(0, 1).items():
        s.stream(name, weft.read.batches([table]))
    s.query("q", SQL, strategy=strategy)
    return topology(s.choices)


def routed(plan: Topology) -> Topology:
    """The plan with an emit that sends results by their first output."""
    [emit] = plan.emits
    last = plan.waves + 1
    return replace(
        plan, emits=(replace(emit, route="key", route_key=(emit.outputs[0].expr,), tasks=plan.workers, wave=last),)
    )


@pytest.mark.parametrize("strategy", ["flat", "left_deep", "hypercube:hash"])
@pytest.mark.parametrize("workers", [1, 3])
def test_results_by_a_route_are_the_same_and_meet_by_their_key(strategy: str, workers: int) -> None:
    plan = planned(strategy, workers)
    plain, sent = InProcess(plan), InProcess(routed(plan))
    for seed in range(3):
        batch = tables(seed)
        plain.feed(batch)
        report = sent.feed(batch)
        assert report.sent["emit q"] == report.results["q"]
    rows = [Counter(map(tuple, (row.values() for row in run.table("q").to_pylist()))) for run in (plain, sent)]
    assert rows[0] == rows[1]
    assert sum(rows[0].values()) > 100


def test_every_key_leaves_on_one_worker() -> None:
    plan = routed(planned("flat", 3))
    batch, state = Manifest().next(plan, 0), MemoryState()
    readers = ingests(plan, {})
    envelopes = [
        envelope
        for task, (name, table) in enumerate(tables(5).items())
        for envelope in readers[name].run((("", rows) for rows in table.to_batches()), task, {})
    ]
    left: dict[int, dict[str, list[pa.RecordBatch]]] = {worker: {"q": []} for worker in range(plan.workers)}
    for wave in range(1, plan.waves + 1):
        inbox = {worker: [e for e in envelopes if e.dest == worker] for worker in left}
        envelopes = []
        for worker, results in left.items():
            made = Worker(plan, worker, batch, state, {}, MemoryResults(results))
            envelopes += made.run(wave, inbox[worker])
    keys = {
        worker: {key for rows in found["q"] for key in rows.column("g").to_pylist()} for worker, found in left.items()
    }
    assert sum(len(found) for found in keys.values()) == len(set().union(*keys.values())) > 3
    assert sum(bool(found) for found in keys.values()) > 1
