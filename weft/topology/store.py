"""Stores: which rows are kept, where, for how long, and by what they are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal as OneOf

from weft.expr.model import Expr, text_of
from weft.topology.clock import NEVER_LATE
from weft.topology.label import label_since
from weft.topology.spread import Spread


@dataclass(frozen=True, slots=True)
class Key:
    """What an index orders rows by; expressions over the store's own columns."""

    equal: tuple[Expr, ...] = ()
    range: Expr | None = None
    also: tuple[Expr, ...] = ()
    """Further dimensions, beside `range`."""

    @property
    def ranges(self) -> tuple[Expr, ...]:
        """All range dimensions; a bound says which of them it limits."""
        return () if self.range is None else (self.range, *self.also)

    @property
    def name(self) -> str:
        """What the index is called in a segment: two stores can use one segment if it has what both ask for."""
        return _key_name(self)


@lru_cache(maxsize=4096)
def _key_name(key: Key) -> str:
    also = tuple(map(text_of, key.also))
    return repr(([*map(text_of, key.equal)], key.range and text_of(key.range), *also))


@dataclass(frozen=True, slots=True)
class Store:
    """The kept rows of one stream after a selection, or of the join of some relations.

    A *counted* store keeps no two rows with equal columns in one segment: they are one row, whose weight and measures
    are the sums of theirs.  A segment has the sums of its own batches; what a group is worth is the sum over all.
    """

    id: str
    stream: str
    """Empty for an intermediate result."""
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    placement: tuple[Expr, ...]
    """Rows live on the worker that owns these values; empty means anywhere, so probes go everywhere."""
    indexes: tuple[Key, ...]
    expiry: tuple[tuple[str, int], ...]
    """(Clock, retention): a row may go once the watermark of each clock is later than its time plus the retention of
    that clock; empty means never."""
    reason: str
    """Why rows are kept that long, for people."""
    users: tuple[str, ...]
    """"query.alias" of all users that share the store."""
    tasks: int = 1
    """On how many workers, from the first on, rows lie."""
    members: tuple[str, ...] = ()
    """Labels of the members of an intermediate result, by position."""
    ends: tuple[tuple[tuple[str, int], ...], ...] = ()
    """For each kind of user (member, its retention): a user needs an intermediate row until the first of these goes.
    The row goes when no user needs it; its `#t` is computed to match."""
    spread: Spread | None = None
    """Where copies of a stream's rows lie, instead of a placement."""
    content: str = ""
    """Digest of all that decides which rows it holds and where: everything but its columns and indexes."""
    since: int = 0
    """The first batch whose rows it holds; other than 0 for queries that join only what came after they were added."""
    clocks: tuple[str, ...] = (NEVER_LATE,)
    """Clocks of all users, sorted.  A row that is late for all of them is not kept; late for some, it is marked."""
    join: str = ""
    """Digest of what decides which rows an intermediate store holds, wherever they lie; empty if there are copies."""
    counted: OneOf["", "join", "groups"] = ""
    """Empty if rows are kept one by one.  Else equal rows are one: those of a join, or the groups of a query."""
    measures: tuple[str, ...] = ()
    """Hidden columns that rows of a counted join have beside their weight."""
    ended_by: tuple[str, ...] = ()
    """Columns that name a subscription: a row that is marked as removed ends all earlier ones with these values."""

    @property
    def is_fed_by_rows(self) -> bool:
        """Whether its rows can be sent to it one by one: those of a stream, or parts of groups."""
        return not self.members or self.counted == "groups"

    @property
    def label(self) -> str:
        """What a store of a stream holds, before selections."""
        return label_since(self.stream, self.since)

    @property
    def retention(self) -> int | None:
        """How long past its time a row is kept at most, by the clock that keeps it longest; None is for ever."""
        return max((kept for _, kept in self.expiry), default=None)
