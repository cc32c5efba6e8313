"""Measured statistics: samples of streams and the queries over them become `Statistics`.

What is measured, and under which name:

    stream              rows, rate, width; of the columns in equalities and of the keys that equalities join by
                        (`weft.stats.keys`) distinct counts and frequent values
    alias               rows and rate, where two or more selections may be correlated; the same of its keys, where
                        there are selections
    predicate's text    share of rows (one alias) or of pairs (two aliases) that satisfy it alone, before selections;
                        not of the ends of a time band: the share of the band is no product of theirs, it comes from
                        rates
    texts with AND      share of pairs that satisfy the ends of a band together, where there are further inequalities
    pair of aliases     share of pairs that satisfy all predicates between the two, after selections; where there are
                        several predicates, or selections

    texts of whom tuples are for   shares of tuples and subscriptions (`weft.stats.subscribed`)

`weft.stats.values` measures one key, `weft.stats.pairs` two aliases.  `weft.stats.wanted` says what queries need,
`weft.stats.names` under which names it can be stored.

What must hold:

- A sample that is the whole stream gives exact numbers, up to the number of pairs that are evaluated.
- A share of which nothing was found among m is not 0 but 1 / (m + 2), by Laplace's rule: streams go on.
- What cannot be measured is left out: streams without rows, predicates that fail on sampled rows (a join might never
  evaluate them there), predicates over three aliases.

Windows are not considered here: the cost model knows them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from weft.errors import QueryError
from weft.expr.evaluate import Functions, filter_mask
from weft.expr.model import Expr, aliases
from weft.expr.render import to_sql
from weft.query.model import TIME, Query, Relation, Stream
from weft.query.timebounds import is_time_bound
from weft.stats.estimators import share_of
from weft.stats.given import Pair
from weft.stats.keys import is_equality, key_name, same_column, with_alias
from weft.stats.model import Statistics
from weft.stats.names import Names, bands, between, conjunction, share_of_all
from weft.stats.pairs import pair_share
from weft.stats.sample import Sample, rate_of
from weft.stats.side import Side
from weft.stats.subscribed import measure_wanted
from weft.stats.values import heaviest, quantiles, values_in_stream
from weft.stats.wanted import asks_now, join_keys, range_columns
from weft.stats.windows import window_bounds, window_text, windowed_pairs

ENOUGH = 100
"""Rows that must pass the selections of an alias before pairs are measured among them alone."""


def analyze(
    streams: Mapping[str, Stream],
    samples: Mapping[str, Sample],
    queries: Sequence[Query],
    functions: Functions | None = None,
    given: Statistics | None = None,
    seed: int = 0,
) -> Statistics:
    """The statistics that samples give, without those that were given by hand and those that would hide them."""
    known = {name: sample for name, sample in samples.items() if sample.rows.num_rows}
    names = Names(frozenset(streams), tuple(queries), given or Statistics())
    return _Analysis(dict(streams), known, names, functions or {}, seed).measure()


@dataclass(frozen=True)
class _Analysis:
    streams: dict[str, Stream]
    samples: dict[str, Sample]
    names: Names
    functions: Functions
    seed: int

    def measure(self) -> Statistics:
        """Everything that can be measured."""
        found = self._sizes()
        for part in (
            self._keys(),
            self._quantiles(),
            self._selections(),
            self._predicates(),
            self._pairs(),
            self._windows(),
            self._wanted(),
        ):
            found = found.merge(part)
        return found

    # -------------------------------------------------------------------------------------------- streams

    def _named_samples(self) -> Iterator[tuple[str, Sample]]:
        """Streams whose names are no aliases of other streams."""
        return ((name, self.samples[name]) for name in sorted(self.samples) if self.names.is_one_stream(name))

    def _sizes(self) -> Statistics:
        rows, rates, widths = {}, {}, {}
        for name, sample in self._named_samples():
            widths[name] = sample.rows.drop_columns([TIME] if TIME in sample.rows.column_names else []).nbytes
            widths[name] /= sample.rows.num_rows
            if sample.total is not None:
                rows[name] = sample.total
                if (rate := rate_of(sample)) is not None:
                    rates[name] = rate
        return Statistics(rows, rates=rates, widths=widths)

    def _keys(self) -> Statistics:
        """Distinct counts and frequent values of join keys, expressions among them, before and after selections."""
        wanted = join_keys(self.names.queries)
        counts: dict[str, float] = {}
        heavy: dict[str, list[tuple[int, float]]] = {}
        for name, _ in self._named_samples():
            side = self._side(name, name)
            for key in wanted.get(name, {}).values():
                self._count(side, key, counts, heavy)
        heavy = {key: tops for key, tops in heavy.items() if tops}
        for query, relation in self._relations():
            kept = self._after_selections(query, relation)
            for key in wanted.get(relation.stream.name, {}).values() if kept is not None else ():
                # An empty list stays here: it says that no value is frequent after the selections.
                if not self.names.is_key_given(relation.stream.name, key):
                    self._count(kept, key, counts, heavy)  # type: ignore[arg-type]
        return Statistics(distinct=counts, heavy=heavy)

    def _count(
        self, side: Side, key: Expr, counts: dict[str, float], heavy: dict[str, list[tuple[int, float]]]
    ) -> None:
        """What the rows of a side say of one key."""
        try:
            held = side.held([with_alias(side.alias, key)], self.functions)
        except QueryError:
            return  # it fails on a sampled row; a join might never evaluate it there
        name, column = f"{side.alias}.{key_name(key)}", same_column(key)
        heavy[name] = heaviest(held)
        unique = column is not None and side.stream.unique == (column.name,)
        enough = len(side) >= (1 if side.whole else min(ENOUGH, self.samples[side.stream.name].rows.num_rows))
        if enough and (count := values_in_stream(side, held, unique)) is not None:
            counts[name] = count

    def _quantiles(self) -> Statistics:
        named = {name: self._side(name, name).batch for name, _ in self._named_samples()}
        found = {
            f"{stream}.{column}": quantiles(named[stream].column(f"{stream}.{column}"))
            for stream, column in range_columns(self.names.queries)
            if stream in named
        }
        return Statistics(quantiles={column: values for column, values in found.items() if values})

    # ----------------------------------------------------------------------------------------- selections

    def _relations(self) -> Iterator[tuple[Query, Relation]]:
        """Relations of all queries that there is a sample of."""
        every = ((query, relation) for query in self.names.queries for relation in query.relations)
        return ((query, relation) for query, relation in every if relation.stream.name in self.samples)

    def _selections(self) -> Statistics:
        shares: dict[str, float] = {}
        rows: dict[str, float] = {}
        rates: dict[str, float] = {}
        for query, relation in self._relations():
            selections = query.selections(relation.alias)
            for predicate in selections:
                if self.names.is_one_predicate(query, predicate) and (share := self._kept_share(relation, [predicate])):
                    shares[to_sql(predicate)] = share
            if len(selections) > 1 and self.names.is_one_alias(query, relation):
                self._measure_joint(relation, selections, rows, rates)
        return Statistics(rows, rates=rates, predicates=shares)

    def _measure_joint(
        self, relation: Relation, selections: Sequence[Expr], rows: dict[str, float], rates: dict[str, float]
    ) -> None:
        """Rows and rate of an alias after all its selections together."""
        given, name, sample = self.names.given, relation.stream.name, self.samples[relation.stream.name]
        if any(map(self.names.is_given, selections)):
            return
        share, told = self._kept_share(relation, selections), (given.rows(name), given.rate(name))
        total = told[0] if told[0] is not None else sample.total
        rate = told[1] if told[1] is not None else rate_of(sample)
        if share is not None and total is not None:
            rows[relation.alias] = total * share
        if share is not None and rate is not None:
            rates[relation.alias] = rate * share

    def _kept_share(self, relation: Relation, selections: Sequence[Expr]) -> float | None:
        side = self._side(relation.alias, relation.stream.name)
        mask = self._mask(side, selections)
        return None if mask is None else share_of(mask.true_count, len(side))

    def _after_selections(self, query: Query, relation: Relation) -> Side | None:
        """Rows that pass the selections of an alias: they may have other values of a key than the whole stream."""
        selections = query.selections(relation.alias)
        if not selections or not self.names.is_one_alias(query, relation) or relation.alias == relation.stream.name:
            return None
        return self._select(self._side(relation.alias, relation.stream.name), selections)

    # ---------------------------------------------------------------------------------------------- pairs

    def _predicates(self) -> Statistics:
        shares: dict[str, float] = {}
        for query in self.names.queries:
            for predicate in query.joins:
                text = to_sql(predicate)
                if text in shares or self.names.is_given(predicate) or self.names.is_counted(query, predicate):
                    continue
                if self._is_end_of_band(query, predicate):
                    continue
                if self._is_measurable(query, predicate) and self.names.is_one_predicate(query, predicate):
                    a, b = (self._plain(query, alias) for alias in sorted(aliases(predicate)))
                    share = pair_share(a, b, [predicate], self.functions, self._random(text))
                    if share is not None:
                        shares[text] = share
        return Statistics(predicates=shares | self._bands())

    def _bands(self) -> dict[str, float]:
        """Shares of the ends of bands together, where an index may have further ranges."""
        shares: dict[str, float] = {}
        for query in self.names.queries:
            for a, b in combinations(sorted(query.aliases), 2):
                for band in bands(query, a, b):
                    text = conjunction(band)
                    if text in shares or share_of_all(self.names.given, band) is not None:
                        continue
                    if all(self._is_measurable(query, p) and self.names.is_one_predicate(query, p) for p in band):
                        x, y = self._plain(query, a), self._plain(query, b)
                        share = pair_share(x, y, band, self.functions, self._random(text))
                        shares |= {} if share is None else {text: share}
        return shares

    def _is_end_of_band(self, query: Query, predicate: Expr) -> bool:
        """Whether a predicate is one of several time bounds between two aliases, and their share comes from rates."""
        if not is_time_bound(query, predicate):
            return False
        ends = [other for other in between(query, *aliases(predicate)) if is_time_bound(query, other)]
        streams = [query.relation(alias).stream.name for alias in aliases(predicate)]
        rated = any(name in self.samples and rate_of(self.samples[name]) is not None for name in streams)
        return len(ends) > 1 and rated

    def _pairs(self) -> Statistics:
        shares: dict[Pair, float] = {}
        for query in self.names.queries:
            for r, s in combinations(query.relations, 2):
                a, b = sorted((r.alias, s.alias))
                joins = between(query, a, b)
                selected = bool(query.selections(a) or query.selections(b))
                if (a, b) in shares or not joins or not (selected or len(joins) > 1):
                    continue
                if not self.names.is_one_pair(query, a, b) or not all(self._is_measurable(query, p) for p in joins):
                    continue
                if (share := self._joined_share(query, a, b, joins)) is not None:
                    shares[a, b] = share
        return Statistics(selectivities=shares)

    def _windows(self) -> Statistics:
        """Of pairs that join, the share that is inside the windows of both."""
        shares: dict[str, float] = {}
        for query in self.names.queries:
            for a, b in windowed_pairs(query):
                joins, text = between(query, a, b), window_text(query, a, b)
                if text in shares or not all(self._is_measurable(query, p) for p in joins):
                    continue
                x, y = (self._plain(query, alias, timed=True) for alias in (a, b))
                whole = pair_share(x, y, joins, self.functions, self._random(text))
                inside = pair_share(x, y, [*joins, *window_bounds(query, a, b)], self.functions, self._random(text))
                if whole and inside is not None:
                    shares[text] = min(1.0, inside / whole)
        return Statistics(predicates=shares)

    def _joined_share(self, query: Query, a: str, b: str, joins: Sequence[Expr]) -> float | None:
        """The share after selections; if too few rows pass, that of several predicates before selections."""
        x, y, random = self._plain(query, a), self._plain(query, b), self._random(f"{a} {b}")
        before = pair_share(x, y, joins, self.functions, random)
        equal = [predicate for predicate in joins if is_equality(predicate)]
        kept_x, kept_y = (self._select(side, query.selections(side.alias)) for side in (x, y))
        if kept_x is None or kept_y is None or not (_says_enough(kept_x) and _says_enough(kept_y)):
            return before if len(joins) > 1 else None
        prior = pair_share(x, y, equal, self.functions, random) if equal else None
        return pair_share(kept_x, kept_y, joins, self.functions, random, prior)

    def _is_measurable(self, query: Query, predicate: Expr) -> bool:
        found = aliases(predicate)
        sampled = all(query.relation(alias).stream.name in self.samples for alias in found)
        return len(found) == 2 and sampled and not asks_now(predicate)

    def _random(self, text: str) -> np.random.Generator:
        """A random source for every question, so that no answer depends on what else is asked."""
        return np.random.default_rng([self.seed, zlib.crc32(text.encode())])

    def _wanted(self) -> Statistics:
        """For how many tuples a subscription is left."""
        found = Statistics()
        for query in (query for query in self.names.queries if query.subscribers is not None):
            assert query.subscribers is not None
            given = self.samples.get(query.subscribers.stream.name)
            sides = {r.alias: self._selected(query, r) for r in query.relations if r.stream.name in self.samples}
            if given is not None and len(sides) == len(query.relations):
                rows = pa.RecordBatch.from_arrays([*given.columns.values()], names=[*given.columns])
                found = found.merge(measure_wanted(query, sides, rows, self.functions, self._random("wanted")))
        return found

    # ---------------------------------------------------------------------------------------------- sides

    def _selected(self, query: Query, relation: Relation) -> Side:
        """Rows that pass the selections of an alias, with their times; all rows if that cannot be said."""
        timed = TIME in self.samples[relation.stream.name].rows.column_names
        side = self._plain(query, relation.alias, timed=timed)
        return self._select(side, query.selections(relation.alias)) or side

    def _plain(self, query: Query, alias: str, *, timed: bool = False) -> Side:
        return self._side(alias, query.relation(alias).stream.name, timed=timed)

    def _side(self, alias: str, stream: str, *, timed: bool = False) -> Side:
        sample = self.samples[stream]
        columns = {f"{alias}.{name}": column for name, column in sample.columns.items()}
        if timed:
            columns[f"{alias}.{TIME}"] = sample.times
        batch = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
        return Side(
            alias, batch, sample.ids, sample.total, sample.whole, sample.read, sample.parts, self.streams[stream],
            sample.keys,
        )  # fmt: skip

    def _select(self, side: Side, selections: Sequence[Expr]) -> Side | None:
        mask = self._mask(side, selections)
        return None if mask is None else side.keep(mask)

    def _mask(self, side: Side, selections: Sequence[Expr]) -> pa.BooleanArray | None:
        """Which rows pass; None if a selection fails on a sampled row, or asks when a row came."""
        if any(map(asks_now, selections)):
            return None
        try:
            return filter_mask(selections, side.batch, self.functions)
        except QueryError:
            return None


def _says_enough(kept: Side) -> bool:
    return len(kept) >= (1 if kept.whole else ENOUGH)
