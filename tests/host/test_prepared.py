"""A migration that is made ready while batches go on: what came meanwhile is caught up, and nothing else changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.host.inprocess.run import InProcess
from weft.host.migration.migrate import Change
from weft.host.migration.when import A_MOMENT, AT_ONCE, MEANWHILE, SLOWER, Rhythm
from weft.query.model import COPY
from weft.testing import assert_same_rows
from weft.topology.model import Topology

STREAMS = {"r": ("a", "x"), "s": ("a", "b"), "t": ("b", "c"), "u": ("c", "x")}
QUERIES = {
    "chain": "SELECT r.a, s.b, t.c, u.x FROM r, s, t, u WHERE r.a = s.a AND s.b = t.b AND t.c = u.c",
    "three": "SELECT r.x, s.b, t.c FROM r, s, t WHERE r.a = s.a AND s.b = t.b AND r.x < t.c",
    "two": "SELECT s.b, t.c FROM s, t WHERE s.b = t.b",
    "self": "SELECT x.a, y.b FROM s x, s y WHERE x.a = y.a AND x.b < y.b",
}
STRATEGIES = ("flat", "left_deep", "tree", "auto", "hypercube:hash", "hypercube:random")


def plan(rng: random.Random, names: list[str]) -> Topology:
    s = weft.Session("unused", workers=rng.randint(1, 4), progress=False)
    for name, columns in STREAMS.items():
        s.stream(name, weft.read.batches([pa.table({c: pa.array([0], pa.int64()) for c in columns})]))
    for name in names:
        s.query(name, QUERIES[name], strategy=rng.choice(STRATEGIES))
    return s.topology


def batch(rng: random.Random) -> dict[str, pa.Table]:
    def column(count: int) -> pa.Array:
        return pa.array([rng.choice([None, *range(6)]) for _ in range(count)], pa.int64())

    sizes = {name: rng.choice([0, 1, 5, 9]) for name in STREAMS if rng.random() < 0.8}
    return {name: pa.table({c: column(count) for c in STREAMS[name]}) for name, count in sizes.items()}


def held(run: InProcess) -> dict[str, Counter[Any]]:
    """Store -> its rows, without copies."""
    found: dict[str, Counter[Any]] = {store.id: Counter() for store in run.topology.stores}
    for ref in run.manifest.segments:
        store = run.topology.store(ref.store)
        rows = run.state.open(ref).rows.select(list(store.columns)).to_pylist()
        found[ref.store].update(
            tuple(sorted((k, v) for k, v in row.items() if k != COPY)) for row in rows if not row.get(COPY)
        )
    return found


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_meanwhile_is_caught_up(seed: int) -> None:
    rng = random.Random(seed)
    names = rng.sample(sorted(QUERIES), rng.randint(1, 3))
    read = {stream.name for stream in plan(rng, names).streams}  # rows of others would come later, from their sources
    others = [name for name in sorted({*QUERIES} - {*names}) if {s.name for s in plan(rng, [name]).streams} <= read]
    more = rng.sample(others, rng.randint(0, min(1, len(others))))
    old, new = plan(rng, names), plan(rng, [*names, *more])
    batches = [batch(rng) for _ in range(rng.randint(3, 40))]
    at = rng.randint(1, len(batches) - 1)
    until = rng.randint(at, len(batches))
    run, fresh = InProcess(old), InProcess(new)
    change = Change(new, tuple(more))
    for number, tables in enumerate(batches):
        if number == at and run.manifest.batch >= 0:
            made = run.prepare(change, most=rng.choice([None, 1, 7]))
            if not made.can_catch_up:
                run._preparing = None
        if number == until:
            run.migrate(change)
        run.feed(tables)
        fresh.feed(tables)
    if until == len(batches):
        run.migrate(change)
    if run.manifest.partial:
        return  # the old state lacks columns of the new query; a session would keep their stores apart
    spread = any(store.spread for store in new.stores if store.members) or any(s.spread for s in new.stores)
    if not (spread and new.keeps):  # rows of joins in a cube are copied, and copies are not marked
        assert held(run) == held(fresh)
    for name in (*names, *more):
        assert_same_rows(run.table(name), fresh.table(name))


def batches_of(*seconds: float, apart: float = 1e9) -> Rhythm:
    """A run of which the last batches took so many seconds; they began so many seconds apart, if they were done."""
    rhythm, ended = Rhythm(), 0.0
    for took in seconds:
        ended += max(took, apart)
        rhythm.note(took, ended)
    return rhythm


def test_where_batches_take_long_a_change_may_take_as_long() -> None:
    """Many rows may be moved between two batches of two seconds: nobody waits for more than one batch longer."""
    for few in ([], [A_MOMENT / 10, A_MOMENT / 5], [A_MOMENT, 50.0, A_MOMENT]):
        assert batches_of(*few).rows_at_once() == AT_ONCE
    for many in ([10 * A_MOMENT] * 5, [A_MOMENT] * 4 + [10 * A_MOMENT]):
        assert batches_of(*many).rows_at_once() == pytest.approx(10 * AT_ONCE)


def test_a_change_that_saves_much_may_take_as_long_as_batches_lose_while_it_is_made_beside_them() -> None:
    assert batches_of(*[1.0] * 5).rows_at_once(0.5) == AT_ONCE * max(1.0, 0.5 * MEANWHILE) / A_MOMENT
    for saves in (0.0, 0.01):
        assert batches_of(*[1.0] * 5).rows_at_once(saves) == AT_ONCE / A_MOMENT, "no batch loses as much as it takes"


def test_where_batches_follow_without_a_pause_a_change_that_saves_much_is_never_made_beside_them() -> None:
    busy, idle = batches_of(1.0, 1.0, apart=1.0), batches_of(1.0, 1.0, apart=SLOWER + 1.0)
    assert busy.rows_at_once(1.1 / SLOWER) == float("inf")
    assert busy.rows_at_once(0.9 / SLOWER) < float("inf")
    assert idle.rows_at_once(1.0) < float("inf")
