"""Derived streams: what a query reads of another one in the same batch.

    SELECT ... FROM (SELECT k, SUM(v) AS s FROM a GROUP BY k) d JOIN c ON ...

A derived stream is the union (UNION ALL) of the results of its branches.  A plain join in FROM is not one: it is put in
place (`weft.query.inline`).  What groups rows, tells them apart, unites several SELECTs or says how often rows count
becomes one.  Its branches are queries that nobody registered: they are planned like all others, and have hidden names.
What is derived from tables alone is a table.

What must hold: a branch reads streams, tables, views and derived streams of lesser depth.  All branches have the same
columns.  The name of a derived stream says what its rows are, so queries that read the same share it.  The rows of an
aggregate branch are its changes: the row of a group that changed with weight -1, its new row with weight +1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.errors import QueryError, Span
from weft.expr.coerce import unify
from weft.expr.model import Column, Expr, Literal, text_of, transform
from weft.query import model
from weft.query.changes import Changes
from weft.query.draft import Closes, Draft, Item, Named, Source, Star
from weft.query.model import Output, Query, Relation, Stream
from weft.query.names import find

SIGN = "#"
"""How names of derived streams begin."""


__all__ = [
    "SIGN", "Closes", "Derived", "add_branch", "all_rows", "apart_of", "begin_at", "branch_name", "branches", "closed",
    "derive", "different_rows", "fed_by", "hidden", "in_place", "is_hidden", "keep_apart", "reads",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived stream as a query states it, before names are looked up."""

    name: str
    """Unique within the query that states it, such as "#1"."""
    branches: tuple[Draft, ...]
    """What it is the union of."""
    times: str | None = None
    """A whole-number column of all branches that says how often each row counts; it is not a column of the stream."""
    closes: Closes | None = None
    """None if rows come at once, and are taken back when they change."""

    @property
    def named(self) -> Named:
        """The same as an entry of WITH."""
        first, *rest = self.branches
        return Named(self.name, replace(first, unions=tuple(rest), times=self.times, closes=self.closes))


# ---------------------------------------------------------------------------------------------- drafts


def add_branch(draft: Draft, branch: Draft) -> Draft:
    """The draft with the rows of one more SELECT, or of one more UNION ALL."""
    return replace(draft, unions=(*draft.unions, replace(branch, unions=()), *branch.unions))


def different_rows(draft: Draft, text: str) -> Draft:
    """SELECT DISTINCT * FROM (draft)."""
    return replace(all_rows(draft, text), distinct=True)


def all_rows(draft: Draft, text: str) -> Draft:
    """SELECT * FROM (draft)."""
    source = Source(text, "rows", derived=draft, span=draft.place)
    return Draft((source,), (), (Item(Star(), text=draft.text),), text=draft.text)


def in_place(draft: Draft) -> Draft:
    """The draft with derived tables in place of the names that its WITH gives; each may use those before it."""
    if not draft.named:
        return draft
    known: dict[str, Named] = {}
    for one in draft.named:
        known[one.name.lower()] = replace(one, draft=_spelled(one.draft, known))
    return _spelled(replace(draft, named=()), known)


def _spelled(draft: Draft, known: Mapping[str, Named]) -> Draft:
    """The draft without names of a WITH, wherever they stand in FROM; names that it gives itself come first."""
    known = {name: one for name, one in known.items() if name not in {own.name.lower() for own in draft.named}}
    if not known:
        return draft

    def spelled(source: Source) -> Source:
        if source.derived is not None:
            return replace(source, derived=_spelled(source.derived, known))
        one = known.get(source.stream.lower())
        if one is None:
            return source
        return replace(source, derived=one.draft, columns=(*source.columns, *one.columns[len(source.columns) :]))

    return replace(
        draft,
        sources=tuple(map(spelled, draft.sources)),
        unions=tuple(_spelled(branch, known) for branch in draft.unions),
        named=tuple(replace(own, draft=_spelled(own.draft, known)) for own in draft.named),
    )


def branches(draft: Draft) -> tuple[Draft, ...]:
    """The SELECTs of a draft; WITH of the first one is for all of them."""
    rest = (replace(branch, named=(*draft.named, *branch.named)) for branch in draft.unions)
    return (replace(draft, unions=()), *rest)


