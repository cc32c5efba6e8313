"""A query with outer joins, subqueries and numbers of rows as one of inner joins, UNION ALL and groups.

Rows that get numbers become a SELECT around those that do not (`ranking`); both are rewritten in turn.  For the rest
there are five steps: subqueries over groups are put around them (`regroup`), names are looked up (`qualify`),
subqueries become joins (`subqueries`), ASOF joins become joins with versions (`asof`), and joins that are no inner
joins become unions of inner joins and counts of partners (`outer`).  A query that has none of these is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.errors import QueryError, placed
from weft.query.asof import without_asof_joins
from weft.query.derived import branches
from weft.query.draft import Condition, Draft, Item, has_subquery
from weft.query.lateral import beside
from weft.query.opened import Known, Opened
from weft.query.outer import without_outer_joins
from weft.query.qualify import Reader
from weft.query.ranking import is_ranking, rank
from weft.query.regroup import regroup
from weft.query.sets import each_set
from weft.query.subqueries import unnest


def is_plain(draft: Draft) -> bool:
    """Whether a query has inner joins alone, and no subqueries in expressions."""
    return all(map(_is_plain, (draft, *draft.unions)))


def rewrite(draft: Draft, know: Callable[[Draft], Known]) -> Draft:
    """The same query, plain; `know` says what is known of the sources of a SELECT."""
    written = [one for part in branches(draft) for one in branches(_without_sets(part, know))]
    parts = [part if _is_plain(part) else _rewrite(part, know) for part in written]
    first, *rest = (one for part in parts for one in branches(part))
    return replace(first, unions=tuple(rest), by_name=draft.by_name, times=draft.times, closes=draft.closes)


def _without_sets(draft: Draft, know: Callable[[Draft], Known]) -> Draft:
    """The draft as one SELECT for each set of keys; if rows get numbers, those of all sets do, and that comes first."""
    if not draft.sets or is_ranking(draft):
        return draft
    with placed(draft.place):
        opened = Reader(know(draft), beside).open(draft)
        return each_set(opened.draft, opened)


def refuse_closed(draft: Draft) -> None:
    """Refuse windows that include their end beside outer joins and subqueries: there a window is a condition."""
    windows = [draft.within, *(source.within for source in draft.sources)]
    if not is_plain(draft) and any(isinstance(window, int) for window in windows):
        raise QueryError(
            "closed windows cannot stand beside outer joins and subqueries",
            detail="there a window is a condition of a join, and its end is outside.",
            hint="leave closed out, or write the window as a condition on both event times, with <=.",
            span=draft.place,
        )


def _is_plain(draft: Draft) -> bool:
    written: tuple[Condition | Item, ...] = (*draft.conditions, *draft.items, *draft.having, *draft.group_by)
    return (
        draft.tree is None
        and not any(source.lateral for source in draft.sources)
        and not draft.sets
        and not is_ranking(draft)
        and not any(has_subquery(one.expr) for one in written)
    )


def _rewrite(draft: Draft, know: Callable[[Draft], Known]) -> Draft:
    with placed(draft.place):
        known = know(draft)
        if is_ranking(draft):
            reader = Reader(known, beside)
            opened = reader.open(draft)
            return rank(draft, opened, reader.places, lambda rows: _over(opened, rows, reader))
        opened = Reader(known, beside).open(draft)
        draft = regroup(opened.draft, opened)
        reader = Reader(known, beside)
        return _joined(reader.open(draft), reader)


def _over(opened: Opened, rows: Draft, reader: Reader) -> Draft:
    """The SELECT of the rows that are numbered; what LATERAL shows has no name that could be looked up again."""
    if not any(source.lateral for source in rows.sources):
        return rows
    return _joined(replace(opened, items=rows.items, group_by=rows.group_by, draft=rows), reader)


def _joined(opened: Opened, reader: Reader) -> Draft:
    return without_outer_joins(without_asof_joins(unnest(reader, opened), reader), reader)
