"""Measured statistics: samples of streams and the queries over them become `Statistics`.

What is measured, and under which name:

    stream              rows, rate, width; of the columns in equalities and of the keys that equalities join by
                        (`weft.stats.keys`) distinct counts and frequent values
    alias               rows and rate, where two or more selections may be correlated; the same of its keys, where
                        there are selections
    predicate's text    share of rows (one alias) or of pairs (two aliases) that satisfy it alone, before selections
    pair of aliases     share of pairs that satisfy all predicates between the two, after selections; where there are
                        several predicates, or selections

An equality between two aliases is estimated from common values (`weft.stats.estimators`), anything else by evaluating
it on at most PAIRS pairs of sampled rows; of predicates beside an equality, on pairs that agree on it.

What must hold:

- A sample that is the whole stream gives exact numbers, up to PAIRS.
- Nothing found among m is never 0 but 1 / (m + 2), as Laplace's rule has it: streams go on.
- What cannot be measured is left out: no rows, a predicate that fails on rows it would never meet, three aliases.
- A name that means different things in different queries says nothing about any of them and is left out.
- What was given by hand wins, also where a measured number stands nearer: no measured pair hides a given predicate,
  no measured predicate a given distinct count, no measured alias a given stream.

Windows take no part: the cost model knows them.  Two aliases of one stream see the same sample, in which a row meets
itself far too often; such pairs are counted apart and weighed as they are in the stream.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pyarrow as pa

from weft.errors import QueryError
from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.expr.logic import nan_to_null
from weft.expr.model import Call, Column, Expr, aliases, children, columns, transform, walk, without_alias
from weft.expr.render import to_sql
from weft.kernels.codes import Bools, Codes, Ints, equality_codes, has_codes
from weft.kernels.numbers import has_numbers, plain_numbers
from weft.query.model import TIME, Query, Relation, Stream
from weft.stats.estimators import PRIOR, distinct_values, match, weighed
from weft.stats.keys import key_name, key_names, same_column
from weft.stats.model import Pair, Statistics

PAIRS = 1 << 18
"""Pairs on which a predicate is evaluated at most."""
CHUNK = 1 << 16
"""Pairs evaluated at a time."""
ENOUGH = 100
"""Rows that must pass the selections of an alias before pairs are measured among them alone."""
EDGE = 100
"""One in so many of the oldest and newest times is left out of a rate: 1970 and 9999 are favourite dates."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a stream."""

    rows: pa.Table
    """The columns that queries read, and the event time in microseconds as `TIME` if the stream has one."""
    total: float | None
    """Rows of the whole stream; None is unknown."""
    read: float | None = None
    """Rows of the parts from which the sample was drawn, if these are not the whole stream."""
    parts: Ints | None = None
    """The part each row is from, if not drawn from the whole stream."""

    @property
    def whole(self) -> bool:
        """Whether the sample is the stream."""
        return self.total == self.rows.num_rows


def needed_columns(stream: Stream, queries: Iterable[Query]) -> tuple[str, ...]:
    """The columns that queries read of a stream, at least one; all of them if no query reads it."""
    reads: set[str] = set()
    used = False
    for query in queries:
        mine = {relation.alias for relation in query.relations if relation.stream.name == stream.name}
        used = used or bool(mine)
        exprs = (*query.predicates, *(output.expr for output in query.outputs))
        reads |= {column.name for expr in exprs for column in columns(expr) if column.alias in mine}
    wanted = tuple(name for name in stream.schema.names if name in reads or name == stream.event_time)
    return (wanted or tuple(stream.schema.names[:1])) if used else tuple(stream.schema.names)


def analyze(
    streams: Mapping[str, Stream],
    samples: Mapping[str, Sample],
    queries: Sequence[Query],
    functions: Functions | None = None,
    given: Statistics | None = None,
    seed: int = 0,
) -> Statistics:
    """What samples say, without what was given by hand and whatever would hide it."""
    known = {name: sample for name, sample in samples.items() if sample.rows.num_rows}
    return _Analysis(dict(streams), known, tuple(queries), functions or {}, given or Statistics(), seed).measure()


# ------------------------------------------------------------------------------------------------- sides


