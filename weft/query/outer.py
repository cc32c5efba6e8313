"""Outer, semi and anti joins as inner joins, UNION ALL and groups.

A LEFT JOIN B ON p has two kinds of rows: those of A JOIN B ON p, and rows of A without partner, padded with NULLs.
The latter are a count of partners kept with a row:

    SELECT a's columns FROM (SELECT a's columns, 1 AS own, 0 AS pairs FROM A
                             UNION ALL SELECT a's columns, 0, 1 FROM A JOIN B ON p)
    GROUP BY a's columns HAVING SUM(pairs) = 0, each row SUM(own) times

A semi join has SUM(pairs) > 0 there, an anti join SUM(pairs) = 0, a mark shows SUM(pairs) > 0 as a column.  So a tree
of joins is a union of flat joins, here called terms.  A term in which a condition can never be true is left out: this
is how an outer join below a condition that rejects NULLs becomes an inner join.

What must hold: a column that any condition reads is among the columns by which rows are grouped, so rows of one group
have the same partners.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, product
from math import prod

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Literal, Udf, columns, transform
from weft.query.draft import Closes, Condition, Draft, Item, Source, Star
from weft.query.grouping import FROM, TO
from weft.query.model import BATCH
from weft.query.nulls import fold, is_always_true, is_never_true, null
from weft.query.opened import Kind, Node, Opened, Part, conditions_of, sources_of
from weft.query.qualify import Reader
from weft.query.simplify import simplify
from weft.query.tables import refuse_partners_that_come
from weft.query.visible import numbered, unique_names
from weft.query.withins import HERE, InTime, has_windows, spell_windows

Key = tuple[str, str]
"""An alias and one of its columns."""
MANY = 4
"""A union of more terms than this becomes a derived table before it is joined again."""
_OWN, _PAIRS, _CAME = "#own", "#pairs", "#came"


@dataclass(frozen=True, slots=True)
class Count:
    """That rows of a term have partners, or have none, or are to be marked with whether they have."""

    kind: Kind
    right: tuple[Term, ...]
    on: tuple[Condition, ...]
    """Over sources of the term that is counted, and columns of the tree on the right."""
    mark: Column | None = None


@dataclass(frozen=True, slots=True)
class Term:
    """A flat inner join, and what columns of the tree are in it where they are not themselves."""

    sources: tuple[Source, ...]
    conditions: tuple[Condition, ...] = ()
    values: Mapping[Key, Expr] = field(default_factory=dict)
    counts: tuple[Count, ...] = ()

    def put(self, expr: Expr) -> Expr:
        """An expression over the tree, in this term."""

        def change(node: Expr) -> Expr:
            return self.values.get((node.alias, node.name), node) if isinstance(node, Column) else node

        return transform(expr, change)


class _Unbounded(Exception):  # noqa: N818 - no error: partners may always come
    pass


def without_outer_joins(opened: Opened, reader: Reader) -> Draft:
    """The same query as a union of flat joins.

    Rows that depend on the number of their partners come once, when no more partners can come, if that holds for all
    such rows of the query.  Otherwise all of them come at once, and are taken back.
    """
    try:
        return _Rewriter(opened, reader, once=True).draft()
    except _Unbounded:
        return _Rewriter(opened, reader, once=False).draft()


class _Rewriter:
    """Rewrites one SELECT."""

    def __init__(self, opened: Opened, reader: Reader, *, once: bool) -> None:
        self.opened, self.types, self.base, self.known = opened, reader.types, opened.draft, reader.known
        self.once = once
        self.taken = {source.alias for source in sources_of(opened.part)}
        part = simplify(opened.part, [_expr(condition) for condition in opened.where])
        self.part = spell_windows(part, self.known) if has_windows(part) else part
        self.needed = [key for key in needed(opened, self.part) if key[1] not in (FROM, TO)]
        """What is read anywhere: columns that must survive a grouping.  The times at which a version is met may change
        while a row goes on to meet it; only the join with versions reads them."""

    def draft(self) -> Draft:
        """The whole query."""
        opened = self.opened
        terms = self._settled(self._filtered(self._terms(self.part), opened.where))
        if not terms:
            terms = [self._nothing()]
        if opened.is_grouped and len(terms) > 1:
            terms = [self._unite(terms)]
        first, *rest = (self._select(term) for term in terms)
        return replace(first, named=self.base.named, unions=tuple(rest))

    def _select(self, term: Term) -> Draft:
        opened = self.opened
        return replace(
            self._flat(term, [replace(item, expr=term.put(_expr(item))) for item in opened.items]),
            group_by=tuple(_put(term, condition) for condition in opened.group_by),
            having=tuple(_put(term, condition) for condition in opened.having),
            distinct=self.base.distinct,
        )

    def _flat(self, term: Term, items: Iterable[Item]) -> Draft:
        return Draft(term.sources, term.conditions, tuple(items), text=self.base.text)

    def _nothing(self) -> Term:
        """A term without rows, where no row can pass."""
        first = next(sources_of(self.part))
        return Term((first,), (Condition(Literal(False)),), {**self._absent(self.part, first), **_here(first)})

    # ------------------------------------------------------------------------------------------ terms

    def _terms(self, part: Part) -> list[Term]:
        if isinstance(part, Source):
            return [Term((part,), values=_here(part))]
        if part.right is None:
            return self._filtered(self._terms(part.left), part.on)
        left, right = self._few(self._terms(part.left)), self._few(self._terms(part.right))
        if part.kind == "inner":
            return self._pairs(left, right, part.on)
        if part.kind in ("semi", "anti"):
            return [self._counted(one, right, part) for one in left]
        if part.kind == "mark":
            return self._settled(self._counted(one, right, part) for one in left)
        padded = [self._padded(one, right, part, part.right) for one in left]
        if part.kind == "full":
            padded += [self._padded(one, left, part, part.left) for one in right]
        return [*self._pairs(left, right, part.on), *padded]

    def _few(self, terms: list[Term]) -> list[Term]:
        return terms if len(terms) <= (4 * MANY if self.once else MANY // 2) else [self._unite(self._settled(terms))]

    def _pairs(self, left: Iterable[Term], right: Iterable[Term], on: tuple[Condition, ...]) -> list[Term]:
        return self._filtered((_both(*sides) for sides in product(left, right)), on)

    def _filtered(self, terms: Iterable[Term], on: Iterable[Condition]) -> list[Term]:
        found = (self._with(term, on) for term in terms)
        return [term for term in found if term is not None]

    def _with(self, term: Term, on: Iterable[Condition]) -> Term | None:
        """The term with more conditions; None if one of them is never true."""
        more = [_put(term, condition) for condition in on]
        folded = [fold(_expr(condition)) for condition in more]
        if any(map(is_never_true, folded)):
            return None
        kept = [condition for condition, short in zip(more, folded, strict=True) if not is_always_true(short)]
        return replace(term, conditions=(*term.conditions, *kept))

    def _padded(self, term: Term, right: list[Term], join: Node, absent: Part | None) -> Term:
        found = self._counted(term, right, replace(join, kind="anti"))
        return replace(found, values={**found.values, **self._absent(absent)})

    def _counted(self, term: Term, right: list[Term], join: Node) -> Term:
        """The term with one more count of partners."""
        on = tuple(_put(term, condition) for condition in join.on)
        more = Count(join.kind, tuple(self._settled(right)), on, join.mark)
        return replace(term, counts=(*term.counts, more))

    def _absent(self, part: Part | None, there: Source | None = None) -> dict[Key, Expr]:
        """What the columns and marks of a part are where its rows are absent, but for those of a source."""
        aliases = {source.alias for source in sources_of(part) if source is not there}
        found = {key: null(kind) for key, kind in self.types.items() if key[0] in aliases}
        marks = {(node.mark.alias, node.mark.name) for node in _nodes(part) if node.mark}
        return found | dict.fromkeys([*((alias, HERE) for alias in aliases), *marks], null(pa.bool_()))

    # ---------------------------------------------------------------------------------------- derived

    def _settled(self, terms: Iterable[Term]) -> list[Term]:
        """The terms with their partners counted."""
        return [found for term in terms if (found := self._settle(term)) is not None]

    def _settle(self, term: Term) -> Term | None:
        plain = replace(term, counts=())
        found = [(one, self._partners(plain, one)) for one in term.counts]
        if any(one.kind == "semi" and not pairs for one, pairs in found):
            return None
        found = [(one, pairs) for one, pairs in found if pairs or one.kind == "mark"]
        return self._groups(plain, found) if found else plain

    def _partners(self, term: Term, one: Count) -> list[Term]:
        """The term joined with each of its possible partners."""
        found = []
        for on, other in product(_alternatives(one.on), one.right):
            both = Term((*term.sources, *other.sources), (*term.conditions, *other.conditions), other.values)
            found += self._filtered([both], on)
        return found

    def _groups(self, term: Term, found: list[tuple[Count, list[Term]]]) -> Term:
        """Rows of a term by the numbers of their partners."""
        anchor, came = self._anchor(term, [pair for _, pairs in found for pair in pairs]), self._came(term, found)
        names = self._columns(term, [*came, *([] if anchor is None else [anchor[0]])])
        values = [self._value(term, key) for key in names.values()]
        unions = [
            self._counting(pair, names, values, {_PAIRS + str(place): 1}, len(found))
            for place, (_, pairs) in enumerate(found)
            for pair in pairs
        ]
        own = self._counting(term, names, values, {_OWN: 1}, len(found))
        about = " ".join(source.alias for source in term.sources)
        counted = self._derived(replace(own, unions=tuple(unions)), f"{about} and partners")
        keys = [Column(counted.alias, name) for name in names]
        items, having = [Item(key, key.name) for key in keys], []
        for place, (one, _) in enumerate(found):
            has_one = Call(">", (_sum(counted.alias, _PAIRS + str(place)), Literal(0)))
            if one.mark is not None:
                items.append(Item(has_one, one.mark.name))
            else:
                having.append(Condition(has_one if one.kind == "semi" else Call("not", (has_one,))))
        items.append(Item(_sum(counted.alias, _OWN), _OWN))
        groups = Draft((counted,), (), tuple(items), times=_OWN)
        groups = replace(groups, group_by=tuple(map(Condition, keys)), having=tuple(having))
        settled = (one.kind == "semi" or self._is_settled(one, at_once=bool(came)) for one, _ in found)
        groups = replace(groups, grows=all(settled))
        if anchor is not None:
            time = next(name for name, key in names.items() if key == anchor[0])
            groups = replace(groups, closes=Closes(time, anchor[1]))
        return self._read(
            self._derived(groups, f"{about} by partners"),
            names,
            term,
            [one.mark for one, _ in found if one.mark is not None],
        )

    def _is_settled(self, one: Count, *, at_once: bool) -> bool:
        """Whether rows have all their partners when they come; `at_once` is known of rows that meet what changes."""

        def is_met(source: Source) -> bool:
            return self.known.is_table(source) and (at_once or self.known.is_final(source))

        return all(is_met(source) for term in one.right for source in term.sources)

    def _came(self, term: Term, found: list[tuple[Count, list[Term]]]) -> list[Key]:
        """What tells rows of different batches apart, where they may meet different rows of a table that changes."""
        right = [source for one, _ in found for other in one.right for source in other.sources]
        if all(map(self.known.is_final, (*term.sources, *right))):
            return []
        own = [source.alias for source in term.sources if not self.known.is_table(source)]
        if streams := [source for source in right if not self.known.is_table(source)]:
            raise refuse_partners_that_come(streams[0].alias, streams[0].span)
        return [(alias, BATCH) for alias in own]

    def _anchor(self, term: Term, pairs: list[Term]) -> tuple[Key, int] | None:
        """An event time of the term, and after how long no more partners can come; None if rows come at once."""
        if not self.once:
            return None
        joins = [*pairs, *([term] if len(term.sources) > 1 else [])]
        drafts = [replace(self._flat(one, [Item(Literal(1), "one")]), crossed=True) for one in joins]
        found: dict[Key, int] = {}
        for source in term.sources:
            time = self.known.event_time(source)
            reaches = [] if time is None else [self.known.reach(draft, source.alias) for draft in drafts]
            if time is not None and reaches and None not in reaches:
                found[source.alias, time.column] = max(reach for reach in reaches if reach is not None)
        if not found:
            raise _Unbounded
        return min(found.items(), key=lambda one: one[1])

    def _counting(
        self, term: Term, names: Iterable[str], values: Iterable[Expr], numbers: Mapping[str, int], counters: int
    ) -> Draft:
        shown = [Item(value, name) for name, value in zip(names, values, strict=True)]
        counts = [_OWN, *(_PAIRS + str(place) for place in range(counters))]
        flat = self._flat(term, [*shown, *(Item(Literal(numbers.get(name, 0)), name) for name in counts)])
        return replace(flat, crossed=_OWN not in numbers)

    def _unite(self, terms: list[Term]) -> Term:
        """One term for several: a derived table that is their union."""
        same, varied = _constants(terms)
        read = (key for one in terms for key in self._columns(one).values() if key[0])
        names = _named(dict.fromkeys([*read, *(key for key in varied if key in self.needed)]))
        drafts = [self._flat(one, [Item(self._value(one, k), n) for n, k in names.items()]) for one in terms]
        if not drafts:
            drafts = [self._flat(self._nothing(), [Item(self._value(self._nothing(), k), n) for n, k in names.items()])]
        return self._read(
            self._derived(replace(drafts[0], unions=tuple(drafts[1:])), "rows"), names, Term((), values=same)
        )

    def _derived(self, draft: Draft, name: str) -> Source:
        alias = next(free for free in numbered(name) if free not in self.taken)
        self.taken.add(alias)
        return Source("", alias, derived=draft)

    def _columns(self, term: Term, more: Iterable[Key] = ()) -> dict[str, Key]:
        """New names of the columns that a grouping of this term must keep; one that is constant will do."""
        here = {source.alias for source in term.sources}
        mine = [k for k in self.needed if (columns(v) if (v := term.values.get(k)) is not None else k[0] in here)]
        return _named(dict.fromkeys([*mine, *more]))

    def _value(self, term: Term, key: Key) -> Expr:
        return term.put(Column(*key)) if key[0] else Literal(0)

    def _read(self, source: Source, names: Mapping[str, Key], term: Term, marks: Iterable[Column] = ()) -> Term:
        kept = {key: value for key, value in term.values.items() if not columns(value)}
        values: dict[Key, Expr] = {**kept, **{key: Column(source.alias, name) for name, key in names.items()}}
        values |= {(mark.alias, mark.name): Column(source.alias, mark.name) for mark in marks}
        return Term((source,), (), values)


def _constants(terms: list[Term]) -> tuple[dict[Key, Expr], list[Key]]:
    """What has the same constant value in all terms, and what is constant in each but not the same in all."""
    first, *rest = (one.values for one in terms) if terms else ({},)
    found = [key for key, value in first.items() if all(key in other for other in rest)]
    found = [key for key in found if not any(columns(one.values[key]) for one in terms)]
    same = {key: first[key] for key in found if all(other[key] == first[key] for other in rest)}
    return same, [key for key in found if key not in same]


def _alternatives(on: tuple[Condition, ...]) -> list[tuple[Condition, ...]]:
    """Conditions of which one must hold: each can be looked up on its own; to count a pair twice does no harm."""
    arms = [[one] if isinstance(one, InTime) else [replace(one, expr=arm) for arm in _arms(_expr(one))] for one in on]
    return list(product(*arms)) if prod(map(len, arms)) <= MANY else [on]


def _arms(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == "or":
        return tuple(arm for arg in expr.args for arm in _arms(arg))
    return (expr,)


def _named(keys: Iterable[Key]) -> dict[str, Key]:
    """Names of columns in a derived table; one that is constant will do."""
    listed = list(keys)
    names = unique_names(_CAME if name == BATCH else name for _, name in listed)
    return dict(zip(names, listed, strict=True)) or {"all": ("", "")}


def _both(left: Term, right: Term) -> Term:
    return Term(
        (*left.sources, *right.sources),
        (*left.conditions, *right.conditions),
        {**left.values, **right.values},
        (*left.counts, *right.counts),
    )


def _sum(alias: str, name: str) -> Expr:
    return Udf("sum", (Column(alias, name),))


def _here(source: Source) -> dict[Key, Expr]:
    return {(source.alias, HERE): Literal(True)}


def _put(term: Term, condition: Condition) -> Condition:
    found = term.put(_expr(condition))
    return replace(condition, expr=fold(found) if isinstance(condition, InTime) else found)


def _expr(written: Condition | Item) -> Expr:
    assert not isinstance(written.expr, str | Star)
    return written.expr


def needed(opened: Opened, part: Part) -> list[Key]:
    """All columns that are read: those of SELECT in its order, then the others in that of FROM and of their names."""
    asked: list[Condition] = [*opened.where, *opened.group_by, *opened.having, *conditions_of(part)]
    shown = chain(*(sorted(columns(_expr(item)), key=lambda c: c.field) for item in opened.items))
    marks = (node.mark.alias for node in _nodes(part) if node.mark)
    places = {alias: place for place, alias in enumerate((*(s.alias for s in sources_of(part)), *marks))}
    rest = chain(*(columns(_expr(one)) for one in asked))
    first, others = ([(c.alias, c.name) for c in some if c.alias in places] for some in (shown, rest))
    return list(dict.fromkeys((*first, *sorted(others, key=lambda key: (places[key[0]], key[1])))))


def _nodes(part: Part | None) -> Iterator[Node]:
    if isinstance(part, Node):
        yield from (*_nodes(part.left), *_nodes(part.right), part)
