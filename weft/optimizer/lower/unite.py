"""One store for relations of a stream whose selections differ: it keeps what any of them wants, each checks its own.

    store of `price > 5` and of `price > 7` by key k   ->   store of `price > 5` by key k
    probes for the second                              ->   look there, and check `price > 7` on the rows found

The rows that a probe finds are those that it would find in a store of its own: labels, stamps and results do not
change.  Rows are sent and stored once, and probes meet more candidates; whoever puts queries together decides.

A tuple that starts where such a store lies comes with the rows of the store, and is selected there (`Start.filter`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from weft.expr.implied import Selection, either, implies
from weft.expr.model import text_of
from weft.optimizer.graph.layout import Home, Target
from weft.optimizer.lower.places import Place, place_of_store
from weft.optimizer.lower.selections import labelled
from weft.optimizer.lower.ways import Hop, Line, Ways
from weft.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection of a stream's rows that some relations want in one place."""

    stream: str
    selection: Selection
    users: tuple[tuple[str, int], ...]
    """(Query, position of the relation in it)."""


Where = tuple[str, tuple[int, int], Place]
"""A stream, the first batch whose rows count, and where they lie: only stores that agree in all of it can be one."""

Decide = Callable[[Sequence[Wanted]], bool]
"""Whether some selections, the last of them new, become one store."""


def unite_implied(group: Sequence[Wanted]) -> bool:
    """Unite a selection with one that implies it, or that it implies: the one store holds what the other would."""
    *others, new = (wanted.selection for wanted in group)
    return any(implies(new, other) or implies(other, new) for other in others)


def unite_beside(old: Topology, decide: Decide) -> Decide:
    """Unite as the state says that is there: what it keeps in one store stays united, what it keeps apart stays apart.

    A store that keeps more than an old one needs rows that were never kept.
    """
    kept: dict[str, set[Selection]] = {}
    for store in old.stores:
        kept.setdefault(store.stream, set()).add(store.filter)

    def beside(group: Sequence[Wanted]) -> bool:
        there = kept.get(group[0].stream, set())
        known = [wanted.selection in there for wanted in group]
        if all(known):
            return False
        return either(wanted.selection for wanted in group) in there or (not any(known) and decide(group))

    return beside


@dataclass(frozen=True)
class United:
    """Which rows stores keep."""

    kept: Mapping[tuple[Where, Selection], Selection] = field(default_factory=dict)
    """(Place, selection of a relation) -> selection of its store."""

    @cached_property
    def _at(self) -> dict[tuple[str, Place], set[Selection]]:
        """What stores of a stream in one place keep."""
        found: dict[tuple[str, Place], set[Selection]] = {}
        for ((stream, _, place), _), kept in self.kept.items():
            found.setdefault((stream, place), set()).add(kept)
        return found

    def store(self, plan: Ways, label: str, home: Home) -> Selection:
        """The selection of the store of a relation in a place."""
        own = plan.selections[label]
        return self.kept.get((_where(plan, label, home), own), own)

    def edge(self, stream: str, place: Place, own: Selection) -> Selection:
        """The selection of the edge that brings the tuples of a start: of a store's in the same place if it can."""
        there = self._at.get((stream, place), set())
        if own in there:
            return own
        return min((kept for kept in there if implies(own, kept)), key=lambda kept: [*map(text_of, kept)], default=own)


def unite(plans: Sequence[Ways], decide: Decide) -> United:
    """Which rows the stores of some plans keep; plans are in terms of labels."""
    wanted: dict[Where, dict[Selection, list[tuple[str, int]]]] = {}
    for plan in plans:
        for store, home in _relations(plan):
            position = store.bit_length() - 1
            label = plan.query.aliases[position]
            here = wanted.setdefault(_where(plan, label, home), {})
            here.setdefault(plan.selections[label], []).append((plan.name, position))
    kept = {}
    for where, found in wanted.items():
        for group in _groups([Wanted(where[0], own, tuple(users)) for own, users in found.items()], decide):
            for one in group:
                kept[where, one.selection] = either(each.selection for each in group)
    return United(kept)


def _where(plan: Ways, label: str, home: Home) -> Where:
    relation = plan.query.relation(label)
    return relation.stream.name, (relation.since, relation.apart), place_of_store(plan, label, home)


def _groups(wanted: Sequence[Wanted], decide: Decide) -> list[list[Wanted]]:
    groups: list[list[Wanted]] = []
    for one in sorted(wanted, key=lambda w: (len(w.selection), [*map(text_of, w.selection)])):
        home = next((group for group in groups if decide([*group, one])), None)
        if home is None:
            groups.append([one])
        else:
            home.append(one)
    return groups


def check_selections(plan: Ways, united: United) -> tuple[Line, ...]:
    """The lines of a plan, in which every probe of a shared store checks the selection of its own relation."""

    def change(hop: Hop) -> Hop:
        if hop.store.bit_count() > 1:
            return hop
        label = plan.query.aliases[hop.store.bit_length() - 1]
        own, kept = plan.selections[label], united.store(plan, label, hop.home)
        checks = tuple(one for one in own if not implies(kept, (one,)))
        if not checks:
            return hop
        residual = (*hop.step.residual, *labelled(checks, label))
        return replace(hop, step=replace(hop.step, residual=residual))

    hops = {id(hop): change(hop) for line in plan.lines for hop in line.hops}  # lines may begin alike
    return tuple(
        Line(line.start, line.goal, tuple(hops[id(hop)] for hop in line.hops), line.keep) for line in plan.lines
    )


def _relations(plan: Ways) -> list[Target]:
    """The stores of relations that a plan looks into, in query order."""
    found = dict.fromkeys((hop.store, hop.home) for line in plan.lines for hop in line.hops)
    return sorted((target for target in found if target[0].bit_count() == 1), key=lambda target: target[0])
