"""From the ways of single queries to one topology that shares what can be shared.

Everything is named by content (`lower.labels`, `lower.stores`): a start by the edge that brings its rows, a probe by
the node before it, the store and the question.  Nodes with the same name are one node: stores are united, and lines
that begin alike run once up to the point where they differ.  Rows of a stream are sent once for all stores and probes
that want them on the same worker.

A kept join that an earlier query fills already is not filled again: later queries look into its store, and become users
of all that fills it.  Queries with wider windows come first: others look into their joins and check their own windows.

Lines into smaller joins are laid first: the names of the probes above an intermediate store depend on its name.
Waves and fields come last (`lower.flow`), when all users of a node are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from weft.expr.model import text_of
from weft.optimizer.graph.layout import Target, mask, names
from weft.optimizer.lower.edges import StartDraft, begin, edges, find_watched_keys
from weft.optimizer.lower.flow import Flow, KeepDraft, NodeDraft, ProbeDraft
from weft.optimizer.lower.groups import fields_at_end, group_stores, with_groups
from weft.optimizer.lower.labels import digest, shorten
from weft.optimizer.lower.matching import sieve_of, subscription_edge, subscription_store, with_matching
from weft.optimizer.lower.relabel import Renamed, relabel
from weft.optimizer.lower.stores import (
    StoreDraft,
    StoreDrafts,
    check_windows,
    clock_of,
    clocks,
    draft_join,
    is_wider,
    want_joined,
    want_rows,
)
from weft.optimizer.lower.unite import Decide, check_selections, unite, unite_implied
from weft.optimizer.lower.ways import Hop, Keeping, Line, Ways, kept_joins
from weft.query.derived import fed_by
from weft.query.model import Query, Stream
from weft.topology.check import check
from weft.topology.clock import Policy
from weft.topology.matching import Sieve
from weft.topology.model import Start, Topology
from weft.topology.node import ROWS, Emit, Keep, Probe


def assemble(
    plans: Sequence[Ways],
    policy: Policy = "min",
    decide: Decide = unite_implied,
    kept: AbstractSet[str] | None = None,
) -> Topology:
    """The topology that answers all queries; `decide` says which selections of a stream share a store.

    `kept` are the contents of the stores that there are, None if there is no state.
    """
    topology = draw(plans, policy, decide, kept)
    check(topology, {plan.name: plan.query for plan in plans})
    return topology


def draw(
    plans: Sequence[Ways],
    policy: Policy = "min",
    decide: Decide = unite_implied,
    kept: AbstractSet[str] | None = None,
) -> Topology:
    """The same unchecked, for plans that are only compared."""
    renamed: Renamed = {}
    made = [relabel(plan, renamed) for plan in plans]
    united = unite(made, decide)
    nodes = _Nodes(made, StoreDrafts(united, kept))
    written = {plan.name: plan.query for plan in plans}
    for plan in _widest_first(made):
        _Query(plan, written[plan.name], check_selections(plan, united), nodes).lay()
    nodes.flow.fill()
    stores, starts, emits = nodes.stores.stores(), nodes.finish_starts(), nodes.flow.finish_emits()
    views = [store for emit, plan in zip(emits, made, strict=True) for store in group_stores(emit, plan)]
    matched = [plan for plan in made if plan.query.subscribers is not None]
    streams = _streams([plan.query for plan in made])
    drawn = edges(nodes.stores.drafts, nodes.flow.starts.values(), nodes.flow.first_wave)
    return Topology(
        made[0].workers if made else 1,
        tuple(stream for stream in streams if not stream.depth),
        clocks(made, policy),
        (*stores, *views, *map(subscription_store, matched)),
        (*drawn, *map(subscription_edge, matched)),
        starts,
        nodes.finish_probes(),
        emits,
        nodes.finish_keeps(),
        tuple(replace(stream, made=()) for stream in streams if stream.depth),
    )


def _streams(queries: Sequence[Query]) -> tuple[Stream, ...]:
    found = {r.stream.name: r.stream for query in queries for r in query.relations}
    return (*found.values(), *(query.subscribers.stream for query in queries if query.subscribers is not None))


def _widest_first(plans: Sequence[Ways]) -> list[Ways]:
    """The plans in their order, but each before the first that keeps one of its joins with narrower windows."""
    order: list[tuple[Ways, dict[str, StoreDraft]]] = []
    for plan in plans:
        mine = {draft.loose: draft for draft in (draft_join(plan, *target) for target in kept_joins(plan.lines))}
        before = (i for i, (_, theirs) in enumerate(order) if _has_wider(mine, theirs))
        at = next(before, len(order)) if mine else len(order)
        order.insert(at, (plan, mine))
    return [plan for plan, _ in order]


def _has_wider(mine: Mapping[str, StoreDraft], theirs: Mapping[str, StoreDraft]) -> bool:
    both = ((draft.windows, theirs[loose].windows) for loose, draft in mine.items() if loose in theirs)
    return any(one != other and is_wider(one, other) for one, other in both)


class _Nodes:
    """All nodes of a topology by their names, while queries are added."""

    def __init__(self, plans: Sequence[Ways], stores: StoreDrafts) -> None:
        self.stores = stores
        self.flow = Flow({r.alias: r.stream for plan in plans for r in plan.query.relations})
        order = sorted({stamp for plan in plans for stamp in plan.stamps.values()})
        self.position = {label: place for place, (_, label) in enumerate(order)}
        self.folding = {plan.name for plan in plans if plan.query.grouping is not None}
        """Queries that add their results up."""

    def finish_starts(self) -> tuple[Start, ...]:
        return tuple(
            Start(
                s.id, s.label, self.position[s.label], tuple(sorted(s.columns)), tuple(s.then), tuple(s.users),
                s.filter, tuple(s.measures),
            )
            for s in self.flow.starts.values()
        )  # fmt: skip

    def finish_probes(self) -> tuple[Probe, ...]:
        return tuple(self._probe(look) for look in self.flow.probes.values())

    def _probe(self, look: ProbeDraft) -> Probe:
        hop, step = look.hop, look.hop.step
        return Probe(
            id=look.id,
            users=tuple(look.users),
            origin=look.origin,
            position=self.position[look.origin],
            members=look.members,
            store=look.draft.id,
            wave=self.flow.wave(look),
            route=hop.route,
            route_key=hop.route_key,
            tasks=hop.tasks,
            sees=look.sees,
            index=look.draft.ordered.index(step.key),
            equal=tuple(e.known for e in step.equalities),
            low=step.low,
            high=step.high,
            residual=step.residual,
            fields=tuple(sorted(self.flow.needs(look.id))),
            carry=tuple(sorted(self.flow.carry(look))),
            then=tuple(look.then),
            measures=tuple(look.measures),
            folds=self.folding.issuperset(look.users),
            sieve=look.sieve,
        )

    def finish_keeps(self) -> tuple[Keep, ...]:
        return tuple(
            Keep(
                k.id, tuple(k.users), k.origin, k.draft.id, self.flow.wave(k), k.part.route, k.part.route_key,
                k.part.tasks, tuple(sorted(self.flow.needs(k.id))),
            )
            for k in self.flow.keeps.values()
        )  # fmt: skip


class _Query:
    """Adds the ways of one query to the nodes of the queries before it."""

    def __init__(self, plan: Ways, query: Query, lines: Sequence[Line], nodes: _Nodes) -> None:
        self.plan, self.query, self.lines, self.nodes, self.flow = plan, query, lines, nodes, nodes.flow
        self.drafts: dict[Target, StoreDraft] = {}
        """Store of the plan -> its draft in the topology."""
        self.called = dict(zip(plan.query.aliases, query.aliases, strict=True))
        """Label -> alias."""

    def lay(self) -> None:
        """Add all that the query needs."""
        there = self._find_joins()
        needed, emit = self._needed(there), self._emit()
        asked = dict.fromkeys((hop.store, hop.home) for line in needed for hop in line.hops)
        for target in sorted((t for t in asked if t[0].bit_count() == 1), key=lambda target: target[0]):
            self._store(target)  # relations in query order, for people
        for line in needed:
            node: StartDraft | ProbeDraft = self._start(line)
            bound = {line.start}
            for hop in line.hops:
                node = self._look(line.start, node, hop, self._sieve(emit, line, bound))
                bound |= hop.step.target
            if line.keep is None:
                node.then[emit.id] = None
            else:
                self._keep(line.start, node, line.keep)
        for draft in there.values():
            self._join_users(draft)

    def _find_joins(self) -> dict[Target, StoreDraft]:
        """The kept joins of the plan that earlier queries fill."""
        found = {target: self.nodes.stores.find_join(self.plan, *target) for target in kept_joins(self.lines)}
        return {target: draft for target, draft in found.items() if draft is not None}

    def _needed(self, there: dict[Target, StoreDraft]) -> list[Line]:
        """The lines to lay, inputs of others first: those to the results, and those that fill what they look into."""
        asked: set[Target] = set()
        needed: list[Line] = []
        for line in reversed(self.lines):
            keep = line.keep
            if keep is None or ((keep.store, keep.home) in asked and (keep.store, keep.home) not in there):
                asked |= {(hop.store, hop.home) for hop in line.hops}
                needed.append(line)
        self.drafts = {target: draft for target, draft in there.items() if target in asked}
        for target in there.keys() - asked:
            del there[target]
        return needed[::-1]

    # ------------------------------------------------------------------------------------------- stores

    def _store(self, target: Target) -> StoreDraft:
        if target not in self.drafts:
            (store, home), stores = target, self.nodes.stores
            labels = names(self.plan.query, store)
            one = len(labels) == 1
            draft = stores.relation(self.plan, labels[0], home) if one else stores.join(self.plan, store, home)
            self._use(draft, labels)
            self.drafts[target] = draft
        return self.drafts[target]

    def _use(self, draft: StoreDraft, labels: Sequence[str]) -> None:
        if draft.members:
            want_joined(draft, self.plan, self.query)
        else:
            want_rows(draft, self.plan, labels[0], self.query)
        mine = {self.called[label] for label in labels}
        draft.users[f"{self.plan.name}.{'+'.join(a for a in self.query.aliases if a in mine)}"] = None

    def _join_users(self, draft: StoreDraft) -> None:
        """Become a user of a kept join that is filled by others, and of all that fills it."""
        self._use(draft, draft.members)
        for keep in self.flow.keeps_of(draft):
            keep.users[self.plan.name] = None
            for node in self._back(keep):
                if isinstance(node, StartDraft):
                    self._begin(node)
                    continue
                node.users[self.plan.name] = None
                if len(node.members) > 1:
                    self._join_users(node.draft)
                else:
                    node.measures |= dict.fromkeys(self.plan.measures.get(node.members[0], ()))
                    self._use(node.draft, node.members)

    def _back(self, node: NodeDraft) -> Iterator[StartDraft | ProbeDraft]:
        """The nodes before a node, from the nearest to the start."""
        before = node.before
        while isinstance(before, ProbeDraft):
            yield before
            before = before.before
        yield before

    # -------------------------------------------------------------------------------------------- nodes

    def _start(self, line: Line) -> StartDraft:
        plan, label = self.plan, line.start
        made = begin(plan, label, next(iter(line.hops), None), self.nodes.stores.united)
        return self._begin(self.flow.starts.setdefault(made.id, made))

    def _begin(self, start: StartDraft) -> StartDraft:
        label, alias = start.label, self.called[start.label]
        start.clocks.add(clock_of(self.plan, label))
        start.users[self.plan.name, alias] = None
        start.watch |= find_watched_keys(self.plan, label, alias)
        start.measures |= dict.fromkeys(self.plan.measures.get(label, ()))
        return start

    def _sieve(self, emit: Emit, line: Line, bound: AbstractSet[str]) -> Sieve | None:
        """What tuples on the way to the results must pass before they look further; rows of kept joins pass all."""
        asks = line.keep is None and self.plan.layout.asks(mask(self.plan.query, frozenset(bound)))
        return sieve_of(emit, self.plan, bound) if asks else None

    def _look(self, label: str, before: StartDraft | ProbeDraft, hop: Hop, sieve: Sieve | None = None) -> ProbeDraft:
        draft = self._store((hop.store, hop.home))
        if draft.members and (narrower := check_windows(self.plan, draft)):
            hop = replace(hop, step=replace(hop.step, residual=(*hop.step.residual, *narrower)))
        step = hop.step
        sees = self._sees(label, hop.store)
        asked = [*(e.target for e in step.equalities), *(e.known for e in step.equalities), *step.residual]
        limits = [(text_of(b.expr), b.strict, b.loose) for b in (*step.low, *step.high)]
        content = (
            before.id,
            draft.key,
            *map(text_of, asked),
            step.range and text_of(step.range),
            len(step.low),
            limits,
            *(text_of(expr) for expr in step.also),
            *([b.dimension for b in (*step.low, *step.high)] if step.also else ()),
            *([] if sieve is None else [sieve]),
        )
        way = (hop.route, *map(text_of, hop.route_key), hop.tasks, sees)
        members = tuple(sorted(step.target, key=lambda member: self.plan.stamps[member]))
        name = f"{'+'.join(members)}@{digest(*content, *way)}"
        made = ProbeDraft(name, label, before, hop, members, draft, sees, sieve=sieve)
        look = self.flow.probes.setdefault(name, made)
        draft.indexes.add(step.key)
        if len(members) == 1:
            look.measures |= dict.fromkeys(self.plan.measures.get(members[0], ()))
        look.users[self.plan.name] = None
        before.then[name] = None
        return look

    def _sees(self, label: str, store: int) -> tuple[str, ...]:
        stamps = self.plan.stamps
        older = sorted((m for m in names(self.plan.query, store) if stamps[m] < stamps[label]), key=lambda m: stamps[m])
        return tuple(older) if store.bit_count() > 1 else (ROWS,) * len(older)

    def _keep(self, label: str, before: StartDraft | ProbeDraft, part: Keeping) -> None:
        draft = self._store((part.store, part.home))
        name = f"keep {shorten(draft.name)}@{digest(before.id, draft.key)}"
        keep = self.flow.keeps.setdefault(name, KeepDraft(name, label, before, part, draft))
        keep.users[self.plan.name] = None
        before.then[name] = None

    def _emit(self) -> Emit:
        plan = self.plan
        called = tuple(self.called.items())
        emit = Emit(f"emit {plan.name}", plan.name, plan.query.outputs, fields_at_end(plan), called)
        emit = with_matching(with_groups(replace(emit, into=fed_by(plan.name)), plan), plan)
        self.flow.emits[emit.id] = emit
        return emit