# --------------------------------------------------------------------------------------------- streams


def derive(made: Sequence[Query], times: str | None = None, *, by_name: bool = False) -> Stream:
    """The derived stream that has the rows of some queries; a column of theirs may say how often each row counts."""
    even = _unite(_by_names(made) if by_name else made)
    depth = 1 + max(relation.stream.depth for query in even for relation in query.relations)
    name = SIGN + _digest(*map(_content, even), times or "")
    changes = Changes() if any(query.gives_changes for query in even) else None
    table = all(relation.stream.table for query in even for relation in query.relations) or any(map(_is_final, even))
    return Stream(name, even[0].schema, table=table, weight=times, changes=changes, depth=depth, made=even)


def _is_final(query: Query) -> bool:
    """Whether a query gives versions that are looked up once they are final."""
    made = query.grouping
    return made is not None and made.versions is not None and made.versions.until is not None


def hidden(queries: Mapping[str, Query]) -> dict[str, Query]:
    """Hidden name -> a branch of a derived stream that one of the queries reads, each after those it reads itself."""
    found: dict[str, Query] = {}
    _add_hidden(queries.values(), found)
    return found


def _add_hidden(queries: Iterable[Query], found: dict[str, Query]) -> None:
    """Add what is not there yet: what several read is looked at once."""
    for query in queries:
        for stream in (relation.stream for relation in query.relations if relation.stream.made):
            if branch_name(stream.name, 0) not in found:
                mine = {branch_name(stream.name, place): branch for place, branch in enumerate(stream.made)}
                _add_hidden(mine.values(), found)
                found |= mine


def closed(query: Query) -> Query:
    """The query, and all that it reads, with windows that include their end."""
    return _over(query, lambda _, branch: closed(branch)).closed()


def begin_at(query: Query, since: Mapping[str, int]) -> Query:
    """The query over rows that come in a batch or later, by alias; so are the queries that it reads."""

    def begun(relation: Relation, branch: Query) -> Query:
        batch = 0 if relation.stream.table else since.get(relation.alias, relation.since)
        return begin_at(branch, dict.fromkeys(branch.aliases, batch)) if batch else branch

    return model.begin_at(_over(query, begun), since)


def keep_apart(query: Query, numbers: Mapping[str, int]) -> Query:
    """The query with relations that share stores only with those of the same number.

    Own relations are named by alias, those of queries that it reads by `branch.alias`.  Names of derived streams stay:
    their rows are the same.
    """

    def kept(stream: Stream) -> Stream:
        branches = enumerate(stream.made)
        made = tuple(keep_apart(branch, _below(numbers, branch_name(stream.name, at))) for at, branch in branches)
        return replace(stream, made=made)

    relations = tuple(replace(r, stream=kept(r.stream)) if r.stream.made else r for r in query.relations)
    return model.keep_apart(replace(query, relations=relations), numbers)


def _below(numbers: Mapping[str, int], branch: str) -> dict[str, int]:
    """The numbers for a branch: of its own relations, and of all branches."""
    own = {name.removeprefix(f"{branch}."): number for name, number in numbers.items() if name.startswith(f"{branch}.")}
    return {name: number for name, number in numbers.items() if "." in name} | own


def apart_of(query: Query) -> dict[str, int]:
    """The numbers of relations that do not share stores with all others, as `keep_apart` takes them."""
    named = {f"{branch}.": part for branch, part in hidden({"": query}).items()}
    whole = {"": query, **named}
    return {f"{before}{r.alias}": r.apart for before, part in whole.items() for r in part.relations if r.apart}


def _over(query: Query, change: Callable[[Relation, Query], Query]) -> Query:
    """The query with changed branches of the derived streams that it reads."""
    relations = tuple(
        replace(r, stream=derive([change(r, branch) for branch in r.stream.made], r.stream.weight))
        if r.stream.made
        else r
        for r in query.relations
    )
    return replace(query, relations=relations)


