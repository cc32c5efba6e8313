"""A query as written: names not yet looked up, types not yet known.

A table factor of FROM is the name of a stream, a table, a view or a WITH, or a derived table: a draft of its own.
UNION ALL is a draft that has further ones.
Inner joins are flat: parentheses only say which sources stand left and right of a USING.  Where one join is no inner
join, FROM is a tree.  A subquery inside an expression is a call with a constant that holds its draft.

SQL text and the builder both end in a Draft; `weft.query.resolve` makes it a Query.  Conditions and items may
still be SQL fragments (the builder takes them); `weft.sql` parses those before it resolves, so that this
layer needs no parser.  Texts and spans only serve error messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Literal as OneOf
from typing import TypeVar

from weft.errors import Span
from weft.expr.model import Call, Column, Expr, Literal, Udf, place_of, transform
from weft.expr.spelling import NOWHERE, Places, normal, order
from weft.query.grouping import Ranking, Versions

Within = int | OneOf["unbounded"] | None
"""A window in microseconds, "unbounded" for full history, or None where nothing is written."""


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, or `alias.*`, or either without some columns."""

    alias: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)
    without: tuple[Column, ...] = ()
    """Columns that it does not stand for: * EXCLUDE (column, ...)."""


EVERY = Call("every output", ())
"""A key of GROUP BY that stands for all outputs without aggregates: GROUP BY ALL."""


@dataclass(frozen=True, slots=True)
class Source:
    """One table factor of FROM."""

    stream: str
    """The name behind FROM; of a derived table its text."""
    alias: str
    within: Within = None
    span: Span | None = field(default=None, compare=False, repr=False)
    within_span: Span | None = field(default=None, compare=False, repr=False)
    derived: Draft | None = None
    """What a derived table says."""
    columns: tuple[str, ...] = ()
    """New names of its first columns."""
    as_of: Condition | None = None
    """FOR SYSTEM_TIME AS OF: the time whose version of a table is met."""
    history: int | None = None
    """If it is all versions of a table, each with its times: for how many microseconds rows wait that look them up."""
    lateral: bool = False
    """Whether a derived table may read columns of what stands left of it."""
    elements: Condition | None = None
    """UNNEST: the list whose elements are the rows."""
    ordinality: bool = False
    """Whether each element has its place beside it."""
    meant: tuple[tuple[str, str, str], ...] = ()
    """Other names of its columns, as (alias, column, its own column)."""


@dataclass(frozen=True, slots=True)
class Using:
    """JOIN ... USING (column, ...), or NATURAL JOIN."""

    columns: tuple[str, ...] | None
    """None means all that both sides have."""
    left: range
    """Which sources stand on the left."""
    right: range
    span: Span | None = field(default=None, compare=False, repr=False)
    alias: str = ""
    """A name under which the merged columns are seen."""
    places: bool = False
    """Whether all columns are compared by their places, NULL with NULL: EXCEPT and INTERSECT."""


JoinKind = OneOf["inner", "left", "right", "full", "semi", "anti"]


@dataclass(frozen=True, slots=True)
class Join:
    """Two parts of FROM joined."""

    kind: JoinKind
    left: Tree
    right: Tree
    on: tuple[Condition, ...] = ()
    using: Using | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    asof: bool = False
    """Whether a row of the left side meets only the nearest row of the right side."""


Tree = Join | int
"""A join, or the place of a source."""


def joins(tree: Tree) -> Iterator[Join]:
    """The joins of a tree, in the order in which their conditions are written."""
    if not isinstance(tree, int):
        yield from (*joins(tree.left), *joins(tree.right), tree)


def is_inner(tree: Tree) -> bool:
    """Whether all joins of a tree are inner joins, so that it can be made flat."""
    return all(join.kind == "inner" and not join.asof for join in joins(tree))


@dataclass(frozen=True, slots=True)
class Named:
    """One entry of WITH, or a view: a draft under a name."""

    name: str
    draft: Draft
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of ON, WHERE or HAVING or one key of GROUP BY, or a fragment of SQL that states one."""

    expr: Expr | str
    text: str = field(default="", compare=False, repr=False)
    """The text that the spans inside `expr` point into."""


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the SELECT list."""

    expr: Expr | Star | str
    name: str | None = None
    text: str = field(default="", compare=False, repr=False)
    source: str = ""
    """How the entry was written: its name if it has no better one."""


