"""From a draft to a query: names looked up, types found, everything checked.

A plain draft becomes one flat join (`inline`), and its clauses are resolved over it (`clauses`).  Any other one is
rewritten into plain ones first (`rewrite`), or becomes a derived stream.  After this step a query is known to be valid.
Errors point at the SQL text where there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from weft.errors import QueryError, placed
from weft.expr.spelling import normal, order
from weft.query.calls import FunctionSignature
from weft.query.closing import has_one_watermark, timed_streams
from weft.query.connectivity import adds_single_rows, require_connected
from weft.query.derived import Derived, all_rows, branches, derive, different_rows
from weft.query.draft import Draft, Within
from weft.query.groups import group, shows_groups, spelled
from weft.query.inline import Inliner, output
from weft.query.model import Query, Stream
from weft.query.moment import fix_now
from weft.query.onerow import with_rows
from weft.query.ranking import ranked
from weft.query.rewrite import is_plain, rewrite
from weft.query.settled import settled
from weft.query.sources import Sources
from weft.query.tables import refuse_changes_beside_tables
from weft.query.versions import keep_versions
from weft.query.views import Views, add_views


def resolve(
    draft: Draft,
    streams: Mapping[str, Stream],
    functions: Mapping[str, FunctionSignature],
    cross_product: bool = False,
    views: Views = MappingProxyType({}),
    derived: Iterable[Derived] = (),
) -> Query:
    """The query that `draft` states over `streams`, `views` and derived streams, which may use those before them."""
    views = add_views(views, (one.named for one in derived))
    filled = with_rows(draft, streams, views)
    if filled is None:
        raise _reads_nothing(draft)
    draft = filled
    resolver = _Resolver(streams, functions, cross_product)
    with placed(draft.place):
        draft = resolver.plain(draft, views)
        whole = all_rows(draft, draft.text) if draft.unions else draft
        query = resolver.query(whole, views)
        if has_one_watermark(query):
            query = _Resolver(streams, functions, cross_product, timed_streams(query)).query(whole, views)
        return query


@dataclass(frozen=True)
class _Resolver:
    """What drafts are resolved with."""

    streams: Mapping[str, Stream]
    functions: Mapping[str, FunctionSignature]
    cross_product: bool
    late_by: tuple[tuple[str, int], ...] = ()
    known: dict[tuple[int, int, Within], tuple[Draft, Views, Stream]] = field(default_factory=dict)
    """Derived streams by the draft they are made of: one that is read at several places is made once."""
    rewritten: dict[tuple[int, int, Within], tuple[Draft, Views, Draft]] = field(default_factory=dict)
    """Drafts without outer joins and subqueries, by what they are written as."""

    def query(self, draft: Draft, views: Views, default: Within = None, *, united: bool = False) -> Query:
        """One SELECT; where it is united with others, its columns get types from them."""
        with placed(draft.place):
            return self._query(draft, views, default, united=united)

    def _query(self, draft: Draft, views: Views, default: Within, *, united: bool) -> Query:
        flat = Inliner(draft, self).flatten(draft, views, default=default)
        if not flat.relations:
            raise _reads_nothing(draft)
        places = {relation.alias: place for place, relation in enumerate(flat.relations)}
        entries = spelled(flat.entries, places)
        predicates = tuple(dict.fromkeys(normal(one, places) for one in flat.predicates))
        crossed = self.cross_product or draft.crossed
        query = Query(flat.relations, predicates, (), crossed, late_by=self.late_by)
        query = replace(query, cross_product=crossed or adds_single_rows(query))
        if draft.ranked is not None:
            query = ranked(query, entries, draft.ranked)
        elif draft.versions is not None:
            query = keep_versions(query, tuple(map(output, entries)), draft.versions)
        elif flat.is_grouped:
            found = (key for condition in draft.group_by for key in flat.clauses.keys(condition, entries))
            keys = spelled(found, places)
            asked = spelled((flat.clauses.having(one, entries, keys) for one in draft.having), places)
            having = sorted(asked, key=lambda one: order(one.expr, places))
            query = group(query, entries, keys, having, distinct=draft.distinct, united=united, closes=draft.closes)
            if draft.distinct and not shows_groups(query, entries):
                groups = replace(draft, distinct=False)
                return self._query(different_rows(groups, draft.text), views, default, united=united)
            if draft.grows and query.grouping is not None:
                query = replace(query, grouping=replace(query.grouping, grows=draft.times))
        else:
            query = replace(query, outputs=tuple(output(entry, united=united) for entry in entries))
        if not query.cross_product:
            require_connected(query)
        refuse_changes_beside_tables(query)
        return settled(fix_now(query))

    def plain(self, draft: Draft, views: Views, default: Within = None) -> Draft:
        """The draft without outer joins and subqueries."""
        if is_plain(draft):
            return draft
        place = id(draft), id(views), default
        if place not in self.rewritten:
            made = rewrite(draft, lambda part: Sources(self, part, add_views(views, part.named), default))
            self.rewritten[place] = draft, views, made
        return self.rewritten[place][2]

    def stream(self, draft: Draft, views: Views, default: Within) -> Stream:
        """What a draft gives as a derived stream."""
        place = id(draft), id(views), default
        if place not in self.known:
            self.known[place] = draft, views, self._stream(draft, views, default)
        return self.known[place][2]

    def _stream(self, draft: Draft, views: Views, default: Within) -> Stream:
        parts = branches(draft)
        made = [self.query(part, views, default, united=len(parts) > 1) for part in parts]
        with placed(next((part.place for part in parts if part.place is not None), None)):
            return derive(made, draft.times, by_name=draft.by_name)


def _reads_nothing(draft: Draft) -> QueryError:
    hint = "a query reads FROM at least one stream; rows that never change are a table: s.table(name, source)."
    return QueryError("this query reads no stream", hint=hint, span=draft.place)
