"""Fits the queries of a session to the state that is there, before anything is changed.

What must hold: a change never takes away what a query has.  A store that two queries share has the columns and rows of
both.  If the state has them for the old query and not for the new one, the two must not share: the new query's relation
then begins with the next batch, in a store of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.errors import StateError
from weft.host.migration.compare import compare
from weft.host.state.manifest import EVER, Ledger, Manifest
from weft.query.model import Query, begin_at
from weft.session.complete import complete_from, say_moment
from weft.topology.model import Policy, Topology


@dataclass(frozen=True)
class Fit:
    """The state of a checkpoint, and the plan that made it."""

    old: Topology
    manifest: Manifest

    @staticmethod
    def read(root: Path) -> Fit | None:
        """The state of a checkpoint; None if there is none."""
        ledger = Ledger(root)
        epoch = ledger.epoch()
        return None if epoch is None else Fit(epoch.topology, ledger.last())

    def complete_from(self, plan: Topology, queries: Mapping[str, Query], policy: Policy) -> dict[str, int]:
        """Query -> from when on it would be complete under a plan, for those that would lack rows."""
        partial = self.manifest.partial if plan is self.old else compare(self.old, plan, self.manifest).partial
        return complete_from(plan, queries, self.manifest.newest, partial, policy)

    def hurt(self, plan: Topology, queries: Mapping[str, Query], policy: Policy) -> dict[str, int]:
        """Queries that would lack rows under a new plan which they have now; from when on they would be complete."""
        before = self.complete_from(self.old, queries, policy)
        after = self.complete_from(plan, queries, policy)
        return {name: moment for name, moment in after.items() if moment > before.get(name, EVER)}

    def begin_apart(self, plan: Topology, queries: Mapping[str, Query], hurt: Mapping[str, int]) -> dict[str, Query]:
        """New queries that share a partial store with a query that would be hurt, with that relation begun anew."""
        partial = compare(self.old, plan, self.manifest).partial
        shared = {p.store for p in plan.probes if p.store in partial and not hurt.keys().isdisjoint(p.users)}
        apart: dict[str, Query] = {}
        for probe in (probe for probe in plan.probes if probe.store in shared):
            for name in (name for name in probe.users if name in queries):
                called = plan.aliases_of(name)
                since = {called[label]: self.manifest.batch + 1 for label in probe.members}
                apart[name] = begin_at(apart.get(name, queries[name]), since)
        return {name: query for name, query in apart.items() if query != queries[name]}


def begin_query(query: Query, start: str, batch: int) -> Query:
    """A new query; with start "now", over rows that come in a batch or later."""
    return begin_at(query, dict.fromkeys(query.aliases, batch)) if start == "now" else query


def refuse_loss(hurt: Mapping[str, int], new: Collection[str]) -> StateError:
    """The error for a change that would lose rows of a query; `new` are queries that the change brings."""
    name = min(hurt)
    asked = f"with {', '.join(sorted(new))} " if new else ""
    keep = "keep the plan it has: strategy, budget and options of before; or drop the query and add it again."
    table = "leave the new query out; a table is read once, and columns that no query needed then are gone."
    return StateError(
        f'the change would lose rows of query "{name}"',
        detail=f"{asked}the plan needs rows that the state does not have; {name} would be {say_moment(hurt[name])}.",
        hint=table if new else keep,
    )


def refuse_incomplete(found: Mapping[str, int]) -> None:
    """Refuse queries that must be complete and would not be."""
    for name, moment in found.items():
        raise StateError(
            f'query "{name}" cannot be complete',
            detail=f"rows it needs were read before and not kept; it would be {say_moment(moment)}.",
            hint="leave complete=True out, or start from an empty checkpoint.",
        )