@dataclass(frozen=True, eq=False)
class _Side:
    """One alias of a pair: sampled rows under the alias's names."""

    alias: str
    batch: pa.RecordBatch
    ids: Ints
    """Where each row stands in the sample of its stream."""
    total: float | None
    whole: bool
    read: float | None
    parts: Ints | None
    stream: Stream

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def drawn(self) -> float:
        """The share of the stream's rows that was sampled; 0 if unknown."""
        return 1.0 if self.whole else 0.0 if not self.total else min(1.0, len(self) / self.total)

    @property
    def independent(self) -> float:
        """How many parts the rows are from; infinite if they are from everywhere."""
        return math.inf if self.parts is None else len(np.unique(self.parts))

    def keep(self, mask: pa.BooleanArray) -> _Side:
        """The rows that pass, as a sample of all that pass."""
        chosen: Bools = mask.to_numpy(zero_copy_only=False)
        share = float(chosen.mean()) if len(chosen) else 0.0
        return replace(
            self,
            batch=self.batch.filter(mask),
            ids=self.ids[chosen],
            total=None if self.total is None else self.total * share,
            read=None if self.read is None else self.read * share,
            parts=None if self.parts is None else self.parts[chosen],
        )


@dataclass(frozen=True)
class _Analysis:
    streams: dict[str, Stream]
    samples: dict[str, Sample]
    queries: tuple[Query, ...]
    functions: Functions
    given: Statistics
    seed: int

    def measure(self) -> Statistics:
        """Everything that can be measured."""
        found = self._sizes()
        for part in (self._distinct(), self._quantiles(), self._selections(), self._predicates(), self._pairs()):
            found = found.merge(part)
        return found

    # -------------------------------------------------------------------------------------------- streams

    def _sizes(self) -> Statistics:
        rows, rates, widths = {}, {}, {}
        for name, sample in self._named():
            widths[name] = sample.rows.drop_columns([TIME] if TIME in sample.rows.column_names else []).nbytes
            widths[name] /= sample.rows.num_rows
            if sample.total is not None:
                rows[name] = sample.total
                if (rate := _rate(sample)) is not None:
                    rates[name] = rate
        return Statistics(rows, rates=rates, widths=widths)

    def _distinct(self) -> Statistics:
        """Distinct counts and frequent values of join keys, expressions among them, before and after selections."""
        wanted = self._keys()
        counts: dict[str, float] = {}
        heavy: dict[str, list[tuple[int, float]]] = {}
        for name in (name for name, _ in self._named()):
            side = self._side(name, name)
            for key in wanted.get(name, {}).values():
                self._count_key(side, key, counts, heavy)
        heavy = {key: tops for key, tops in heavy.items() if tops}
        for query, relation in ((q, r) for q in self.queries for r in q.relations):
            kept = self._after_selections(query, relation)
            for key in wanted.get(relation.stream.name, {}).values() if kept is not None else ():
                if not self._told(relation.stream.name, key):  # none frequent is something to know, too
                    self._count_key(kept, key, counts, heavy)  # type: ignore[arg-type]
        return Statistics(distinct=counts, heavy=heavy)

    def _keys(self) -> dict[str, dict[str, Expr]]:
        """Stream -> name -> key, without alias: columns in equalities, and what equalities join by."""
        found: dict[str, dict[str, Expr]] = {}
        for query, predicate in ((q, p) for q in self.queries for p in q.predicates):
            equal = [node for node in walk(predicate) if isinstance(node, Call) and node.op == "="]
            keys = {key for node in equal for key in columns(node)}
            sides = children(predicate) if _is_equality(predicate) else ()
            for key in sorted({*keys, *sides}, key=to_sql):
                if key.type is not None and has_codes(key.type):
                    stream = query.relation(min(aliases(key))).stream.name
                    found.setdefault(stream, {}).setdefault(key_name(key), without_alias(key))
        return found

    def _count_key(
        self, side: _Side, key: Expr, counts: dict[str, float], heavy: dict[str, list[tuple[int, float]]]
    ) -> None:
        """What the rows of a side say of one key."""
        try:
            codes = equality_codes([evaluate(_under(side.alias, key), side.batch, self.functions)])
        except QueryError:
            return  # it fails on rows that it may never meet
        name, column = f"{side.alias}.{key_name(key)}", same_column(key)
        heavy[name] = heaviest(codes)
        unique = column is not None and side.stream.unique == (column.name,)
        enough = len(side) >= (1 if side.whole else min(ENOUGH, self.samples[side.stream.name].rows.num_rows))
        if enough and (count := _values(side, codes, unique)) is not None:
            counts[name] = count

    def _told(self, stream: str, key: Expr) -> bool:
        """Whether something was given by hand of a stream's key, which what is measured of an alias would hide."""
        known = (self.given.distinct, self.given.heavy)
        return any(ask(stream, name) is not None for ask in known for name in key_names(key))

    def _quantiles(self) -> Statistics:
        """Of every column that a range predicate compares, as the two-way range schemes need them."""
        wanted = {
            (query.relation(column.alias).stream.name, column.name)
            for query in self.queries
            if len(query.relations) == 2
            for predicate in query.joins
            for node in walk(predicate)
            if isinstance(node, Call) and node.op in ("<", "<=", ">", ">=")
            for column in columns(node)
            if has_numbers(column.type)
        }
        found = {}
        for name in (name for name, _ in self._named()):
            side = self._side(name, name)
            for column in sorted(column for stream, column in wanted if stream == name):
                values = np.sort(plain_numbers(nan_to_null(side.batch.column(f"{name}.{column}")).drop_null()))
                values = values[np.isfinite(values)]
                if len(values):
                    places = np.linspace(0, len(values) - 1, min(QUANTILES, len(values))).round().astype(np.int64)
                    found[f"{name}.{column}"] = values[places].tolist()
        return Statistics(quantiles=found)

    def _after_selections(self, query: Query, relation: Relation) -> _Side | None:
        """Rows that pass the selections of an alias: they may have few values of a key, or only the frequent ones."""
        selections = query.selections(relation.alias)
        known = relation.stream.name in self.samples and self._is_one_alias(query, relation)
        if not selections or not known or relation.alias == relation.stream.name:
            return None
        side = self._side(relation.alias, relation.stream.name)
        try:
            return side.keep(filter_mask(selections, side.batch, self.functions))
        except QueryError:
            return None

    def _named(self) -> Iterator[tuple[str, Sample]]:
        """Streams whose names are no aliases of other streams."""
        for name, sample in sorted(self.samples.items()):
            if all(r.stream.name == name for query in self.queries for r in query.relations if r.alias == name):
                yield name, sample

    # ----------------------------------------------------------------------------------------- selections

    def _selections(self) -> Statistics:
        shares: dict[str, float] = {}
        rows: dict[str, float] = {}
        rates: dict[str, float] = {}
        for query in self.queries:
            for relation in query.relations:
                if relation.stream.name not in self.samples:
                    continue
                selections = query.selections(relation.alias)
                for predicate in selections:
                    if self._means_one_thing(query, predicate) and (share := self._kept(relation, [predicate])):
                        shares[to_sql(predicate)] = share
                if len(selections) > 1 and self._is_one_alias(query, relation):
                    self._joint(relation, selections, rows, rates)
        return Statistics(rows, rates=rates, predicates=shares)

    def _joint(
        self, relation: Relation, selections: Sequence[Expr], rows: dict[str, float], rates: dict[str, float]
    ) -> None:
        """Rows and rate of an alias after all its selections together."""
        if any(self.given.predicate(to_sql(predicate)) is not None for predicate in selections):
            return
        share, name, sample = self._kept(relation, selections), relation.stream.name, self.samples[relation.stream.name]
        told = self.given.rows(name), self.given.rate(name)
        total = told[0] if told[0] is not None else sample.total
        rate = told[1] if told[1] is not None else _rate(sample)
        if share is not None and total is not None:
            rows[relation.alias] = total * share
        if share is not None and rate is not None:
            rates[relation.alias] = rate * share

    def _kept(self, relation: Relation, selections: Sequence[Expr]) -> float | None:
        side = self._side(relation.alias, relation.stream.name)
        try:
            kept = filter_mask(selections, side.batch, self.functions).true_count
        except QueryError:
            return None
        return _share(kept, len(side))

    def _is_one_alias(self, query: Query, relation: Relation) -> bool:
        """Whether the alias is the same rows wherever it occurs, and no stream's name."""
        same = [
            other.relation(relation.alias).stream.name == relation.stream.name
            and set(other.selections(relation.alias)) == set(query.selections(relation.alias))
            for other in self.queries
            if relation.alias in other.aliases
        ]
        return all(same) and relation.alias not in self.streams

    def _means_one_thing(self, query: Query, predicate: Expr) -> bool:
        """Whether the text, from either side, is about the same streams in all queries."""
        spellings, owners = set(_spellings(predicate)), _owners(query, predicate)
        return all(
            _owners(other, p) == owners for other in self.queries for p in other.predicates if to_sql(p) in spellings
        )

    # ---------------------------------------------------------------------------------------------- pairs

    def _predicates(self) -> Statistics:
        shares: dict[str, float] = {}
        for query in self.queries:
            for predicate in query.joins:
                text = to_sql(predicate)
                told = any(self.given.predicate(spelling) is not None for spelling in _spellings(predicate))
                if text in shares or told or self._counted_by_hand(query, predicate):
                    continue
                if self._measurable(query, predicate) and self._means_one_thing(query, predicate):
                    a, b = (self._plain(query, alias) for alias in sorted(aliases(predicate)))
                    if (share := self._pair_share(a, b, [predicate], self._random(text))) is not None:
                        shares[text] = share
        return Statistics(predicates=shares)

    def _pairs(self) -> Statistics:
        shares: dict[Pair, float] = {}
        for query in self.queries:
            for r, s in combinations(query.relations, 2):
                a, b = sorted((r.alias, s.alias))
                between = _between(query, a, b)
                selected = bool(query.selections(a) or query.selections(b))
                if (a, b) in shares or not between or not (selected or len(between) > 1):
                    continue
                if not self._is_one_pair(query, a, b) or not all(self._measurable(query, p) for p in between):
                    continue
                share = self._joined(query, a, b, between)
                if share is not None:
                    shares[a, b] = share
        return Statistics(selectivities=shares)

    def _joined(self, query: Query, a: str, b: str, between: Sequence[Expr]) -> float | None:
        x, y, random = self._plain(query, a), self._plain(query, b), self._random(f"{a} {b}")
        before = self._pair_share(x, y, between, random)
        equal = [predicate for predicate in between if _is_equality(predicate)]
        try:
            kept_x, kept_y = (
                side.keep(filter_mask(query.selections(side.alias), side.batch, self.functions)) for side in (x, y)
            )
        except QueryError:
            return before if len(between) > 1 else None
        if all(len(side) >= (1 if side.whole else ENOUGH) for side in (kept_x, kept_y)):
            prior = self._pair_share(x, y, equal, random) if equal else None
            return self._pair_share(kept_x, kept_y, between, random, prior)
        return before if len(between) > 1 else None

    def _measurable(self, query: Query, predicate: Expr) -> bool:
        found = aliases(predicate)
        return len(found) == 2 and all(query.relation(alias).stream.name in self.samples for alias in found)

    def _counted_by_hand(self, query: Query, predicate: Expr) -> bool:
        """Whether distinct counts were given for an equality: they decide, where no selectivity stands."""
        sides = predicate.args if isinstance(predicate, Call) and predicate.op == "=" else ()
        return any(
            self.given.distinct(name, side.name) is not None
            for side in sides
            if isinstance(side, Column)
            for name in (side.alias, query.relation(side.alias).stream.name)
        )

    def _is_one_pair(self, query: Query, a: str, b: str) -> bool:
        """Whether every join that will find the pair's number is this one, and it hides nothing given by hand."""
        streams, between, selections = meaning = _meaning(query, a, b)
        for other in self.queries:
            for r, s in combinations(other.relations, 2):
                by_alias, by_stream = {r.alias, s.alias} == {a, b}, {r.stream.name, s.stream.name} == {a, b}
                finds = (by_alias or by_stream) and _between(other, r.alias, s.alias)
                if finds and not (by_alias and _meaning(other, a, b) == meaning):
                    return False
        texts = [text for predicate in between | selections for text in _spellings(predicate)]
        told = any(self.given.predicate(text) is not None for text in texts)
        counted = any(self._counted_by_hand(query, predicate) for predicate in between)
        paired = len(set(streams)) > 1 and self.given.selectivity(*streams) is not None
        return not (told or counted or paired)

    def _plain(self, query: Query, alias: str) -> _Side:
        return self._side(alias, query.relation(alias).stream.name)

    def _side(self, alias: str, stream: str) -> _Side:
        sample = self.samples[stream]
        names = [name for name in sample.rows.column_names if name != TIME]
        arrays = [_one_array(sample.rows.column(name)) for name in names]
        batch = pa.RecordBatch.from_arrays(arrays, names=[f"{alias}.{name}" for name in names])
        ids = np.arange(batch.num_rows, dtype=np.int64)
        return _Side(alias, batch, ids, sample.total, sample.whole, sample.read, sample.parts, self.streams[stream])

    def _random(self, text: str) -> np.random.Generator:
        """A source of its own for every question, so that no answer depends on what else is asked."""
        return np.random.default_rng([self.seed, zlib.crc32(text.encode())])

    def _pair_share(
        self, a: _Side, b: _Side, predicates: Sequence[Expr], random: np.random.Generator, prior: float | None = None
    ) -> float | None:
        try:
            return _Pairs(a, b, tuple(predicates), self.functions, random).share(prior)
        except QueryError:
            return None  # it fails on pairs that it may never meet


