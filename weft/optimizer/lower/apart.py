"""Topologies of single queries beside each other, with nothing in common: every name gets that of its query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from weft.optimizer.lower.labels import digest
from weft.topology.clock import Clock
from weft.topology.model import Topology
from weft.topology.node import Emit, Groups


def set_apart(made: Mapping[str, Topology]) -> Topology:
    """One topology of several, by query."""
    parts = [_rename(topology, f".{digest(query)}") for query, topology in made.items()]
    return Topology(
        max((part.workers for part in parts), default=1),
        tuple({stream.name: stream for part in parts for stream in part.streams}.values()),
        _clocks(clock for part in parts for clock in part.clocks),
        tuple(chain.from_iterable(part.stores for part in parts)),
        tuple(chain.from_iterable(part.edges for part in parts)),
        tuple(chain.from_iterable(part.starts for part in parts)),
        tuple(chain.from_iterable(part.probes for part in parts)),
        tuple(chain.from_iterable(part.emits for part in parts)),
        tuple(chain.from_iterable(part.keeps for part in parts)),
        tuple({stream.name: stream for part in parts for stream in part.derived}.values()),
    )


def _clocks(found: Iterable[Clock]) -> tuple[Clock, ...]:
    """Each clock once, for all its queries."""
    known: dict[str, Clock] = {}
    for clock in found:
        before = known.get(clock.id)
        known[clock.id] = clock if before is None else replace(before, queries=(*before.queries, *clock.queries))
    return tuple(known.values())


def _rename(plan: Topology, mark: str) -> Topology:
    """The topology with a mark at the end of all names but those of emits."""
    emits = {emit.id for emit in plan.emits}

    def mine(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name if name in emits else name + mark for name in names)

    return replace(
        plan,
        stores=tuple(replace(store, id=store.id + mark, content=store.content + mark) for store in plan.stores),
        edges=tuple(replace(e, id=e.id + mark, stores=mine(e.stores), starts=mine(e.starts)) for e in plan.edges),
        starts=tuple(replace(start, id=start.id + mark, then=mine(start.then)) for start in plan.starts),
        probes=tuple(replace(p, id=p.id + mark, store=p.store + mark, then=mine(p.then)) for p in plan.probes),
        emits=tuple(_rename_emit(emit, mark) for emit in plan.emits),
        keeps=tuple(replace(keep, id=keep.id + mark, store=keep.store + mark) for keep in plan.keeps),
    )


def _rename_emit(emit: Emit, mark: str) -> Emit:
    matching, groups = emit.matching, emit.groups
    return replace(
        emit,
        matching=matching and replace(matching, store=matching.store + mark),
        groups=groups and _groups(groups, mark),
    )


def _groups(groups: Groups, mark: str) -> Groups:
    values = tuple((argument, store + mark) for argument, store in groups.values)
    shown = groups.shown + mark if groups.shown else ""
    return replace(groups, store=groups.store + mark, values=values, shown=shown)