def reads(draft: Draft) -> set[str]:
    """The names that a draft and all SELECTs in it stand FROM."""
    inner = [source.derived for source in draft.sources if source.derived is not None]
    inner += [*draft.unions, *(named.draft for named in draft.named)]
    own = {source.stream for source in draft.sources if source.derived is None}
    return own.union(*map(reads, inner))


def branch_name(stream: str, place: int) -> str:
    """The hidden name of a branch."""
    return f"{stream}-{place}"


def is_hidden(query: str) -> bool:
    """Whether this is the name of a branch."""
    return query.startswith(SIGN)


def fed_by(query: str) -> str:
    """The derived stream that has the rows of a query; empty if it is no branch."""
    return query.partition("-")[0] if is_hidden(query) else ""


def _unite(made: Sequence[Query]) -> tuple[Query, ...]:
    """The queries with the same columns: names of the first one, types that hold the values of all."""
    if len(made) == 1:
        return tuple(made)
    shown = [_outputs(query) for query in made]
    if wrong := [outputs for outputs in shown if len(outputs) != len(shown[0])]:
        raise QueryError(
            "the SELECTs of a UNION have different numbers of columns",
            detail=f"the first one has {len(shown[0])}, another one {len(wrong[0])}.",
            hint="select as many columns in each of them.",
            span=_span_of(wrong[0]),
        )
    columns = [unify([output.expr for output in column], "UNION") for column in zip(*shown, strict=True)]
    names = [output.name for output in shown[0]]
    return tuple(
        _with_outputs(query, tuple(Output(name, column[place]) for name, column in zip(names, columns, strict=True)))
        for place, query in enumerate(made)
    )


def _by_names(made: Sequence[Query]) -> list[Query]:
    """The queries with all columns that any of them has, as they come; NULL where one has none."""
    names: list[str] = []
    for output in (output for query in made for output in _outputs(query)):
        if find(output.name, names) is None:
            names.append(output.name)

    def aligned(query: Query) -> Query:
        own = {output.name: output.expr for output in _outputs(query)}
        places = [find(name, own) for name in names]
        exprs = (Literal(None, pa.null()) if place is None else own[place] for place in places)
        return _with_outputs(query, tuple(map(Output, names, exprs)))

    return [aligned(query) for query in made]


def _span_of(outputs: Sequence[Output]) -> Span | None:
    """From the first to the last output, if they are written in one place."""
    first, last = outputs[0].expr.span, outputs[-1].expr.span
    return first.to(last) if first and last and first.text is last.text and first.start < last.end else None


def _outputs(query: Query) -> tuple[Output, ...]:
    return query.outputs if query.grouping is None else query.grouping.outputs


def _with_outputs(query: Query, outputs: tuple[Output, ...]) -> Query:
    if query.grouping is None:
        return replace(query, outputs=outputs)
    return replace(query, grouping=replace(query.grouping, outputs=outputs))


def _content(query: Query) -> str:
    """What decides the rows of a query, however it calls its relations."""
    places = {alias: str(place) for place, alias in enumerate(query.aliases)}

    def placed(node: Expr) -> Expr:
        return Column(places.get(node.alias, ""), node.name, node.type) if isinstance(node, Column) else node

    asked = sorted(text_of(transform(predicate, placed)) for predicate in query.predicates)
    given = _texts((output.name, transform(output.expr, placed)) for output in query.outputs)
    joined = [(r.stream.name, r.stream.event_time, r.window, r.since) for r in query.relations]
    return repr((asked, given, joined, query.late_by, _grouping(query)))


def _grouping(query: Query) -> object:
    made = query.grouping
    if made is None:
        return None
    having = None if made.having is None else text_of(made.having)
    counted = [(one.kind, one.argument, str(one.type)) for one in made.aggregates]
    shown = _texts((o.name, o.expr) for o in made.outputs)
    more = [one for one in (made.ranking, made.versions) if one is not None]
    return made.keys, counted, shown, having, made.window, made.closing, *more


def _texts(exprs: Iterable[tuple[str, Expr]]) -> list[tuple[str, str, str]]:
    return [(name, text_of(expr), str(expr.type)) for name, expr in exprs]


def _digest(*parts: str) -> str:
    return hashlib.blake2b("|".join(parts).encode(), digest_size=6).hexdigest()