# ----------------------------------------------------------------------------------------- pairs of rows


@dataclass(frozen=True)
class _Pairs:
    """All predicates between two sides."""

    a: _Side
    b: _Side
    predicates: tuple[Expr, ...]
    functions: Functions
    random: np.random.Generator

    def share(self, prior: float | None) -> float | None:
        """The share of pairs that satisfy all predicates; `prior` is what is believed of the equalities among them."""
        n, same = len(self.a) * len(self.b), self._same()
        if not n:
            return None
        apart = self._apart(prior, same)
        if apart is None:
            return None
        # Of n_a n_b pairs of the stream's rows, one in N is a row with itself; of the sample's, one in n.
        itself = len(same[0]) * self.a.drawn / n
        alike = self._hits(self.predicates, *same) / len(same[0]) if len(same[0]) else 0.0
        return (1 - itself) * apart + itself * alike or _share(0, n)

    def _same(self) -> tuple[Ints, Ints]:
        """Rows that stand on both sides."""
        if self.a.stream.name != self.b.stream.name:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        _, i, j = np.intersect1d(self.a.ids, self.b.ids, assume_unique=True, return_indices=True)
        return i, j

    def _apart(self, prior: float | None, same: tuple[Ints, Ints]) -> float | None:
        """The share among pairs of different rows; 0 only if all of them were looked at and are all there are."""
        if len(self.a) * len(self.b) == len(same[0]):
            return 0.0 if self._whole else None
        equal = tuple(p for p in self.predicates if _is_equality(p))
        rest = tuple(p for p in self.predicates if not _is_equality(p))
        if not equal:
            return self._evaluated(rest)
        keys = [self._keys(side, equal) for side in (self.a, self.b)]
        share = self._equal(keys, equal, prior, same)
        return share * self._beside(keys, rest) if share and rest else share

    @property
    def _whole(self) -> bool:
        return self.a.whole and self.b.whole

    # ------------------------------------------------------------------------------------------ equalities

    def _keys(self, side: _Side, equal: Sequence[Expr]) -> Codes:
        return equality_codes([evaluate(expr, side.batch, self.functions) for expr in _key(side, equal)])

    def _equal(
        self, keys: Sequence[Codes], equal: Sequence[Expr], prior: float | None, same: tuple[Ints, Ints]
    ) -> float | None:
        (a, in_a), (b, in_b) = (_present(codes) for codes in keys)
        pairs = len(self.a) * len(self.b) - len(same[0])
        found = match(a, b, self.a.drawn, self.b.drawn)
        alike = (keys[0].values[same[0]] == keys[1].values[same[1]]) & in_a[same[0]] & in_b[same[1]]
        seen = found.pairs - int(alike.sum())
        if self._whole:
            return seen / pairs
        if not (len(a) and len(b)):
            return _share(0, pairs)
        worth = found.worth * seen / found.pairs if seen else 0.0
        d_a, d_b = (_values(s, c, _is_unique(s, equal)) for s, c in zip((self.a, self.b), keys, strict=True))
        if d_a is None or d_b is None:
            return weighed(prior, seen, worth, pairs)
        values = max(1.0, d_a, d_b)
        contained = float(in_a.mean() * in_b.mean()) / values
        parts = min(self.a.independent, self.b.independent)
        return weighed(contained if prior is None else prior, seen, worth, pairs, parts, found.most / values)

    def _beside(self, keys: Sequence[Codes], rest: Sequence[Expr]) -> float:
        """The share of those pairs that agree on the keys that satisfies the rest too."""
        i, j = self._different(*self._agreeing(keys))
        hits = self._hits(rest, i, j)
        if self._whole or len(i) >= CHUNK:
            return hits / len(i) if self._all_agreeing(keys) or hits else _share(0, len(i))
        return (hits + PRIOR * self._evaluated(rest)) / (len(i) + PRIOR)

    def _agreeing(self, keys: Sequence[Codes]) -> tuple[Ints, Ints]:
        """Pairs that agree on the keys: all of them, or PAIRS drawn from them."""
        order, first, count = self._partners(keys)
        ends = np.cumsum(count)
        every = int(ends[-1]) if len(ends) else 0
        at = np.arange(every) if every <= PAIRS else self.random.integers(0, every, PAIRS)
        i = np.searchsorted(ends, at, side="right")
        return i, order[first[i] + at - (ends[i] - count[i])]

    def _all_agreeing(self, keys: Sequence[Codes]) -> bool:
        return int(self._partners(keys)[2].sum()) <= PAIRS

    def _partners(self, keys: Sequence[Codes]) -> tuple[Ints, Ints, Ints]:
        """Rows of b in key order, and for every row of a where its partners begin in it and how many there are."""
        _, in_b = _present(keys[1])
        rows = np.flatnonzero(in_b)
        order = rows[np.argsort(keys[1].values[rows], kind="stable")]
        ordered = keys[1].values[order]
        first = np.searchsorted(ordered, keys[0].values, side="left")
        count = np.searchsorted(ordered, keys[0].values, side="right") - first
        return order, first, np.where(_present(keys[0])[1], count, 0)

    # ---------------------------------------------------------------------------------------- anything else

    def _evaluated(self, predicates: Sequence[Expr]) -> float:
        """The share of pairs of different rows, all or PAIRS of them, that satisfies the predicates."""
        n, width = len(self.a) * len(self.b), len(self.b)
        at = np.arange(n) if n <= PAIRS else self.random.integers(0, n, PAIRS)
        i, j = self._different(*np.divmod(at, width))
        hits = self._hits(predicates, i, j)
        return hits / len(i) if hits or (n <= PAIRS and self._whole) else _share(0, len(i))

    def _different(self, i: Ints, j: Ints) -> tuple[Ints, Ints]:
        if self.a.stream.name != self.b.stream.name:
            return i, j
        apart = self.a.ids[i] != self.b.ids[j]
        return i[apart], j[apart]

    def _hits(self, predicates: Sequence[Expr], i: Ints, j: Ints) -> int:
        needed = {column.field for predicate in predicates for column in columns(predicate)}
        hits = 0
        for start in range(0, len(i), CHUNK):
            arrays, names = [], []
            for side, rows in ((self.a, i), (self.b, j)):
                chosen = [name for name in side.batch.schema.names if name in needed]
                arrays += [side.batch.column(name).take(pa.array(rows[start : start + CHUNK])) for name in chosen]
                names += chosen
            hits += filter_mask(predicates, pa.RecordBatch.from_arrays(arrays, names=names), self.functions).true_count
        return hits