@dataclass(frozen=True, slots=True)
class Closes:
    """A row of a group comes once, when no more rows can come to the group."""

    column: str
    """An event time among the keys of the group, by its name in the SELECT list."""
    length: int = 0
    """The group is final once the watermark is later than the event time plus these microseconds."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rows get a number within their group."""

    by: tuple[str, ...]
    """Columns that name a group, by their names in the SELECT list."""
    ranking: Ranking
    """By columns of the SELECT list too."""
    name: str
    """The column of the number."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A query before names are resolved."""

    sources: tuple[Source, ...]
    conditions: tuple[Condition, ...]
    items: tuple[Item, ...]
    within: Within = None
    """Window of every source that states none."""
    text: str = field(default="", compare=False, repr=False)
    group_by: tuple[Condition, ...] = ()
    having: tuple[Condition, ...] = ()
    sets: tuple[tuple[int, ...], ...] = ()
    """GROUPING SETS: the places of the keys of each; empty if all keys are one set.  See `weft.query.sets`."""
    distinct: bool = False
    """Whether equal rows are one."""
    usings: tuple[Using, ...] = ()
    named: tuple[Named, ...] = ()
    """What WITH names; each may use the ones before it."""
    unions: tuple[Draft, ...] = ()
    """Further SELECTs, whose rows are added by UNION ALL."""
    by_name: bool = False
    """Whether the columns of further SELECTs are found by their names, not by their places."""
    times: str | None = None
    """A whole-number column of what is selected that says how often each row counts; it is not shown."""
    closes: Closes | None = None
    """None if rows of groups come at once, and are taken back when they change."""
    grows: bool = False
    """Whether `times` never falls, and so no row of a group is taken back, if no row of its inputs is."""
    versions: Versions | None = None
    """How rows follow each other, if they are to be versions."""
    crossed: bool = False
    """Whether parts that no condition connects are multiplied on purpose."""
    qualify: tuple[Condition, ...] = ()
    """Conditions on numbers of rows; see `weft.query.ranking`."""
    ranked: Ranked | None = None
    """How the rows are numbered, if they get one more column."""
    tree: Tree | None = None
    """FROM, where it has a join that is no inner join; `conditions` are then those of WHERE alone."""

    @property
    def place(self) -> Span | None:
        """Where its FROM stands, for errors about no part of it."""
        spans = [source.span for source in self.sources if source.span is not None]
        whole = all(span.text is spans[0].text and span.start >= spans[0].start for span in spans)
        if not spans:
            return next((place_of(item.expr) for item in self.items if isinstance(item.expr, Expr)), None)
        return spans[0].to(spans[-1]) if whole else spans[0]

    @property
    def sketch(self) -> str:
        """The same for all spellings of a draft, whatever its aliases are; another draft may have it, too."""
        return _sketch(self)


SUBQUERIES = ("exists", "in_query", "subquery")
"""Calls with a constant that holds a draft."""


def subqueries(written: object) -> Iterator[Call]:
    """The subqueries in what is written, but for those inside of others."""
    if isinstance(written, Call) and written.op in SUBQUERIES:
        yield written
    elif isinstance(written, Call | Udf):
        yield from (found for arg in written.args for found in subqueries(arg))


def has_subquery(written: object) -> bool:
    """Whether there is a subquery in what is written."""
    return any(True for _ in subqueries(written))


Written = TypeVar("Written", Condition, Item)


def spelled(one: Written, places: Places) -> Written:
    """What is written in its one spelling; a star or a fragment of SQL stays."""
    return one if isinstance(one.expr, str | Star) else replace(one, expr=normal(one.expr, places))


def in_order(conditions: Iterable[Condition], places: Places = NOWHERE) -> tuple[Condition, ...]:
    """Conditions in their spelling and in an order that does not depend on how they are written; each of them once."""
    listed = (spelled(one, places) for one in conditions)
    found = {order(one.expr, places): one for one in listed if not isinstance(one.expr, str)}
    return tuple(found[key] for key in sorted(found))


_WRITTEN = ("alias", "span", "within_span", "text", "source")
"""Fields that say how something is written."""


def _sketch(part: object) -> str:
    if isinstance(part, Column | Literal | Call | Udf):
        return order(normal(transform(part, _bare)))[2]
    if isinstance(part, tuple):
        found = [_sketch(one) for one in part]
        return _listed(sorted(found) if all(isinstance(one, Condition) for one in part) else found)
    if isinstance(part, Source) and part.derived is not None:
        part = replace(part, stream="")
    if is_dataclass(part):
        return _listed([_sketch(getattr(part, one.name)) for one in fields(part) if one.name not in _WRITTEN])
    return str(part).lower()


def _listed(texts: Iterable[str]) -> str:
    """Texts as one; quoted, they would double with each level."""
    return f"[{', '.join(texts)}]"


def _bare(node: Expr) -> Expr:
    return Column("", node.name.lower()) if isinstance(node, Column) else node
