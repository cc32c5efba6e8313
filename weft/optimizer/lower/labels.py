"""Labels: relations named by what they are, so that two queries share them even under different aliases.

    orders              the stream, all of its rows
    orders~3fa29c01     after selections; the digest is that of the selections, in any order
    orders~2            the second relation of the query that is the same as another
    orders~@7           only rows that came in batch 7 or later
    orders~@0:1         all rows, in stores that are not shared with other labels

What must hold: a label is a function of the query alone, and two relations of one query never have the same.  The order
of labels, tables first and derived streams last, is that of stamps (`weft.topology.model`), in every query the same.

Rejected: matching self joins up to renaming.  Two queries that list equal relations in different orders may share
less; they never get a wrong answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace

from weft.expr.model import Call, Column, Expr, text_of, transform, without_alias
from weft.expr.safe import cannot_fail
from weft.optimizer.graph.predicates import FLIP
from weft.query.model import Query
from weft.topology.label import label_since


def shorten(name: str) -> str:
    """The beginning of a name that becomes part of a file's: at most 80 bytes."""
    return name.encode()[:80].decode(errors="ignore")


def digest(*parts: object) -> str:
    """A short name for some content."""
    return hashlib.blake2b("|".join(map(str, parts)).encode(), digest_size=6).hexdigest()


def predicate_text(predicate: Expr) -> str:
    """The same text, whichever side of a comparison comes first."""
    if isinstance(predicate, Call) and predicate.op in FLIP:
        op, (left, right) = predicate.op, (text_of(arg) for arg in predicate.args)
        if op in (">", ">=") or (op == "=" and right < left):
            op, left, right = FLIP[op], right, left
        return f"{left} {op} {right}"
    return text_of(predicate)


def labels(query: Query) -> dict[str, str]:
    """Alias -> label."""
    found: dict[str, str] = {}
    for relation in query.relations:
        chosen = sorted(text_of(without_alias(p)) for p in query.selections(relation.alias))
        base = f"{relation.stream.name}~{digest(*chosen)[:8]}" if chosen else relation.stream.name
        label, number = base, 2
        while label_since(label, relation.since, relation.apart) in found.values():
            label, number = f"{base}~{number}", number + 1
        found[relation.alias] = label_since(label, relation.since, relation.apart)
    return found


def in_order(query: Query) -> Query:
    """The query with its predicates in an order that does not depend on how they were written down."""
    return replace(query, predicates=sort_predicates(query, query.predicates))


def sort_predicates(query: Query, predicates: Iterable[Expr]) -> tuple[Expr, ...]:
    """Predicates of a query by what they say of its labels."""
    called = name_by_label(query)
    return tuple(
        sorted(predicates, key=lambda predicate: (not cannot_fail(predicate), predicate_text(called(predicate))))
    )


def name_by_label(query: Query) -> Callable[[Expr], Expr]:
    """A function that puts labels in the place of a query's aliases."""
    names = labels(query)

    def named(node: Expr) -> Expr:
        return Column(names[node.alias], node.name, node.type) if isinstance(node, Column) else node

    return lambda expr: transform(expr, named)


def stamp_order(query: Query) -> dict[str, tuple[int, str]]:
    """Alias -> what orders the stamps of rows that come in one batch: the rank of its stream, then its label."""
    return {alias: (query.relation(alias).stream.rank, label) for alias, label in labels(query).items()}