# ----------------------------------------------------------------------------------------------- helpers


def _share(hits: int, of: int) -> float:
    return hits / of if hits else 1 / (of + 2)


def _rate(sample: Sample) -> float | None:
    """Rows per second of event time; None without times, or if all are equal."""
    if TIME not in sample.rows.column_names or sample.total is None:
        return None
    times = np.sort(_one_array(sample.rows.column(TIME).drop_null()).to_numpy())
    cut = len(times) // EDGE
    if len(times) < 2 or times[-1 - cut] == times[cut]:
        return None
    inner = (len(times) - 1 - 2 * cut) / (len(times) - 1)
    timed = sample.total * len(times) / sample.rows.num_rows
    return float(timed * inner / (int(times[-1 - cut]) - int(times[cut])) * 1e6)


QUANTILES = 1024
"""How many values of a column stand for all in their order."""
HEAVY = 32
"""How many frequent values of a column are kept."""
SEEN = 8
"""How often a value must be in a sample to count as frequent: its share is then known within about a third."""


def heaviest(codes: Codes) -> list[tuple[int, float]]:
    """The most frequent values and their shares of all rows, NULL ones among them; none that chance could have made.

    Where there are so few values that all of them can be kept, they are: then the whole domain is known.
    """
    valid = codes.values if codes.valid is None else codes.values[codes.valid]
    values, counts = np.unique(valid, return_counts=True)
    usual = max(SEEN, 3 * len(valid) / max(1, len(values))) if len(values) > HEAVY else 1
    frequent = np.flatnonzero(counts >= usual)
    best = frequent[np.argsort(-counts[frequent], kind="stable")][:HEAVY]
    return [(int(values[i]), float(counts[i] / len(codes.values))) for i in best]


