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
from itertools import chain, count, product
from math import prod

from weft.expr.model import Call, Column, Expr, Literal, Udf, columns, transform
from weft.query.draft import Closes, Condition, Draft, Item, Source, Star
from weft.query.nulls import fold, is_always_true, is_never_true, null, rejects
from weft.query.qualify import Kind, Node, Opened, Part, Reader, sources_of

Key = tuple[str, str]
"""An alias and one of its columns."""
MANY = 4
"""A union of more terms than this becomes a derived table before it is joined again."""
_OWN, _PAIRS = "#own", "#pairs"


@dataclass(frozen=True, slots=True)
class Term:
    """A flat inner join, and what columns of the tree are in it where they are not themselves."""

    sources: tuple[Source, ...]
    conditions: tuple[Condition, ...] = ()
    values: Mapping[Key, Expr] = field(default_factory=dict)

    def put(self, expr: Expr) -> Expr:
        """An expression over the tree, in this term."""

        def change(node: Expr) -> Expr:
            return self.values.get((node.alias, node.name), node) if isinstance(node, Column) else node

        return transform(expr, change)


def without_outer_joins(opened: Opened, reader: Reader) -> Draft:
    """The same query as a union of flat joins.

    Rows that depend on the number of their partners come once, when no more partners can come, if that holds for all
    such rows of the query.  Otherwise all of them come at once, and are taken back.
    """
    rewriter = _Rewriter(opened, reader)
    draft = rewriter.draft()
    return draft if all(rewriter.bounded) else _Rewriter(opened, reader, once=False).draft()


class _Rewriter:
    """Rewrites one SELECT."""

    def __init__(self, opened: Opened, reader: Reader, *, once: bool = True) -> None:
        self.opened, self.types, self.base, self.known = opened, reader.types, opened.draft, reader.known
        self.once, self.bounded = once, list[bool]()
        self.names = (f"#{number}" for number in count(1))
        self.part = simplify(opened.part, [_expr(condition) for condition in opened.where])
        self.needed = _needed(opened, self.part)
        """What is read anywhere: columns that must survive a grouping."""

    def draft(self) -> Draft:
        """The whole query."""
        opened = self.opened
        terms = self._filtered(self._terms(self.part), opened.where)
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
        return Draft(term.sources, term.conditions, tuple(items), self.base.within, self.base.text)

    def _nothing(self) -> Term:
        """A term without rows, where no row can pass."""
        sources = tuple(sources_of(self.part))
        return Term(sources[:1], (Condition(Literal(False)),), self._absent(sources[1:]))

    # ------------------------------------------------------------------------------------------ terms

    def _terms(self, part: Part) -> list[Term]:
        if isinstance(part, Source):
            return [Term((part,))]
        if part.right is None:
            return self._filtered(self._terms(part.left), part.on)
        left, right = self._few(self._terms(part.left)), self._few(self._terms(part.right))
        if part.kind == "inner":
            return self._pairs(left, right, part.on)
        if part.kind in ("semi", "anti", "mark"):
            return [term for one in left if (term := self._counted(one, right, part)) is not None]
        padded = [self._padded(one, right, part, part.right) for one in left]
        if part.kind == "full":
            padded += [self._padded(one, left, part, part.left) for one in right]
        return [*self._pairs(left, right, part.on), *(term for term in padded if term is not None)]

    def _few(self, terms: list[Term]) -> list[Term]:
        return terms if len(terms) <= MANY // 2 else [self._unite(terms)]

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

    def _padded(self, term: Term, right: list[Term], join: Node, absent: Part | None) -> Term | None:
        found = self._counted(term, right, replace(join, kind="anti"))
        return found and replace(found, values={**found.values, **self._absent(sources_of(absent))})

    def _absent(self, sources: Iterable[Source]) -> dict[Key, Expr]:
        aliases = {source.alias for source in sources}
        return {key: null(kind) for key, kind in self.types.items() if key[0] in aliases}

    # ---------------------------------------------------------------------------------------- derived

    def _counted(self, term: Term, right: list[Term], join: Node) -> Term | None:
        """Rows of a term by the number of their partners."""
        pairs = [pair for on in _alternatives(join.on) for pair in self._pairs([term], right, on)]
        if not pairs and join.kind != "mark":
            return term if join.kind == "anti" else None
        anchor = self._anchor(term, pairs)
        names = self._columns(term, None if anchor is None else anchor[0])
        own = self._counting(term, names, 1, 0)
        counted = self._derived(replace(own, unions=tuple(self._counting(pair, names, 0, 1) for pair in pairs)))
        found = Call(">", (_sum(counted.alias, _PAIRS), Literal(0)))
        keys = [Column(counted.alias, name) for name in names]
        items = [Item(key, key.name) for key in keys]
        items += [Item(_sum(counted.alias, _OWN), _OWN), *([] if join.mark is None else [Item(found, join.mark.name)])]
        having = () if join.mark else (Condition(found if join.kind == "semi" else Call("not", (found,))),)
        groups = Draft((counted,), (), tuple(items), group_by=tuple(map(Condition, keys)), having=having, times=_OWN)
        if anchor is not None:
            time = next(name for name, key in names.items() if key == anchor[0])
            groups = replace(groups, closes=Closes(time, anchor[1]))
        return self._read(self._derived(groups), names, term, join.mark)

    def _anchor(self, term: Term, pairs: list[Term]) -> tuple[Key, int] | None:
        """An event time of the term, and after how long no more partners can come; None if they always can."""
        if not self.once:
            return None
        joins = [*pairs, *([term] if len(term.sources) > 1 else [])]
        drafts = [replace(self._flat(one, [Item(Literal(1), "one")]), crossed=True) for one in joins]
        found: dict[Key, int] = {}
        for source in term.sources:
            time = self.known.event_time(source)
            reaches = [] if time is None else [self.known.reach(draft, source.alias) for draft in drafts]
            if time is not None and reaches and None not in reaches:
                found[source.alias, time] = max(reach for reach in reaches if reach is not None)
        self.bounded.append(bool(found))
        return min(found.items(), key=lambda one: one[1]) if found else None

    def _counting(self, term: Term, names: Mapping[str, Key], own: int, pairs: int) -> Draft:
        shown = [Item(self._value(term, key), name) for name, key in names.items()]
        flat = self._flat(term, [*shown, Item(Literal(own), _OWN), Item(Literal(pairs), _PAIRS)])
        return replace(flat, crossed=pairs > 0)

    def _unite(self, terms: list[Term]) -> Term:
        """One term for several: a derived table that is their union."""
        keys = {key: name for one in terms for name, key in self._columns(one).items() if key[0]}
        names = {f"{place}": key for place, key in enumerate(keys)} or {"0": ("", "")}
        drafts = [self._flat(one, [Item(self._value(one, k), n) for n, k in names.items()]) for one in terms]
        return self._read(self._derived(replace(drafts[0], unions=tuple(drafts[1:]))), names, Term(()))

    def _derived(self, draft: Draft) -> Source:
        return Source("", next(self.names), derived=draft)

    def _columns(self, term: Term, time: Key | None = None) -> dict[str, Key]:
        """New names of the columns that a grouping of this term must keep; one that is constant will do."""
        here = {source.alias for source in term.sources}
        mine = [k for k in self.needed if (columns(v) if (v := term.values.get(k)) is not None else k[0] in here)]
        mine += [] if time is None or time in mine else [time]
        return {f"{place}": key for place, key in enumerate(mine)} or {"0": ("", "")}

    def _value(self, term: Term, key: Key) -> Expr:
        return term.put(Column(*key)) if key[0] else Literal(0)

    def _read(self, source: Source, names: Mapping[str, Key], term: Term, mark: Column | None = None) -> Term:
        kept = {key: value for key, value in term.values.items() if not columns(value)}
        values: dict[Key, Expr] = {**kept, **{key: Column(source.alias, name) for name, key in names.items()}}
        if mark is not None:
            values[mark.alias, mark.name] = Column(source.alias, mark.name)
        return Term((source,), (), values)


