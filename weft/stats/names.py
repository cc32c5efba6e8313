"""Names under which something can be measured.

What must hold:

- A name that means different things in different queries is not used for measured numbers.
- What was given by hand wins, even where a measured number would be more specific: no measured pair hides a given
  predicate, no measured predicate a given distinct count, no measured alias a given stream.

What names mean is collected once for all queries: a session with hundreds of queries asks for each of its names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from weft.expr.model import Call, Column, Expr, aliases, columns
from weft.expr.render import to_sql
from weft.expr.spelling import turned
from weft.query.model import Query, Relation
from weft.stats.keys import key_names
from weft.stats.model import Statistics

_Rows = tuple[str, frozenset[Expr]]
"""Stream and selections."""
_Meaning = tuple[tuple[str, ...], frozenset[Expr], frozenset[Expr]]
"""Streams, joins and selections of two aliases."""


@dataclass(frozen=True)
class Names:
    """The names of some queries over streams."""

    streams: Collection[str]
    queries: tuple[Query, ...]
    given: Statistics
    """What was given by hand."""

    # ------------------------------------------------------------------------------------- mean one thing

    def is_one_stream(self, name: str) -> bool:
        """Whether the name of a stream is not also an alias of another stream."""
        return all(r.stream.name == name for query in self.queries for r in query.relations if r.alias == name)

    def is_one_alias(self, query: Query, relation: Relation) -> bool:
        """Whether the alias stands for the same rows wherever it occurs, and is not the name of a stream."""
        same = self._aliases.get(relation.alias, set()) <= {_rows_of(query, relation)}
        return same and relation.alias not in self.streams

    def is_one_predicate(self, query: Query, predicate: Expr) -> bool:
        """Whether the text, from either side, is about the same streams in all queries."""
        owners = _owners(query, predicate)
        return all(self._predicates.get(text, set()) <= {owners} for text in _spellings(predicate))

    def is_one_pair(self, query: Query, a: str, b: str) -> bool:
        """Whether only this join will find the pair's number, and the number hides nothing given by hand."""
        streams, joins, selections = meaning = _meaning(query, a, b)
        if not self._pairs.get(frozenset((a, b)), set()) <= {meaning}:
            return False
        told = any(self.is_given(predicate) for predicate in joins | selections)
        counted = any(self.is_counted(query, predicate) for predicate in joins)
        paired = len(set(streams)) > 1 and self.given.selectivity(*streams) is not None
        return not (told or counted or paired)

    @cached_property
    def _aliases(self) -> dict[str, set[_Rows]]:
        """Alias -> all that it means."""
        found: dict[str, set[_Rows]] = {}
        for query, relation in ((q, r) for q in self.queries for r in q.relations):
            found.setdefault(relation.alias, set()).add(_rows_of(query, relation))
        return found

    @cached_property
    def _predicates(self) -> dict[str, set[tuple[str, ...]]]:
        """Text of a predicate -> all streams that it is about."""
        found: dict[str, set[tuple[str, ...]]] = {}
        for query, predicate in ((q, p) for q in self.queries for p in q.predicates):
            found.setdefault(to_sql(predicate), set()).add(_owners(query, predicate))
        return found

    @cached_property
    def _pairs(self) -> dict[frozenset[str], set[_Meaning | None]]:
        """Two names -> the joins that find a number under them; None is a join that finds it by its streams."""
        found: dict[frozenset[str], set[_Meaning | None]] = {}
        for query in self.queries:
            for r, s in combinations(query.relations, 2):
                if between(query, r.alias, s.alias):
                    names, streams = frozenset((r.alias, s.alias)), frozenset((r.stream.name, s.stream.name))
                    found.setdefault(names, set()).add(_meaning(query, r.alias, s.alias))
                    if streams != names:
                        found.setdefault(streams, set()).add(None)
        return found

    # -------------------------------------------------------------------------------------- given by hand

    def is_given(self, predicate: Expr) -> bool:
        """Whether the share of a predicate was given."""
        return share_of_all(self.given, [predicate]) is not None

    def is_counted(self, query: Query, predicate: Expr) -> bool:
        """Whether distinct counts were given for an equality: they decide where no selectivity is given."""
        sides = predicate.args if isinstance(predicate, Call) and predicate.op == "=" else ()
        return any(
            self.given.distinct(name, side.name) is not None
            for side in sides
            if isinstance(side, Column)
            for name in (side.alias, query.relation(side.alias).stream.name)
        )

    def is_key_given(self, stream: str, key: Expr) -> bool:
        """Whether something was given of a stream's key, which what is measured of an alias would hide."""
        known = (self.given.distinct, self.given.heavy)
        return any(ask(stream, name) is not None for ask in known for name in key_names(key))


def between(query: Query, a: str, b: str) -> tuple[Expr, ...]:
    """The predicates between two aliases."""
    return tuple(predicate for predicate in query.joins if aliases(predicate) == {a, b})


def conjunction(predicates: Iterable[Expr]) -> str:
    """The name of the share of several predicates together: their texts, in any order."""
    return " AND ".join(sorted(map(to_sql, predicates)))


def bands(query: Query, a: str, b: str) -> tuple[tuple[Expr, ...], ...]:
    """Groups of inequalities between two aliases that compare the same columns, beside inequalities that do not.

    The ends of such a band depend on each other, so they are measured together.  Without others the share of the pair
    says the same.
    """
    found: dict[frozenset[Column], list[Expr]] = {}
    for predicate in between(query, a, b):
        if isinstance(predicate, Call) and predicate.op in ("<", "<=", ">", ">="):
            found.setdefault(columns(predicate), []).append(predicate)
    return tuple(tuple(group) for group in found.values() if len(group) > 1) if len(found) > 1 else ()


def share_of_all(statistics: Statistics, predicates: Sequence[Expr]) -> float | None:
    """The share that is known for several predicates together; a single one may be written from either side."""
    texts = _spellings(predicates[0]) if len(predicates) == 1 else [conjunction(predicates)]
    return next((share for share in map(statistics.predicate, texts) if share is not None), None)


def _spellings(predicate: Expr) -> Iterator[str]:
    """The names of the share of a predicate."""
    return map(to_sql, turned(predicate))


def _owners(query: Query, predicate: Expr) -> tuple[str, ...]:
    return tuple(query.relation(alias).stream.name for alias in sorted(aliases(predicate)))


def _rows_of(query: Query, relation: Relation) -> _Rows:
    """All that decides which rows an alias has."""
    return relation.stream.name, frozenset(query.selections(relation.alias))


def _meaning(query: Query, a: str, b: str) -> _Meaning:
    """All that decides which pairs of two aliases there are."""
    streams = tuple(query.relation(alias).stream.name for alias in sorted((a, b)))
    return streams, frozenset(between(query, a, b)), frozenset(query.selections(a) + query.selections(b))
