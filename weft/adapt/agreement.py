"""How many partners rows have, by values that are kept of all streams alike (`weft.stats.least`).

Of each equality between two aliases that is their only predicate:

    share = sum over frequent values of share_a share_b  +  share among all others, by the values that are kept

A value that is frequent on one side and not on the other has the usual share there, one of all values.

What must hold: no number appears that a name cannot mean (`weft.stats.names`).  None seen among many is rare, not
impossible: it counts as one value of those that could have agreed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from weft.expr.model import Expr, aliases, children, without_alias
from weft.expr.render import to_sql
from weft.kernels.least import Words
from weft.query.model import Query
from weft.stats.distinct import hash_codes
from weft.stats.drawn import Part
from weft.stats.given import Pair
from weft.stats.keys import is_equality, key_name
from weft.stats.least import LeastValues, agree
from weft.stats.model import Statistics
from weft.stats.names import Names, between

Kept = Mapping[str, LeastValues]
"""Join key -> the rows of some of its values."""
ENOUGH = 8
"""So many values must be kept of both sides, if these are not all."""


def measure_agreement(
    kept: Kept, queries: Sequence[Query], names: Names, found: Statistics, without: Part | None = None
) -> Statistics:
    """Shares of pairs, and numbers of values, by the values that are kept; frequent ones are those of `found`."""
    shares: dict[str, float] = {}
    pairs: dict[Pair, float] = {}
    for query, (a, b), predicate in _equalities(queries):
        keys = tuple(_name(query, alias, predicate) for alias in (a, b))
        if any(key not in kept for key in keys) or not _mean_one_thing(query, (a, b), names):
            continue
        if (share := _share(kept, keys, found, without)) is None:
            continue
        if not (query.selections(a) or query.selections(b)) and names.is_one_predicate(query, predicate):
            shares[to_sql(predicate)] = share
        if names.is_one_pair(query, a, b):
            pairs[a, b] = share
    counts = {name: least.distinct for name, least in kept.items() if found.distinct(*name.split(".", 1)) is not None}
    return Statistics(distinct=counts, predicates=shares, selectivities=pairs)


def _equalities(queries: Sequence[Query]) -> Iterator[tuple[Query, Pair, Expr]]:
    for query in queries:
        for r, s in combinations(query.relations, 2):
            a, b = sorted((r.alias, s.alias))
            joins = between(query, a, b)
            if len(joins) == 1 and is_equality(joins[0]):
                yield query, (a, b), joins[0]


def _name(query: Query, alias: str, predicate: Expr) -> str:
    """The name under which the values of a key are counted: after the selections of the alias, if it has any."""
    key = next(side for side in children(predicate) if aliases(side) == {alias})
    owner = alias if query.selections(alias) else query.relation(alias).stream.name
    return f"{owner}.{key_name(without_alias(key))}"


def _mean_one_thing(query: Query, ends: Pair, names: Names) -> bool:
    """Whether the names of both keys stand for the same rows in all queries."""
    return all(
        names.is_one_alias(query, relation) if query.selections(alias) else names.is_one_stream(relation.stream.name)
        for alias in ends
        for relation in (query.relation(alias),)
    )


def _share(kept: Kept, keys: Sequence[str], found: Statistics, without: Part | None) -> float | None:
    a, b = (kept[key] for key in keys)
    tops = [dict(found.heavy(*key.split(".", 1)) or ()) for key in keys]
    often = sorted({*tops[0], *tops[1]})
    leaving: Words = hash_codes(np.array(often, dtype=np.int64))
    seen = agree(a, b, leaving, without)
    if not (a.rows and b.rows) or not (seen.whole or seen.looked >= ENOUGH):
        return None
    usual = [least.valued / least.rows / max(1.0, least.distinct) for least in (a, b)]
    contained = min(usual)
    if seen.whole:
        return seen.pairs / seen.of or contained / (seen.looked + 1)
    frequent = sum(tops[0].get(code, usual[0]) * tops[1].get(code, usual[1]) for code in often)
    rest = seen.pairs / seen.of if seen.pairs else contained / (seen.looked + 1)
    return min(1.0, frequent + rest)
