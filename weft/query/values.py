"""The different values of the columns that something reads of sources around it.

What must hold: a source that an outer join pads may also have NULL in all its columns.  Sources have the aliases under
which they are written, so that names mean the same as before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace

from weft.expr.model import Call, Column, Literal, Udf
from weft.query.draft import Condition, Draft, Item, Source, Star
from weft.query.scope import Scope, Shown


@dataclass(frozen=True, slots=True)
class Read:
    """A column that is read."""

    shown: Shown
    source: Source
    is_padded: bool

    @property
    def owner(self) -> str:
        """The alias of its source, as it is written."""
        return self.shown.alias


def is_timed(source: Source) -> bool:
    """Whether rows of a source count only for a time, or as of one."""
    return isinstance(source.within, int) or source.as_of is not None


def seen(scope: Scope | None) -> Iterator[Shown]:
    """All columns that a subquery sees of the queries around it."""
    if scope is not None:
        yield from (*scope.columns, *scope.merged, *seen(scope.around))


def names_in(part: object) -> Iterator[str]:
    """All names of columns in what is written."""
    if isinstance(part, Column):
        yield from (part.name.lower(), part.alias.lower())
    elif isinstance(part, Literal):
        yield from names_in(part.value) if isinstance(part.value, Draft) else ()
    elif isinstance(part, Call | Udf):
        yield from (name for one in part.args for name in names_in(one))
    elif isinstance(part, tuple):
        yield from (name for one in part for name in names_in(one))
    elif is_dataclass(part):
        yield from (name for one in fields(part) for name in names_in(getattr(part, one.name)))


def values_of(read: Collection[Read], taken: Collection[str] = ()) -> tuple[list[Source], tuple[Column, ...]]:
    """The different values of each source, under its alias unless that is taken; and all columns of them."""
    called = {one.owner: f"#{one.owner}" if one.owner.lower() in taken else one.owner for one in read}
    sources = [
        Source("the rows", alias, derived=_different([one for one in read if one.owner == owner]))
        for owner, alias in called.items()
    ]
    return sources, tuple(Column(called[one.owner], one.shown.name) for one in read)


def _different(read: list[Read]) -> Draft:
    """The different values of some columns of one source."""
    first = read[0]
    items = tuple(Item(one.shown.value, one.shown.name) for one in read)
    found = Draft((first.source,), (), items, distinct=True)
    if not first.is_padded:
        return found
    always = (Condition(Literal(True)),)
    absent = Draft((first.source,), (), tuple(Item(Literal(None), item.name) for item in items), having=always)
    both = Source("the rows", first.owner, derived=replace(found, unions=(absent,)))
    return Draft((both,), (), (Item(Star()),), distinct=True)
