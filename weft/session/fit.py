"""Fits the queries of a session to the state that is there, before anything is changed.

What must hold: a change never takes away what a query has.  A store that two relations share has the columns and rows
of both.  If no old store has all that, the two must not share: each then has a store of its own, and that of a new
query may begin empty.  The same holds for rows that are late for one of them only: an old store tells them apart by the
clocks that it had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.errors import StateError
from weft.host.migration.compare import Comparison, compare
from weft.host.state.manifest import EVER, NEVER, Ledger, Manifest
from weft.query.derived import apart_of, hidden, keep_apart
from weft.query.model import Query
from weft.session.complete import complete_from, say_moment
from weft.topology.clock import NEVER_LATE, Policy
from weft.topology.model import Topology

Use = tuple[str, str]
"""A query and one of its aliases."""


@dataclass(frozen=True)
class _Crowd:
    """Who uses a store, and who of them would not have the rows there that they have now."""

    users: list[Use]
    misled: list[Use]


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
        partial = self.manifest.partial if plan is self.old else self._compare(plan).partial
        return self._complete_from(plan, queries, policy, partial)

    def _complete_from(
        self, plan: Topology, queries: Mapping[str, Query], policy: Policy, partial: Mapping[str, int]
    ) -> dict[str, int]:
        return complete_from(plan, queries, self.manifest.newest, partial, policy, self.manifest.idle)

    def _compare(self, plan: Topology) -> Comparison:
        return compare(self.old, plan, self.manifest)

    def refuse_lost_past(self, plan: Topology, queries: Collection[str]) -> None:
        """Refuse queries that must have all results among old rows, if some of these rows are gone."""
        found = compare(self.old, plan, self.manifest, queries).cascade
        assert found is not None
        for name in queries:
            found.refuse_lost(name, self.manifest)

    def hurt(self, plan: Topology, queries: Mapping[str, Query], policy: Policy) -> dict[str, int]:
        """Queries that would lack rows under a new plan which they have now; from when on they would be complete."""
        found = self._compare(plan)
        before = self._complete_from(self.old, queries, policy, self.manifest.partial)
        after = self._complete_from(plan, queries, policy, found.partial)
        later = {name for name, moment in after.items() if moment > before.get(name, EVER)}
        losers = self._emptied(plan, found) | {name for uses in self._misled(plan, found).values() for name, _ in uses}
        later |= {name for name, query in queries.items() if {name, *hidden({name: query})} & losers}
        return {name: after.get(name, NEVER) for name in queries if name in later}

    def _emptied(self, plan: Topology, found: Comparison) -> set[str]:
        """Queries, hidden ones too, with a store that would begin empty although the state has rows of its relations.

        The moment from which on a query is complete does not tell: it may have been incomplete before, for other rows.
        """
        held = {store.label for store in self.old.stores if self.manifest.held.get(store.id)}
        emptied = {
            store.id for store in plan.stores if store.id in found.lacks and held & {store.label, *store.members}
        }
        return {name for name, _, store in self._uses(plan) if store in emptied}

    def _misled(self, plan: Topology, found: Comparison) -> dict[str, list[Use]]:
        """Store -> its users by whose clock it would not have the rows that they have now."""
        clock = {query: clock.id for clock in plan.clocks for query in clock.queries}
        misled: dict[str, list[Use]] = {}
        for name, alias, store in self._uses(plan):
            if clock.get(name, NEVER_LATE) in found.untold.get(store, ()):
                misled.setdefault(store, []).append((name, alias))
        return misled

    def _uses(self, plan: Topology) -> list[tuple[str, str, str]]:
        """(Query, alias, store) of probes of queries that are there already, hidden ones too."""
        known = ((probe, name) for probe in plan.probes for name in probe.users if name in self.old.emit_of)
        return sorted(
            {(name, plan.aliases_of(name)[label], probe.store) for probe, name in known for label in probe.members}
        )

    def keep_apart(
        self, plan: Topology, queries: Mapping[str, Query], new: Collection[str], hurt: Mapping[str, int]
    ) -> dict[str, Query]:
        """Queries with relations of their own instead of some that share a store which hurts; nothing if none does.

        The relations may be those of hidden queries that these read.  New queries give way; if there are none in such
        a store, one relation of a query that is hurt does.
        """
        readers = _readers(queries)
        number = 1 + max((n for query in queries.values() for n in apart_of(query).values()), default=0)
        numbers: dict[str, dict[str, int]] = {name: apart_of(query) for name, query in queries.items()}
        for crowd in self._crowded(plan, readers, hurt):
            away = [use for use in crowd.users if readers[use[0]] <= {*new}] or crowd.misled
            away = away or [max(use for use in crowd.users if readers[use[0]] & {*hurt})]
            for name, alias in away if len(away) < len(crowd.users) else away[1:]:
                for reader in readers[name]:
                    numbers[reader][alias if name in queries else f"{name}.{alias}"] = number
        changed = (name for name, query in queries.items() if numbers[name] != apart_of(query))
        return {name: keep_apart(queries[name], numbers[name]) for name in changed}

    def _crowded(self, plan: Topology, readers: Mapping[str, set[str]], hurt: Mapping[str, int]) -> list[_Crowd]:
        """The stores of streams that a query shares which is hurt."""
        found = self._compare(plan)
        misled = self._misled(plan, found)
        wrong = {*found.partial, *misled}
        users: dict[str, set[Use]] = {}
        for probe in (probe for probe in plan.probes if probe.store in wrong and len(probe.members) == 1):
            uses = {(name, plan.aliases_of(name)[probe.members[0]]) for name in probe.users}
            users.setdefault(probe.store, set()).update(uses)
        return [
            _Crowd(sorted(uses), misled.get(store, []))
            for store, uses in users.items()
            if len(uses) > 1 and any(readers[name] & {*hurt} for name, _ in uses)
        ]


def _readers(queries: Mapping[str, Query]) -> dict[str, set[str]]:
    """Query, hidden ones too -> the queries that have its rows."""
    found: dict[str, set[str]] = {name: {name} for name in queries}
    for name, query in queries.items():
        for part in hidden({name: query}):
            found.setdefault(part, set()).add(name)
    return found


def refuse_loss(hurt: Mapping[str, int]) -> StateError:
    """The error for a change that would lose rows of a query."""
    name = min(hurt)
    return StateError(
        f'the change would lose rows of query "{name}"',
        detail=f"the new plan needs rows that the state does not have; {name} would be {say_moment(hurt[name])}.",
        hint="keep the plan it has: strategy, budget and options of before; or drop the query and add it again.",
    )


def refuse_incomplete(found: Mapping[str, int]) -> None:
    """Refuse queries that must be complete and would not be."""
    for name, moment in found.items():
        raise StateError(
            f'query "{name}" cannot be complete',
            detail=f"rows it needs were read before and not kept; it would be {say_moment(moment)}.",
            hint="start from an empty checkpoint; if its rows are never taken back, complete=True may be left out.",
        )
