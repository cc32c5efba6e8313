"""From the ways of single queries to one topology that shares what can be shared.

Everything is named by content (`lower.labels`, `lower.stores`): a start by the edge that brings its rows, a probe by
the node before it, the store and the question.  Nodes with the same name are one node: stores are united, and ways that
begin alike run once up to the point where they differ.  Rows of a stream are sent once for all stores and probes that
want them on the same worker.

Operators are processed from the inputs up: the name of an intermediate store depends on how it is filled, and the names
of the probes above it depend on the name of the store.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from weft.expr.model import columns, text_of
from weft.optimizer.graph.layout import names
from weft.optimizer.lower.edges import StartDraft, begin, edges, find_watched_keys
from weft.optimizer.lower.labels import digest, shorten
from weft.optimizer.lower.relabel import relabel
from weft.optimizer.lower.stores import StoreDraft, StoreDrafts, clocks
from weft.optimizer.lower.unite import Decide, United, check_selections, unite, unite_implied
from weft.optimizer.lower.ways import Hop, Keeping, Ways, fill_in
from weft.query.model import Query, Stream
from weft.topology.check import check
from weft.topology.model import ROWS, Emit, Keep, Policy, Probe, Start, Topology


def assemble(plans: Sequence[Ways], policy: Policy = "min", decide: Decide = unite_implied) -> Topology:
    """The topology that answers all queries; `decide` says which selections of a stream share a store."""
    named = [relabel(plan) for plan in plans]
    united = unite(named, decide)
    made = [fill_in(check_selections(plan, united)) for plan in named]
    nodes = _Nodes(made, united)
    for given, plan in zip(plans, made, strict=True):
        _Query(plan, given.query, nodes).lay()
    stores, starts = nodes.stores.stores(), nodes.finish_starts()
    topology = Topology(
        made[0].workers if made else 1,
        _streams(plan.query for plan in made),
        clocks(made, policy),
        stores,
        edges(nodes.stores.drafts, nodes.starts.values()),
        starts,
        nodes.finish_probes(),
        tuple(nodes.emits),
        nodes.finish_keeps(),
    )
    check(topology, {plan.name: plan.query for plan in plans})
    return topology


def _streams(queries: Iterable[Query]) -> tuple[Stream, ...]:
    return tuple({r.stream.name: r.stream for query in queries for r in query.relations}.values())


@dataclass
class _ProbeDraft:
    """A probe while its users are still being collected."""

    id: str
    origin: str
    hop: Hop
    members: tuple[str, ...]
    draft: StoreDraft
    sees: tuple[str, ...]
    fields: set[str] = field(default_factory=set)
    carry: set[str] = field(default_factory=set)
    then: dict[str, None] = field(default_factory=dict)
    users: dict[str, None] = field(default_factory=dict)


@dataclass
class _KeepDraft:
    """A keep while its users are still being collected."""

    id: str
    origin: str
    part: Keeping
    draft: StoreDraft
    fields: set[str] = field(default_factory=set)
    users: dict[str, None] = field(default_factory=dict)


class _Nodes:
    """All nodes of a topology by their names, while queries are added."""

    def __init__(self, plans: Sequence[Ways], united: United) -> None:
        self.stores = StoreDrafts(united)
        self.starts: dict[str, StartDraft] = {}
        self.probes: dict[str, _ProbeDraft] = {}
        self.keeps: dict[str, _KeepDraft] = {}
        self.emits: list[Emit] = []
        order = sorted({stamp for plan in plans for stamp in plan.stamps.values()})
        self.position = {label: place for place, (_, label) in enumerate(order)}

    def finish_starts(self) -> tuple[Start, ...]:
        return tuple(
            Start(
                s.id, s.label, self.position[s.label], tuple(sorted(s.columns)), tuple(s.then), tuple(s.users), s.filter
            )
            for s in self.starts.values()
        )  # fmt: skip

    def finish_probes(self) -> tuple[Probe, ...]:
        return tuple(self._probe(look) for look in self.probes.values())

    def _probe(self, look: _ProbeDraft) -> Probe:
        hop, step = look.hop, look.hop.step
        return Probe(
            id=look.id,
            users=tuple(look.users),
            origin=look.origin,
            position=self.position[look.origin],
            members=look.members,
            store=look.draft.id,
            wave=hop.wave,
            route=hop.route,
            route_key=hop.route_key,
            tasks=hop.tasks,
            sees=look.sees,
            index=look.draft.ordered.index(step.key),
            equal=tuple(e.known for e in step.equalities),
            low=step.low,
            high=step.high,
            residual=step.residual,
            fields=tuple(sorted(look.fields)),
            carry=tuple(sorted(look.carry)),
            then=tuple(look.then),
        )

    def finish_keeps(self) -> tuple[Keep, ...]:
        return tuple(
            Keep(
                k.id, tuple(k.users), k.origin, k.draft.id, k.part.wave, k.part.route, k.part.route_key, k.part.tasks,
                tuple(sorted(k.fields)),
            )
            for k in self.keeps.values()
        )  # fmt: skip


class _Query:
    """Adds the ways of one query to the nodes of the queries before it."""

    def __init__(self, plan: Ways, query: Query, nodes: _Nodes) -> None:
        self.plan, self.query, self.nodes = plan, query, nodes
        self.drafts: dict[int, StoreDraft] = {}
        """Store of the plan -> its draft in the topology."""
        self.at: dict[str, StartDraft | _ProbeDraft] = {}
        """Label -> the last node of its way so far."""

    def lay(self) -> None:
        """Add all that the query needs."""
        plan, tree = self.plan, self.plan.layout.tree
        tables = {r.alias for r in plan.query.relations if r.stream.table}
        begins = set(plan.query.aliases) - tables or tables  # whose rows can be the newest of a result
        for store in sorted({hop.store for label in plan.paths for hop in plan.hops(label)}):
            if store.bit_count() == 1:
                self._use(store, self.nodes.stores.relation(plan, store.bit_length() - 1, self.query))
        for alias, label in zip(self.query.aliases, plan.query.aliases, strict=True):
            if plan.paths[label] or label in begins:
                self.at[label] = self._start(alias, label)
        for operator in tree.operators:
            self._extend(operator.relations)
        emit = self._emit()
        for label, node in self.at.items():
            if label in begins:
                node.then[emit.id] = None

    def _use(self, store: int, draft: StoreDraft) -> None:
        self.drafts[store] = draft
        aliases = (self.query.aliases[i] for i in range(len(self.query.aliases)) if store >> i & 1)
        draft.users.append(f"{self.plan.name}.{'+'.join(aliases)}")

    def _extend(self, operator: int) -> None:
        """Extend the ways of all members through one operator, and fill its store if it is kept."""
        keeps: dict[str, Keeping] = {}
        for label in names(self.plan.query, operator):
            for part in self.plan.paths[label]:
                if part.operator != operator:
                    continue
                if isinstance(part, Keeping):
                    keeps[label] = part
                else:
                    self.at[label] = self._look(label, part)
        if keeps:
            feeding = {label: self.at[label].id for label in keeps}
            self._use(operator, self.nodes.stores.join(self.plan, operator, feeding, self.query))
        for label, part in keeps.items():
            self._keep(label, part)

    # ------------------------------------------------------------------------------------------ nodes

    def _start(self, alias: str, label: str) -> StartDraft:
        plan, made = self.plan, begin(self.plan, label, self.nodes.stores.united)
        begun = self.nodes.starts.setdefault(made.id, made)
        begun.clocks |= made.clocks
        begun.columns |= {f.split(".", 1)[1] for f in plan.start_fields(label)}
        begun.users[plan.name, alias] = None
        begun.watch |= find_watched_keys(plan, label, alias)
        return begun

    def _look(self, label: str, hop: Hop) -> _ProbeDraft:
        before, draft, step = self.at[label], self.drafts[hop.store], hop.step
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
        )
        way = (hop.route, *map(text_of, hop.route_key), hop.tasks, sees)
        members = tuple(sorted(step.target, key=lambda member: self.plan.stamps[member]))
        name = f"{'+'.join(members)}@{digest(*content, *way)}"
        look = self.nodes.probes.setdefault(name, _ProbeDraft(name, label, hop, members, draft, sees))
        draft.indexes.add(step.key)
        look.fields |= hop.fields
        look.carry |= set(hop.carry)
        look.users[self.plan.name] = None
        before.then[name] = None
        return look

    def _sees(self, label: str, store: int) -> tuple[str, ...]:
        stamps = self.plan.stamps
        older = sorted((m for m in names(self.plan.query, store) if stamps[m] < stamps[label]), key=lambda m: stamps[m])
        return tuple(older) if store.bit_count() > 1 else (ROWS,) * len(older)

    def _keep(self, label: str, part: Keeping) -> None:
        before, draft = self.at[label], self.drafts[part.store]
        name = f"keep {shorten(draft.name)}@{digest(before.id, draft.key)}"
        keep = self.nodes.keeps.setdefault(name, _KeepDraft(name, label, part, draft))
        keep.fields |= set(self.plan.fields[part.store])
        keep.users[self.plan.name] = None
        before.then[name] = None

    def _emit(self) -> Emit:
        plan = self.plan
        reads = {column.field for output in plan.query.outputs for column in columns(output.expr)}
        called = tuple(zip(plan.query.aliases, self.query.aliases, strict=True))
        emit = Emit(f"emit {plan.name}", plan.name, plan.query.outputs, tuple(sorted(reads)), called)
        self.nodes.emits.append(emit)
        return emit
