"""ASOF joins as joins with versions.

    a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts

Of the rows of b with the same key, a row of a meets the last one that is not later.  So the rows of b become versions,
each with the times at which it is the one to be met (`weft.query.versions`), and the join is one like any other:

    a JOIN versions of b ON a.k = b.k AND a.ts >= b.#from AND a.ts <= b.#to

The same holds for LEFT, SEMI and ANTI.  Conditions on b alone choose the rows that have versions; conditions on what
stands left stay where they are.  A later row of b changes the times of its neighbour, so results change.

FOR SYSTEM_TIME AS OF now() is a plain join with a table.  With windows, and as of an event time, results come once:
rows of a wait (`weft.query.waiting`), and versions are a table that they look up when nothing can change them any more.

What must hold: each condition compares both sides by =, or is the one comparison of times, or is about one side.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, aliases, place_of, walk
from weft.expr.types import sql_name
from weft.expr.typing import add_types
from weft.query.aggregates import calls_aggregate
from weft.query.draft import Condition, Draft, Item, Source
from weft.query.grouping import FROM, TO, Comparison, Versions
from weft.query.opened import Known, Node, Opened, Part, sources_of
from weft.query.outer import needed
from weft.query.overcall import is_over
from weft.query.qualify import Reader
from weft.query.waiting import Nearness, let_wait

_KEY, _TIME = "#key", "#time"
_Compared = Comparison | OneOf["="]
_COMPARISONS: dict[str, _Compared] = {"=": "=", ">=": ">=", ">": ">", "<=": "<=", "<": "<"}
_FLIPPED: dict[_Compared, _Compared] = {"=": "=", ">=": "<=", ">": "<", "<=": ">=", "<": ">"}


def without_asof_joins(opened: Opened, reader: Reader) -> Opened:
    """The same query with joins with versions."""
    if not has_asof(opened.part):
        return opened
    part = _at_present(opened.part, reader.known)
    waits = is_final(part)
    part = _Rewriter(opened, reader, waits).part(part)
    return replace(opened, part=let_wait(opened, part, reader) if waits else part)


def has_asof(part: Part | None) -> bool:
    """Whether a tree has an ASOF join."""
    return isinstance(part, Node) and (part.asof or has_asof(part.left) or has_asof(part.right))


def is_final(part: Part) -> bool:
    """Whether results come once."""
    return any(source.as_of is not None or isinstance(source.within, int) for source in sources_of(part))


def _at_present(part: Part, known: Known) -> Part:
    """The tree in which FOR SYSTEM_TIME AS OF now() is what it means: a join with a table as it is when rows come."""
    if isinstance(part, Source):
        return part
    left, right = _at_present(part.left, known), None if part.right is None else _at_present(part.right, known)
    part = replace(part, left=left, right=right)
    if not isinstance(right, Source) or right.as_of is None:
        return part
    if not known.is_now(tuple(sources_of(left)), _expr(right.as_of)):
        return part
    if not known.is_table(right):
        detail = "rows of a stream join whenever they come, and have no present version."
        raise _refuse(right.as_of, f'"{right.stream}" is no table', _declared(right, ""), detail)
    return replace(part, right=replace(right, as_of=None), asof=False)


def _declared(table: Source, more: str) -> str:
    return f'declare it: s.table("{table.stream}", source, key=[...]{more}).'


@dataclass(frozen=True)
class _Rewriter:
    opened: Opened
    reader: Reader
    waits: bool
    """Whether versions are looked up when they are final."""

    def part(self, part: Part) -> Part:
        if isinstance(part, Source):
            return part
        left = self.part(part.left)
        right = None if part.right is None else self.part(part.right)
        if not part.asof:
            return replace(part, left=left, right=right)
        if isinstance(right, Source) and right.as_of is not None:
            return self._dated(replace(part, left=left), right, right.as_of)
        if not isinstance(right, Source):
            raise _refuse(part, "the right side of an ASOF JOIN is a join", "put it into (SELECT ...) AS name.")
        return self._join(replace(part, left=left), right)

    def _dated(self, node: Node, right: Source, time: Condition) -> Node:
        """FOR SYSTEM_TIME AS OF: a join with the versions of a table."""
        known, alias = self.reader.known, right.alias
        kind, mine = known.versions_by(right), self._type(sources_of(node.left), _expr(time))
        if kind is None:
            detail = "only a table with a key and an event time has versions; AS OF now() is the present one."
            hint = _declared(right, ', event_time="..."')
            raise _refuse(time, f'"{right.stream}" has no versions', hint, detail)
        if kind != mine:
            detail = f"one is a {sql_name(mine)}, the other a {sql_name(kind)}."
            raise _refuse(time, "the time and the event time of the table have different types", "cast one.", detail)
        made = replace(right, as_of=None, history=0)
        met = [Call(op, (_expr(time), Column(alias, bound))) for op, bound in ((">=", FROM), ("<=", TO))]
        self._add_types(made)
        return replace(node, right=made, on=(*node.on, *map(Condition, met)), asof=False)

    def _join(self, node: Node, right: Source) -> Node:
        sides = _Sides.of(node, right)
        sides.check()
        theirs, mine, comparison = sides.times[0]
        equal = [Call("=", (one, Column(right.alias, f"{_KEY}{at}"))) for at, (one, _) in enumerate(sides.keys)]
        met = [Call(op, (theirs, Column(right.alias, bound))) for op, bound in ((">=", FROM), ("<=", TO))]
        on = (*sides.left, *map(Condition, (*equal, *met)))
        draft = self._versions(node, sides)
        if self.waits:
            near = Nearness.of(self.reader.known, (node.left, theirs), (right, mine), comparison)
            on = (*on, *near.conditions(Column(right.alias, _TIME)))
            draft = near.settle(draft)
        made = Source("", right.alias, "unbounded", derived=draft)
        self._add_types(made)
        return replace(node, right=made, on=on, asof=False)

    def _add_types(self, source: Source) -> None:
        columns = self.reader.known.columns(source)
        self.reader.types |= {(source.alias, name): kind for name, kind in columns.items()}

    def _versions(self, node: Node, sides: _Sides) -> Draft:
        """The rows of the right side as versions: columns that are read elsewhere, keys and times."""
        (theirs, mine, comparison), alias = sides.times[0], sides.source.alias
        read = [name for owner, name in needed(self.opened, _without(self.opened.part, node)) if owner == alias]
        keys = {f"{_KEY}{at}": key for at, (_, key) in enumerate(sides.keys)} or {_KEY: Literal(0)}
        items = {**{name: Column(alias, name) for name in read}, **keys, _TIME: self._in_common(sides, mine, theirs)}
        listed = tuple(Item(expr, name) for name, expr in items.items())
        source = replace(sides.source, within="unbounded")
        draft = Draft((source,), tuple(sides.right), listed, text=self.opened.draft.text)
        return replace(draft, versions=Versions(tuple(keys), _TIME, comparison))

    def _in_common(self, sides: _Sides, time: Expr, other: Expr) -> Expr:
        """The times of versions, in the type in which both sides are compared."""
        mine, theirs = self._type([sides.source], time), self._type(sources_of(sides.node.left), other)
        both = add_types(Call(">=", (Column("a", "t", theirs, other.span), Column("b", "t", mine, time.span))))
        common = both.args[1].type if isinstance(both, Call) else None
        return time if common in (mine, None) else Call("cast", (time,), common, time.span)

    def _type(self, sources: Iterable[Source], expr: Expr) -> pa.DataType:
        draft = Draft(tuple(sources), (), (Item(expr, "t"),), text=self.opened.draft.text, crossed=True)
        return self.reader.known.columns(Source("", "t", derived=draft))["t"]


@dataclass(frozen=True)
class _Sides:
    """The conditions of an ASOF join by what they are about."""

    node: Node
    source: Source
    left: list[Condition] = field(default_factory=list)
    """About what stands left, or about nothing."""
    right: list[Condition] = field(default_factory=list)
    keys: list[tuple[Expr, Expr]] = field(default_factory=list)
    """(Left, right) of what must be equal."""
    times: list[tuple[Expr, Expr, Comparison]] = field(default_factory=list)
    """(Left, right, how the left one is compared)."""
    others: list[Condition] = field(default_factory=list)

    @classmethod
    def of(cls, node: Node, source: Source) -> _Sides:
        """The conditions of a join with a source on its right."""
        sides = cls(node, source)
        for condition in node.on:
            if calls_aggregate(expr := _expr(condition)) or any(map(is_over, walk(expr))):
                hint = "work it out in a derived table, and join that: ASOF JOIN (SELECT ...) AS name."
                raise _refuse(condition, "what is found among many rows cannot stand in ON of an ASOF JOIN", hint)
            sides._add(condition)
        return sides

    def check(self) -> None:
        """Refuse what is no ASOF join."""
        if self.others:
            detail = "rows are compared by =, and by one of >=, >, <= and <; other conditions choose rows of one side."
            raise _refuse(self.others[0], "this condition cannot stand in an ASOF JOIN", "put it into WHERE.", detail)
        if len(self.times) != 1:
            what = "has more than one comparison of times" if self.times else "compares no times"
            form = f"write one of >=, >, <= and <, such as a.ts >= {self.source.alias}.ts."
            raise _refuse(self.node, f"an ASOF JOIN {what}", form)

    def _add(self, condition: Condition) -> None:
        expr, mine = _expr(condition), self.source.alias
        if mine not in aliases(expr):
            self.left.append(condition)
        elif aliases(expr) == {mine}:
            self.right.append(condition)
        elif (pair := self._pair(expr)) is None:
            self.others.append(condition)
        elif pair[2] == "=":
            self.keys.append(pair[:2])
        else:
            self.times.append((*pair[:2], pair[2]))

    def _pair(self, expr: Expr) -> tuple[Expr, Expr, _Compared] | None:
        """Both sides of a comparison, the left one first; None if it is none, or compares something else."""
        if not isinstance(expr, Call) or expr.op not in _COMPARISONS:
            return None
        (one, other), op, mine = expr.args, _COMPARISONS[expr.op], self.source.alias
        if mine in aliases(one):
            one, other, op = other, one, _FLIPPED[op]
        if mine in aliases(one) or aliases(other) != {mine}:
            return None
        return one, other, op


def _without(part: Part, node: Node) -> Part:
    """The tree without the conditions of one join."""
    if isinstance(part, Source):
        return part
    right = None if part.right is None else _without(part.right, node)
    return replace(part, left=_without(part.left, node), right=right, on=() if part.on is node.on else part.on)


def _refuse(what: Node | Condition, message: str, hint: str, detail: str | None = None) -> QueryError:
    """The error that points at a condition, or at that of a join which is written first."""
    places = [place_of(_expr(one)) for one in ((what,) if isinstance(what, Condition) else what.on)]
    first = min((place for place in places if place is not None), key=lambda place: place.start, default=None)
    return QueryError(message, detail=detail, hint=hint, span=first)


def _expr(condition: Condition) -> Expr:
    assert not isinstance(condition.expr, str)
    return condition.expr
