"""Rows that wait until nothing can change what they meet.

    a ASOF JOIN b WITHIN ... ON a.k = b.k AND a.ts >= b.ts          a JOIN t FOR SYSTEM_TIME AS OF a.ts ON ...

A row of a is final once the watermark is later than its event time: no row of b or t with an earlier time can come any
more.  So rows of a become groups that close then (`weft.query.draft.Closes`), as rows of an outer join do, and versions
become a table that is looked up.  For <= and < the partner is later; there a row waits as long as its window is.  All
versions that it looks up are kept for so long, also those of other joins.

Several streams may wait, each by its own event time; one that no version is compared with joins when it comes.  A
joined row looks versions up when the last of its rows is there.  That may be at any time, so all versions are kept, and
windows between the streams become conditions.

What must hold: a row looks versions up when they are final, and never before; whenever it does, it meets the same one.
It compares its own event time with those of versions, in the same unit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, Udf, columns, place_of
from weft.query.draft import Closes, Condition, Draft, Item, Source
from weft.query.grouping import EVER, FROM, TO, Comparison
from weft.query.opened import EventTime, Known, Node, Opened, Part, sources_of
from weft.query.outer import needed
from weft.query.qualify import Reader
from weft.query.withins import HERE, spell_windows

_OWN = "#own"


@dataclass(frozen=True, slots=True)
class Nearness:
    """How near in time a row and the version that it meets must be."""

    time: Column
    """The event time of the stream that waits."""
    step: int | None
    comparison: Comparison
    window: int | None
    """By how much the version may be earlier, or later where it is later; exclusive, in microseconds."""

    @staticmethod
    def of(known: Known, left: tuple[Part, Expr], right: tuple[Source, Expr], comparison: Comparison) -> Nearness:
        """What windows say about an ASOF join."""
        (part, theirs), (other, mine) = left, right
        source = next((s for s in sources_of(part) if isinstance(theirs, Column) and s.alias == theirs.alias), None)
        one = None if source is None else known.event_time(source)
        two = known.event_time(other)
        if source is None or not _is_time(theirs, source, one) or not _is_time(mine, other, two):
            raise QueryError(
                "an ASOF JOIN within a window compares other columns than event times",
                detail="only the watermark says when no nearer row can come, and it is about event times.",
                hint="compare the event times of both streams, or leave WITHIN out: then results change.",
                span=other.within_span or other.span,
            )
        assert one is not None
        assert two is not None
        if one.step != two.step:
            hint = "declare the same unit."
            raise QueryError("the event times of an ASOF JOIN have different units", hint=hint, span=other.span)
        assert isinstance(theirs, Column)
        later = comparison in ("<=", "<")
        within = source.within if later else other.within
        if later and not isinstance(within, int):
            raise QueryError(
                f'nothing says how long a row of "{source.alias}" waits',
                detail="its partner is later, and may always come.",
                hint=f"write WITHIN after {source.alias}, or leave WITHIN out: then results change.",
                span=source.span,
            )
        return Nearness(theirs, one.step, comparison, within if isinstance(within, int) else None)

    def conditions(self, time: Column) -> Iterator[Condition]:
        """That a version with this time is near enough."""
        if self.window is None:
            return
        length = Literal(dt.timedelta(microseconds=self.window) if self.step is None else -(-self.window // self.step))
        old, new = (self.time, time) if self.comparison in ("<=", "<") else (time, self.time)
        yield Condition(Call("<", (new, Call("+", (old, length)))))

    def settle(self, draft: Draft) -> Draft:
        """The versions as a table, which forgets what no row can meet."""
        assert draft.versions is not None
        until = self.window if self.window is not None and self.comparison in ("<=", "<") else 0
        return replace(draft, versions=replace(draft.versions, until=until, step=self.step or 1))


def let_wait(opened: Opened, part: Part, reader: Reader) -> Part:
    """The tree in which streams wait that are compared with versions."""
    waiting = _waiting(part, reader.known)
    later = [d.versions.until for s in sources_of(part) if (d := s.derived) is not None and d.versions is not None]
    length = max((until for until in later if until is not None), default=0)
    is_alone = len(_streams(part, reader.known)) == 1
    part = part if is_alone else spell_windows(part, reader.known)
    read = [key for key in needed(opened, part) if key[1] != HERE]
    made = {source.alias: _waits(source, time, read, length) for source, time in waiting}
    return _replaced(part, made, length if is_alone else EVER)


def _waits(source: Source, time: str, read: Sequence[tuple[str, str]], length: int) -> Source:
    """The rows of a stream, each of them once the watermark has passed its time and a length."""
    names = list(dict.fromkeys([*(name for alias, name in read if alias == source.alias), time]))
    items = [Item(Column(source.alias, name), name) for name in names]
    rows = Draft((replace(source, within="unbounded"),), (), (*items, Item(Udf("count", ()), _OWN)), times=_OWN)
    keys = tuple(Condition(Column(source.alias, name)) for name in names)
    return Source("", source.alias, "unbounded", derived=replace(rows, group_by=keys, closes=Closes(time, length)))


def _waiting(part: Part, known: Known) -> list[tuple[Source, str]]:
    """The streams that wait, each with its event time."""
    streams = _streams(part, known)
    times = {source.alias: known.event_time(source) for source in streams}
    compared = dict.fromkeys(_compared(part))
    for one in compared:
        _require_own_time(one, streams, times)
    asking = {one.alias for one in compared if isinstance(one, Column)}
    return [(s, time.column) for s in streams if s.alias in asking and (time := times[s.alias]) is not None]


def _streams(part: Part, known: Known) -> list[Source]:
    return [source for source in sources_of(part) if not known.is_table(source)]


def _compared(part: Part) -> Iterator[Expr]:
    """What is compared with the times of versions."""
    for node in _nodes(part):
        for condition in node.on:
            compared = condition.expr
            if not isinstance(compared, Call) or not isinstance(node.right, Source):
                continue
            if any(isinstance(arg, Column) and arg.name in (FROM, TO) for arg in compared.args):
                yield compared.args[0]


def _require_own_time(one: Expr, streams: Sequence[Source], times: Mapping[str, EventTime | None]) -> None:
    """What versions are compared with is the event time of a stream, which waits for them."""
    mine = {column.alias for column in columns(one)} & {*times} or {*times}
    own = [f"{s.alias}.{time.column}" for s in streams if s.alias in mine and (time := times[s.alias]) is not None]
    if not own:
        named = ", ".join(f'"{alias}"' for alias in times if alias in mine)
        raise QueryError(
            "a stream with an event time waits for versions that are final",
            detail=f"{named} has no event time." if named else "here are only tables.",
            hint="declare event_time; what a derived table gives has none: write AS OF inside of it.",
            span=place_of(one),
        )
    if not isinstance(one, Column) or f"{one.alias}.{one.name}" not in own:
        raise QueryError(
            f"versions are met as of another time than {own[0]}",
            detail="a row waits until the watermark has passed its event time.",
            hint=f"write FOR SYSTEM_TIME AS OF {own[0]}.",
            span=place_of(one),
        )


def _nodes(part: Part | None) -> Iterator[Node]:
    if isinstance(part, Node):
        yield from (*_nodes(part.left), *_nodes(part.right), part)


def _replaced(part: Part, made: Mapping[str, Source], length: int) -> Part:
    """The tree with the streams that wait, and with versions that are kept for as long."""
    if isinstance(part, Source):
        return made.get(part.alias) or _kept(part, length)
    right = None if part.right is None else _replaced(part.right, made, length)
    return replace(part, left=_replaced(part.left, made, length), right=right)


def _kept(source: Source, length: int) -> Source:
    """A table or versions, without a window; versions forget only what no row that waits can meet."""
    source = replace(source, within="unbounded" if source.within else None)
    draft = source.derived
    if draft is not None and draft.versions is not None:
        return replace(source, derived=replace(draft, versions=replace(draft.versions, until=length)))
    return source if source.history is None else replace(source, history=length)


def _is_time(expr: Expr, source: Source, time: EventTime | None) -> bool:
    return time is not None and expr == Column(source.alias, time.column)