def _values(side: _Side, codes: Codes, unique: bool) -> float | None:
    """How many values a key has in the stream."""
    values, present = _present(codes)
    if side.whole:
        return float(len(np.unique(values)))
    if side.total is None:
        return None
    share = len(values) / len(side)
    if unique and len(np.unique(values)) == len(values):
        return side.total * share
    parts = None if side.parts is None else side.parts[present]
    return distinct_values(values, side.total * share, None if side.read is None else side.read * share, parts)


def _present(codes: Codes) -> tuple[Ints, Bools]:
    """The codes of rows with a value, and which rows these are."""
    present = np.ones(len(codes.values), dtype=np.bool_) if codes.valid is None else codes.valid
    return codes.values[present], present


def _is_equality(predicate: Expr) -> bool:
    """Whether a predicate between two aliases compares one with the other."""
    if not isinstance(predicate, Call) or predicate.op != "=":
        return False
    left, right = (aliases(arg) for arg in predicate.args)
    kinds = {arg.type for arg in predicate.args}
    return len(left) == len(right) == 1 and left != right and len(kinds) == 1 and has_codes(*kinds)


def _is_unique(side: _Side, equal: Sequence[Expr]) -> bool:
    """Whether the key is what the stream is declared to be unique by."""
    key = _key(side, equal)
    names = [expr.name for expr in key if isinstance(expr, Column)]
    return len(names) == len(key) and sorted(names) == sorted(side.stream.unique)


