"""One share for each pair, where probes and the rows of an epoch say different things.

Probes compare rows inside windows, so they say what the plan that runs will see; but they see the rows of old windows
until these have gone, and a later probe sees only rows that have found other partners.  Kept values and samples are
those of the epoch alone: they see a change at once, but rows that agree may be nearer to each other than a window is
long.  So

    expected = what the epoch says now * what the pair had before / what the epochs before said

and a probe is believed

    that all rows make         unless the epochs have just moved by more than a factor
    that only some rows make   if it is within that factor of what is expected, or nothing is

What must hold: where the rows of an epoch say nothing of a pair, probes decide alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from weft.adapt.hops import Hops
from weft.expr.render import to_sql
from weft.query.model import Query
from weft.stats.given import Pair
from weft.stats.model import Statistics
from weft.stats.names import Names, between

FACTOR = 2.0
"""What differs by more than this is no chance."""


def reconcile(
    hops: Hops, measured: Statistics, before: Statistics, queries: Sequence[Query], names: Names
) -> Statistics:
    """The shares of all pairs that either says something of."""
    found = {**hops.later, **hops.first}
    for (a, b), text in _texts(queries, names).items():
        now, then, known = measured.predicate(text), before.predicate(text), before.selectivity(a, b)
        if now is None:
            continue
        scaled = bool(then) and bool(known)
        expected = min(1.0, now * known / then) if scaled and known and then else now
        probed = found.get((a, b))
        moved = bool(then) and not _near(now, then or 0.0)
        wrong = moved if (a, b) in hops.first else scaled and not _near(probed or 0.0, expected)
        if probed is None or wrong:
            found[a, b] = expected
    return Statistics(selectivities=found)


def _texts(queries: Sequence[Query], names: Names) -> Mapping[Pair, str]:
    """Pairs of aliases without selections that one predicate joins -> its text."""
    return {
        (a, b): to_sql(joins[0])
        for query in queries
        for a, b in combinations(sorted(query.aliases), 2)
        if len(joins := between(query, a, b)) == 1 and not (query.selections(a) or query.selections(b))
        if names.is_one_pair(query, a, b)
    }


def _near(a: float, b: float) -> bool:
    return min(a, b) > 0 and max(a, b) <= FACTOR * min(a, b)