def _alternatives(on: tuple[Condition, ...]) -> list[tuple[Condition, ...]]:
    """Conditions of which one must hold: each can be looked up on its own; to count a pair twice does no harm."""
    arms = [[replace(one, expr=arm) for arm in _arms(_expr(one))] for one in on]
    return list(product(*arms)) if prod(map(len, arms)) <= MANY else [on]


def _arms(expr: Expr) -> tuple[Expr, ...]:
    if isinstance(expr, Call) and expr.op == "or":
        return tuple(arm for arg in expr.args for arm in _arms(arg))
    return (expr,)


def _both(left: Term, right: Term) -> Term:
    return Term((*left.sources, *right.sources), (*left.conditions, *right.conditions), {**left.values, **right.values})


def _sum(alias: str, name: str) -> Expr:
    return Udf("sum", (Column(alias, name),))


def _put(term: Term, condition: Condition) -> Condition:
    return replace(condition, expr=term.put(_expr(condition)))


def _expr(written: Condition | Item) -> Expr:
    assert not isinstance(written.expr, str | Star)
    return written.expr


def _needed(opened: Opened, part: Part) -> list[Key]:
    """All columns that are read, in the order of their first use."""
    written: list[Condition | Item] = [*opened.items, *opened.where, *opened.group_by, *opened.having]
    on = [condition for node in _nodes(part) for condition in node.on]
    read = chain(*(sorted(columns(_expr(one)), key=lambda c: c.field) for one in (*written, *on)))
    aliases = {source.alias for source in sources_of(part)} | {node.mark.alias for node in _nodes(part) if node.mark}
    return list(dict.fromkeys((column.alias, column.name) for column in read if column.alias in aliases))


def _nodes(part: Part | None) -> Iterator[Node]:
    if isinstance(part, Node):
        yield from (*_nodes(part.left), *_nodes(part.right), part)


# ----------------------------------------------------------------------------------------- simplifying


def simplify(part: Part, above: list[Expr]) -> Part:
    """The tree with outer joins made inner ones where a condition above rejects their padded rows."""
    if isinstance(part, Source):
        return part
    on = [_expr(condition) for condition in part.on]
    if part.right is None:
        return replace(part, left=simplify(part.left, [*above, *on]))
    kind, left, right = _kind(part, part.left, part.right, above)
    for_left = {"inner": [*above, *on], "full": []}.get(kind, above)
    for_right = {"inner": [*above, *on], "full": []}.get(kind, on)
    return replace(part, kind=kind, left=simplify(left, for_left), right=simplify(right, for_right))


def _kind(join: Node, left: Part, right: Part, above: list[Expr]) -> tuple[Kind, Part, Part]:
    """The kind of a join and its sides; a FULL JOIN whose padded right side is rejected is a RIGHT JOIN."""
    if join.kind not in ("left", "full"):
        return join.kind, left, right
    keeps_left, keeps_right = not _rejects(above, right), join.kind == "full" and not _rejects(above, left)
    if keeps_right:
        return ("full", left, right) if keeps_left else ("left", right, left)
    return "left" if keeps_left else "inner", left, right


def _rejects(above: list[Expr], part: Part) -> bool:
    """Whether rows in which this part is padded are rejected."""
    aliases = {source.alias for source in sources_of(part)}
    return rejects(above, lambda column: column.alias in aliases)