def _under(alias: str, key: Expr) -> Expr:
    """A key over the rows of an alias."""
    return transform(key, lambda node: replace(node, alias=alias) if isinstance(node, Column) else node)


def _key(side: _Side, equal: Sequence[Expr]) -> list[Expr]:
    """What the equalities compare of this side."""
    return [arg for predicate in equal for arg in children(predicate) if aliases(arg) == {side.alias}]


def _spellings(predicate: Expr) -> tuple[str, ...]:
    """The texts under which a predicate is looked up: an equality may be written from either side."""
    if isinstance(predicate, Call) and predicate.op == "=":
        return to_sql(predicate), to_sql(Call("=", predicate.args[::-1], predicate.type))
    return (to_sql(predicate),)


def _owners(query: Query, predicate: Expr) -> tuple[str, ...]:
    return tuple(query.relation(alias).stream.name for alias in sorted(aliases(predicate)))


def _between(query: Query, a: str, b: str) -> tuple[Expr, ...]:
    return tuple(predicate for predicate in query.joins if aliases(predicate) == {a, b})


def _meaning(query: Query, a: str, b: str) -> tuple[tuple[str, str], frozenset[Expr], frozenset[Expr]]:
    """All that decides which pairs of two aliases there are."""
    streams = query.relation(a).stream.name, query.relation(b).stream.name
    return streams, frozenset(_between(query, a, b)), frozenset(query.selections(a) + query.selections(b))


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
