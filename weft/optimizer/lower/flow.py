"""What flows through the nodes of a topology: when, and which fields.  Worked out once all lines are laid.

Waves, forwards: a node on the tuple's own worker runs at once, any other in the next wave.  A probe of an intermediate
store waits until all rows that it may see are stored, whichever query fills the store.  Tuples of a derived stream
start in the wave after the last of its rows is made.

Fields, backwards: a probe carries what any node after it reads, whichever query it belongs to.  A store holds what its
probes read or hand on; an intermediate one also the event times that say when a row may go.  Every frame has at least
one field, so that rows are counted.

What must hold: neither goes round in a circle.  A line into a join looks only into smaller joins.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from weft.expr.model import columns
from weft.optimizer.graph.predicates import time_of
from weft.optimizer.lower.edges import StartDraft
from weft.optimizer.lower.stores import StoreDraft
from weft.optimizer.lower.ways import Hop, Keeping
from weft.query.model import Stream
from weft.topology.matching import Sieve
from weft.topology.node import Emit, Measure


@dataclass(eq=False)
class ProbeDraft:
    """A probe while its users are still being collected."""

    id: str
    origin: str
    before: StartDraft | ProbeDraft
    hop: Hop
    members: tuple[str, ...]
    draft: StoreDraft
    sees: tuple[str, ...]
    then: dict[str, None] = field(default_factory=dict)
    users: dict[str, None] = field(default_factory=dict)
    measures: dict[Measure, None] = field(default_factory=dict)
    sieve: Sieve | None = None


@dataclass(eq=False)
class KeepDraft:
    """A keep while its users are still being collected."""

    id: str
    origin: str
    before: StartDraft | ProbeDraft
    part: Keeping
    draft: StoreDraft
    users: dict[str, None] = field(default_factory=dict)


NodeDraft = ProbeDraft | KeepDraft


class Flow:
    """The nodes of a topology by their names, and what flows through them."""

    def __init__(self, streams: Mapping[str, Stream]) -> None:
        self.streams = streams
        """Label -> its stream."""
        self.starts: dict[str, StartDraft] = {}
        self.probes: dict[str, ProbeDraft] = {}
        self.keeps: dict[str, KeepDraft] = {}
        self.emits: dict[str, Emit] = {}
        self._waves: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._carried: dict[str, set[str]] = {}
        self._held: dict[str, set[str]] = {}

    def keeps_of(self, draft: StoreDraft) -> list[KeepDraft]:
        """The keeps that fill a store."""
        return [keep for keep in self.keeps.values() if keep.draft is draft]

    # -------------------------------------------------------------------------------------------- waves

    def wave(self, node: NodeDraft) -> int:
        """The wave in which workers run a node."""
        if node.id not in self._waves:
            self._waves[node.id] = self._wave(node)
        return self._waves[node.id]

    def _wave(self, node: NodeDraft) -> int:
        part = node.hop if isinstance(node, ProbeDraft) else node.part
        # The first hop needs no wave of its own: the edge that brings a row to its store brings the tuple there too.
        if isinstance(node.before, StartDraft):
            arrival = self.first_wave(node.before.stream)
        else:
            arrival = self.wave(node.before) + (part.route != "local")
        if isinstance(node, KeepDraft):
            return arrival
        filling = (keep for keep in self._filling.get(node.draft.key, ()) if keep.origin in node.sees)
        there = self.first_wave(node.draft.stream) if node.sees and not node.draft.members else 1
        return max([arrival, there, *map(self.wave, filling)])

    def first_wave(self, stream: str) -> int:
        """The wave in which the rows of a stream are stored and start: for a derived one, after they are made."""
        if stream not in self._first:
            made = (emit for emit in self.emits.values() if stream and emit.into == stream)
            self._first[stream] = 1 + max(map(self._settled_in, made), default=0)
        return self._first[stream]

    def finish_emits(self) -> tuple[Emit, ...]:
        """The emits; groups are settled in the last wave, when all their parts have come, or before they are read."""
        waves = [1, *map(self.wave, self.probes.values()), *map(self.wave, self.keeps.values())]
        waves += [self._settled_in(emit) for emit in self.emits.values()]
        last = max(waves)
        return tuple(
            replace(emit, wave=self._settled_in(emit) if emit.into else last) if emit.groups else emit
            for emit in self.emits.values()
        )

    def _settled_in(self, emit: Emit) -> int:
        """The first wave in which all results of an emit can be there."""
        return self._made_in(emit) + (emit.groups is not None and emit.route != "local" and emit.tasks > 1)

    def _made_in(self, emit: Emit) -> int:
        """The last wave in which tuples come to an emit."""
        met = [self.wave(look) for look in self.probes.values() if emit.id in look.then]
        return max([*met, *(self.first_wave(s.stream) for s in self.starts.values() if emit.id in s.then)], default=1)

    @cached_property
    def _filling(self) -> dict[str, list[KeepDraft]]:
        found: dict[str, list[KeepDraft]] = defaultdict(list)
        for keep in self.keeps.values():
            found[keep.draft.key].append(keep)
        return found

    # ------------------------------------------------------------------------------------------- fields

    def fill(self) -> None:
        """Say which columns starts bring and stores hold."""
        for start in self.starts.values():
            start.columns |= map_columns(self._wanted(start.then) or {self._anchor(start.label)})
            start.columns |= _read(start.measures)
        for look in self.probes.values():
            held = self._hold(look.draft)
            look.draft.columns |= held if look.draft.members else map_columns(held) | _read(look.measures)

    def needs(self, name: str) -> set[str]:
        """Fields that a node reads of the tuples that come to it."""
        if name in self.emits:
            return set(self.emits[name].fields)
        if name in self.keeps:
            return self._hold(self.keeps[name].draft)
        look = self.probes[name]
        return look.hop.fields(self.carry(look)) | _sifted(look.sieve)

    def carry(self, look: ProbeDraft) -> set[str]:
        """Fields that live on after a probe."""
        if look.id not in self._carried:
            anchor = self._anchor(look.origin)
            live = self._wanted(look.then) or {anchor}
            self._carried[look.id] = live if look.hop.fields(live) else {*live, anchor}
        return self._carried[look.id]

    def _wanted(self, nodes: Iterable[str]) -> set[str]:
        return set().union(*(self.needs(name) for name in nodes))

    def _hold(self, draft: StoreDraft) -> set[str]:
        """Fields that the rows of a store must hold."""
        if draft.key not in self._held:
            looks = self._looks[draft.key]
            held = set().union(*(look.hop.found(self.carry(look)) for look in looks))
            if draft.retention is not None:
                held |= {time_of(member).field for ends in draft.ends for member, _ in ends}
            self._held[draft.key] = held or {self._anchor(looks[0].members[0])}
        return self._held[draft.key]

    @cached_property
    def _looks(self) -> dict[str, list[ProbeDraft]]:
        found: dict[str, list[ProbeDraft]] = defaultdict(list)
        for look in self.probes.values():
            found[look.draft.key].append(look)
        return found

    def _anchor(self, label: str) -> str:
        """A field to carry where none is needed."""
        return f"{label}.{self.streams[label].schema.names[0]}"


def _read(measures: Iterable[Measure]) -> set[str]:
    """Columns that numbers of a relation are worked out of."""
    return {column.name for measure in measures for column in columns(measure.expr)}


def _sifted(sieve: Sieve | None) -> set[str]:
    """Fields that a sieve reads."""
    return set() if sieve is None else {column.field for _, expr in sieve.known for column in columns(expr)}


def map_columns(fields: Iterable[str]) -> set[str]:
    """Fields of one relation as columns of its stream."""
    return {name.split(".", 1)[1] for name in fields}
