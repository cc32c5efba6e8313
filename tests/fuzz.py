"""Random queries over random streams, compared row by row with the oracle.

    python -m tests.fuzz --n 10000 --seed 0      many cases in this process
    python -m tests.fuzz --seed 4711 --n 1 -v    one case again, printed in full
    python -m tests.fuzz --n 40 --spark          on Spark

A case is a function of its seed: streams, rows, arrival order, cuts into micro-batches, one or more queries, workers.
Each query is registered several times, under every strategy and under random plans: which joins are kept, which
stores tuples probe in which order, where stores lie and on how many workers.  The case is run and compared with the
oracle over the rows that are not late.  Then lateness is raised until nothing can be late, and the same rows come
in another order, in other batches and to another number of workers: the answer must be that of the oracle over all
rows.  Either run may crash in the middle of a batch and be started again, or continue from files in a new process.

One plan of one query on one run is a *pair*; a tally counts them, and how many keep intermediate results.
"""

from __future__ import annotations

import datetime as dt
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import weft
from tests.seeds import run_seeds
from weft.expr.model import aliases
from weft.expr.render import to_sql
from weft.host import envelope, lookup, portions
from weft.host.state import compaction
from weft.optimizer.choose import choose
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cost.papers import BudgetUnit, CostModel
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.limited import limited_in
from weft.optimizer.graph.placement import keys
from weft.optimizer.graph.tree import Tree, flat_tree
from weft.optimizer.known import Known
from weft.optimizer.plan import topology
from weft.optimizer.wishes import STRATEGIES, Wishes
from weft.optimizer.written.plan import write
from weft.query.model import Query
from weft.testing import (
    Trial,
    assert_same_rows,
    crash_at,
    crash_points,
    expected_after_lateness,
    no_crash,
    oracle,
)
from weft.topology.clock import Policy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = {1: 40, 2: 40, 3: 24, 4: 13, 5: 9, 6: 7}
"""Most rows of a stream, by the number of aliases: the cross product stays below a hundred thousand."""
EPOCH = dt.datetime(2020, 1, 1)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
FOREVER = "3650000 days"
TEXTS = ["", "a", "A", "ab", "abcdefgh", "abcdefghi", "abcdefghj", "b", "é", "a%", "x"]
FLOATS = [0.0, -0.0, 1.0, 2.0, 0.5, 1.5, 0.1, 0.2, 0.3, 1e16, -1.0, float("nan"), float("inf"), float("-inf")]
BIG = [2**63 - 1, -(2**63), 2**53, 2**53 + 1]

COLUMNS = ("k", "s", "f", "d", "day", "b", "u")

DEATHS = ("wave 1 after", "wave 2 before", "wave 2 after", "segment write", "commit before", "commit after", "publish")

Tables = dict[str, pa.Table]


def functions() -> dict[str, tuple[pa.DataType, Callable[..., pa.Array]]]:
    """Python functions that queries may call; made here so that they are pickled by value."""

    def near(a: pa.Array, b: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        return pc.less_equal(pc.abs(pc.subtract(a, b)), 1)

    def halved(a: pa.Array) -> pa.Array:
        import pyarrow.compute as pc

        return pc.divide(a, 2)

    def tagged(a: pa.Array) -> pa.Array:
        import pyarrow as pa

        return pa.array([None if x.as_py() is None else f"<{x.as_py()}>" for x in a], pa.string())

    return {"near": (pa.bool_(), near), "halved": (pa.int64(), halved), "tagged": (pa.string(), tagged)}


@dataclass(frozen=True)
class Planned:
    """A query of a case under a plan: what `Session.query` is asked for."""

    name: str
    query: str
    """The name of the query in the case."""
    wishes: Mapping[str, Any]


@dataclass
class StreamCase:
    """One stream: its columns, how its event time is given, and its rows in arrival order."""

    name: str
    event_time: str | None
    unit: str
    lateness: float
    schema: pa.Schema
    rows: pa.Table

    @property
    def time_type(self) -> str:
        """Streams with equal time types can be compared by time."""
        if self.event_time is None:
            return "none"
        kind = self.schema.field(self.event_time).type
        return f"{kind} {self.unit}" if pa.types.is_integer(kind) else str(kind)


@dataclass
class Case:
    """Everything about one random test."""

    seed: int
    streams: dict[str, StreamCase]
    queries: dict[str, str]
    workers: int
    policy: Policy = "min"
    batches: list[Tables] = field(default_factory=list)
    how: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Stream -> what its declaration says beside."""

    def _statistics(self) -> weft.Statistics | None:
        """Any numbers at all, for half of the cases: they may change the plan, never the answer."""
        rng = random.Random(self.seed)
        if rng.random() < 0.5:
            return None
        return weft.Statistics({name: float(rng.randint(1, 10_000)) for name in self.streams})

    def session(
        self,
        *,
        lateness: str | None = None,
        workers: int | None = None,
        spark: Any = None,
        checkpoint: str | None = None,
        plans: Sequence[Planned] | None = None,
    ) -> weft.Session:
        """The case as a session; `lateness` overrides that of every stream, `plans` what queries there are."""
        folder = checkpoint or (tempfile.mkdtemp(prefix="weft-fuzz-") if spark is not None else "never-made")
        s = weft.Session(checkpoint=folder, workers=workers or self.workers, spark=spark, progress=False)
        s.options(watermark=self.policy, statistics=self._statistics() if plans is None else None)
        for name, (returns, function) in functions().items():
            s.function(name, function, returns)
        for stream in self.streams.values():
            given = [batch[stream.name] for batch in self.batches if stream.name in batch]
            s.stream(
                stream.name,
                weft.read.batches(given or [stream.schema.empty_table()]),
                event_time=stream.event_time,
                unit=stream.unit,  # type: ignore[arg-type]
                lateness=lateness or stream.lateness,
                **self.how.get(stream.name, {}),
            )
        if plans is None:
            for name, text in self.queries.items():
                s.query(name, text)
        for planned in plans or ():
            s.query(planned.name, self.queries[planned.query], **planned.wishes)
        return s

    def tables(self) -> Tables:
        """All rows by stream."""
        return {name: stream.rows for name, stream in self.streams.items()}

    def describe(self) -> str:
        """The case as text from which it can be repeated by hand."""
        lines = [f"seed {self.seed}, {self.workers} workers, {len(self.batches)} batches, watermark {self.policy}"]
        for stream in self.streams.values():
            kind = f"event_time={stream.event_time} unit={stream.unit} lateness={stream.lateness}"
            columns = ", ".join(f"{f.name} {f.type}" for f in stream.schema)
            lines.append(f"stream {stream.name} ({columns}) {kind}")
            for number, batch in enumerate(self.batches):
                lines += [f"  batch {number}: {row}" for row in batch.get(stream.name, pa.table({})).to_pylist()]
        lines += [f"query {name}:\n{text}" for name, text in self.queries.items()]
        return "\n".join(lines)


# ------------------------------------------------------------------------------------------------ data


class Rows:
    """Random rows of one stream."""

    def __init__(self, rng: random.Random, keys: int, extremes: bool) -> None:
        self.rng, self.keys, self.extremes = rng, keys, extremes
        self.nulls = rng.choice([0.0, 0.0, 0.05, 0.2])
        self.floats = rng.sample(FLOATS, 2) if rng.random() < 0.7 else FLOATS

    def value(self, kind: pa.DataType) -> object:
        rng = self.rng
        if rng.random() < self.nulls:
            return None
        if pa.types.is_integer(kind):
            wide = self.extremes and kind == pa.int64() and rng.random() < 0.1
            return rng.choice(BIG) if wide else rng.randrange(-1, self.keys)
        if pa.types.is_floating(kind):
            return rng.choice([*self.floats, *map(float, range(self.keys))])
        if pa.types.is_decimal(kind):
            return Decimal(rng.randrange(-2, 2 * self.keys)) / 2
        if pa.types.is_string(kind):
            return rng.choice(TEXTS[: self.keys + 1] if rng.random() < 0.8 else TEXTS)
        if pa.types.is_boolean(kind):
            return rng.random() < 0.5
        if pa.types.is_date(kind):
            return EPOCH.date() + dt.timedelta(days=rng.randrange(self.keys))
        return EPOCH + dt.timedelta(seconds=rng.randrange(self.keys))


def make_stream(rng: random.Random, name: str, most: int, keys: int) -> StreamCase:
    number = pa.decimal128(9, 2) if rng.random() < 0.7 else pa.decimal128(25, 3)
    fields: list[tuple[str, pa.DataType]] = [
        ("n", pa.int64()), ("k", rng.choice([pa.int64(), pa.int64(), pa.int32()])), ("j", pa.int32()),
        ("s", pa.string()), ("f", pa.float64()), ("g", pa.float32()), ("d", number), ("b", pa.bool_()),
        ("day", pa.date32()), ("u", pa.timestamp("us")),
    ]  # fmt: skip
    kind = rng.choice(["ts", "ts", "ts", "tz", "s", "ms", "us", "date", "none", "none"])
    times = {"ts": pa.timestamp("us"), "tz": pa.timestamp("us", "UTC"), "date": pa.date32(), "none": pa.timestamp("us")}
    schema = pa.schema([*fields, ("ts", times.get(kind, pa.int64()))])
    maker = Rows(rng, keys, extremes=rng.random() < 0.06)
    count = rng.choice([rng.randint(0, 1), *(rng.randint(0, most) for _ in range(4)), *[most] * 7])
    rows = [{f.name: maker.value(f.type) for f in schema} for _ in range(count)]
    moments = _moments(rng, count)
    for number_, (row, moment) in enumerate(zip(rows, moments, strict=True)):
        row["n"] = number_
        row["ts"] = None if moment is None else _moment(kind, moment)
    if rows and rng.random() < 0.3:
        rows += rng.choices(rows, k=min(3, len(rows)))
    unit = kind if kind in ("s", "ms", "us") else "s"
    lateness = rng.choice([0, 0, 1, 3, 10])
    table = pa.Table.from_pylist(rows, schema)
    return StreamCase(name, None if kind == "none" else "ts", unit, lateness, schema, table)


def _moments(rng: random.Random, count: int) -> list[float | None]:
    """Event times in seconds: ties, disorder, holes."""
    span, step = rng.choice([10, 30, 60]), rng.choice([1, 1, 0.25])
    found: list[float | None] = sorted(rng.randrange(int(span / step)) * step for _ in range(count))
    disorder = rng.choice([0, 0, 2, 8])
    order = sorted(range(count), key=lambda i: i + rng.uniform(0, disorder))
    holes = rng.choice([0.0, 0.0, 0.1])
    return [None if rng.random() < holes else found[i] for i in order]


def _moment(kind: str, seconds: float) -> object:
    if kind in ("s", "ms", "us"):
        return int(seconds * {"s": 1, "ms": 1000, "us": 1_000_000}[kind])
    if kind == "date":
        return EPOCH.date() + dt.timedelta(days=int(seconds) // 5)
    moment = EPOCH + dt.timedelta(seconds=seconds)
    return moment.replace(tzinfo=dt.UTC) if kind == "tz" else moment


def cut(rng: random.Random, case: Case) -> list[Tables]:
    """The rows of all streams in random micro-batches, in arrival order."""
    count = rng.choice([1, 2, 3, 5, 8, 12])
    batches: list[Tables] = [{} for _ in range(count)]
    for stream in case.streams.values():
        places = sorted(rng.randint(0, stream.rows.num_rows) for _ in range(count - 1))
        for number, (start, end) in enumerate(zip([0, *places], [*places, stream.rows.num_rows], strict=True)):
            if end > start or rng.random() < 0.5:
                batches[number][stream.name] = stream.rows.slice(start, end - start)
    return batches


def shuffled(rng: random.Random, case: Case) -> list[Tables]:
    """The rows in another arrival order and other batches."""
    streams = {}
    for name, stream in case.streams.items():
        order = list(range(stream.rows.num_rows))
        rng.shuffle(order)
        streams[name] = StreamCase(
            name,
            stream.event_time,
            stream.unit,
            stream.lateness,
            stream.schema,
            stream.rows.take(pa.array(order, pa.int64())),
        )
    return cut(rng, Case(case.seed, streams, case.queries, case.workers))


# --------------------------------------------------------------------------------------------- queries


class QueryMaker:
    """Random SQL over some streams."""

    def __init__(self, rng: random.Random, streams: Mapping[str, StreamCase], extremes: bool = False) -> None:
        self.rng, self.streams, self.extremes = rng, streams, extremes
        self.of: dict[str, StreamCase] = {}
        self.gentle = False
        """Whether predicates let much through: of queries over many aliases most would be empty otherwise."""

    def query(self, count: int) -> str:
        """A query over `count` aliases; its predicates connect them."""
        rng = self.rng
        self.gentle = count > 2 and rng.random() < 0.7
        names = [f"x{i}" for i in range(count)]
        if rng.random() < 0.15:
            names = [f"{name} y" if i % 2 else name.upper() for i, name in enumerate(names)]
        pool = list(self.streams)
        few = rng.choice(pool)
        chosen = [few if rng.random() < 0.35 else rng.choice(pool) for _ in names]
        aliases = [name if name.isidentifier() else f'"{name}"' for name in names]
        self.of = {alias: self.streams[stream] for alias, stream in zip(aliases, chosen, strict=True)}
        predicates = self._joins(aliases) + [
            self._selection(a) for a in aliases if rng.random() < (0.1 if self.gentle else 0.4) / count
        ]
        windows = {alias: self._window(alias) for alias in aliases}
        default = ""
        if rng.random() < 0.3 and all(self.of[a].event_time for a in aliases if not windows[a]):
            default = f"\nWITHIN {self._length()}"
        return f"SELECT {self._outputs(aliases)}\nFROM {self._from(aliases, predicates, windows)}{default}"

    def _from(self, aliases: Sequence[str], predicates: list[str], windows: Mapping[str, str]) -> str:
        rng = self.rng
        parts = [f"{self.of[a].name} {rng.choice(['', 'AS '])}{a}{windows[a]}" for a in aliases]
        if rng.random() < 0.4 or len(aliases) == 1:
            where = f"\nWHERE {' AND '.join(predicates)}" if predicates else ""
            return ", ".join(parts) + where
        text, rest = parts[0], list(predicates)
        for at, part in enumerate(parts[1:], start=1):
            known = aliases[: at + 1]
            usable = [
                p for p in rest if not any(f"{a}." in p for a in aliases[at + 1 :]) and any(f"{a}." in p for a in known)
            ]
            rest = [p for p in rest if p not in usable]
            text += f"\nJOIN {part} ON {' AND '.join(usable)}" if usable else f"\nCROSS JOIN {part}"
        return text + (f"\nWHERE {' AND '.join(rest)}" if rest else "")

    def _window(self, alias: str) -> str:
        if self.of[alias].event_time is None:
            return ""
        if self.gentle and self.rng.random() < 0.7:
            return self.rng.choice(["", " WITHIN INTERVAL '40' SECOND", " WITHIN INTERVAL '2' DAY"])
        return self.rng.choice(["", "", f" WITHIN {self._length()}", f" WITHIN {self._length()}", " WITHIN UNBOUNDED"])

    def _length(self) -> str:
        rng = self.rng
        return rng.choice(
            [
                f"INTERVAL '{rng.choice([1, 2, 5, 10, 30])}' SECOND",
                "INTERVAL '1500' MILLISECOND",
                "INTERVAL '2' DAY",
                "INTERVAL '1' MICROSECOND",
            ]
            if rng.random() < 0.3
            else [f"INTERVAL '{rng.choice([3, 8, 20, 20, 40])}' SECOND"]
        )

    def _outputs(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.04:
            return "1 AS one"
        if kind < 0.08 and len(aliases) == 1:
            return "*"
        items = [f"{a}.n AS n{i}" for i, a in enumerate(aliases) if kind > 0.2 or rng.random() < 0.5]
        for number in range(rng.choice([0, 1, 2])):
            a, b = rng.choice(aliases), rng.choice(aliases)
            made = rng.choice([
                f"{a}.s || {b}.s", f"{a}.f", f"{a}.j + {b}.j", f"{a}.ts", f"{a}.d", f"tagged({a}.s)", f"{a}.g",
                f"CASE WHEN {a}.b THEN {b}.j ELSE {a}.j END", f"coalesce({a}.day, {b}.day)",
            ])  # fmt: skip
            items.append(f"{made} AS o{number}")
        return ", ".join(items) or f"{aliases[-1]}.k"

    def _joins(self, aliases: Sequence[str]) -> list[str]:
        rng = self.rng
        n = len(aliases)
        shape = rng.choice(["chain", "chain", "star", "tree", "tree", "cycle", "clique"])
        if self.gentle and n > 3 and shape == "clique":
            shape = "star"
        pairs = [
            (aliases[{"chain": i - 1, "cycle": i - 1, "star": 0}.get(shape, rng.randrange(i))], aliases[i])
            for i in range(1, n)
        ]
        if shape == "cycle" and n > 2:
            pairs.append((aliases[-1], aliases[0]))
        if shape == "clique":
            pairs = [(a, b) for i, b in enumerate(aliases) for a in aliases[:i]]
        found = [predicate for pair in pairs for predicate in self._pair(*rng.sample(pair, 2))]
        if n > 2 and rng.random() < (0.1 if self.gentle else 0.35):
            found.append(self._three(*rng.sample(list(aliases), 3)))
        return found

    def _pair(self, a: str, b: str) -> list[str]:
        """What joins two aliases: mostly an equality, so that results stay few, and sometimes more."""
        rng = self.rng
        kind, more = rng.random(), (0.1 if self.gentle else 0.5) / len(self.of)
        if self.gentle and kind < 0.85:
            found = [self._gentle(a, b)]
        elif kind < 0.5:
            found = [self._equality(a, b)]
            if rng.random() < more:
                found.append(self._equality(a, b))
        else:
            found = [self._theta(a, b)]
        if rng.random() < more:
            found.append(self._theta(a, b))
        if rng.random() < 2 * more and self._comparable(a, b):
            found.append(self._time_band(a, b))
        return found

    def _gentle(self, a: str, b: str) -> str:
        return self.rng.choice([
            f"{a}.k = {b}.k", f"{a}.k = {b}.k", f"{a}.j = {b}.j", f"{a}.k = {b}.j", f"{a}.b = {b}.b", f"{a}.s = {b}.s",
            f"{a}.day = {b}.day", f"{a}.j % 2 = {b}.j % 2", f"{a}.k <= {b}.k", f"abs({a}.j - {b}.j) <= 1",
            f"{a}.u BETWEEN {b}.u - INTERVAL '1' SECOND AND {b}.u + INTERVAL '1' SECOND",
        ])  # fmt: skip

    def _comparable(self, a: str, b: str) -> bool:
        kind = self.of[a].time_type
        return kind == self.of[b].time_type and kind != "none"

    def _equality(self, a: str, b: str) -> str:
        return self.rng.choice([
            f"{a}.k = {b}.k", f"{a}.k = {b}.k", f"{a}.k = {b}.j", f"{a}.j = {b}.j", f"{a}.s = {b}.s",
            f"{a}.day = {b}.day",
            f"{a}.d = {b}.d", f"{a}.d = {b}.k", f"{a}.k = {b}.f", f"{a}.f = {b}.f", f"{a}.g = {b}.f", f"{a}.g = {b}.g",
            f"{a}.u = {b}.u", f"{a}.b = {b}.b", f"{a}.k + 1 = {b}.k" if not self.extremes else f"{a}.j + 1 = {b}.k",
            f"{a}.j * 2 = {b}.j + 1", f"lower({a}.s) = lower({b}.s)", f"length({a}.s) = {b}.k",
            f"{a}.day + 1 = {b}.day",
            f"CAST({a}.u AS DATE) = {b}.day", f"halved({a}.j::BIGINT) = {b}.j", f"tagged({a}.s) = tagged({b}.s)",
            f"coalesce({a}.k, 0) = {b}.k", f"CASE WHEN {a}.b THEN {a}.k ELSE {a}.j END = {b}.k", f"abs({a}.j) = {b}.j",
            f"{a}.f + 0.5 = {b}.f", f"{a}.j % 2 = {b}.j % 2", f"{a}.u = {b}.day", f"{a}.s || 'a' = {b}.s",
            f"{a}.j - {b}.j = 0", f"{a}.u - INTERVAL '1' SECOND = {b}.u", f"nullif({a}.j, 1) = {b}.j",
            f"round({a}.d) = {b}.d", f"{a}.k / 2 = {b}.f", f"({a}.j = 1) = {b}.b", f"{a}.j = {b}.f + {b}.j",
            *(f"{a}.{name} IS NOT DISTINCT FROM {b}.{name}" for name in self.rng.sample(COLUMNS, 3)),
            f"left({a}.s, 1) = right({b}.s, 1)", f"date_diff('day', {a}.u, {b}.day) = 0",
        ])  # fmt: skip

    def _theta(self, a: str, b: str) -> str:
        rng = self.rng
        op = rng.choice(["<", "<=", ">", ">="])
        column = rng.choice(["k", "j", "s", "f", "g", "d", "day", "u", "b"])
        c = rng.choice([0, 1, 2])
        k = "j" if self.extremes else "k"
        return rng.choice([
            f"{a}.{column} {op} {b}.{column}", f"{a}.{column} {op} {b}.{column}", f"{a}.k {op} {b}.f",
            f"{a}.g {op} {b}.d",
            f"{a}.{k} + {c} {op} {b}.{k}", f"{c} - {a}.{k} {op} {b}.{k}", f"{a}.{k} - {b}.{k} {op} {c}",
            f"{a}.{k} BETWEEN {b}.{k} - {c} AND {b}.{k} + {c}", f"abs({a}.{k} - {b}.{k}) <= {c}",
            f"abs({a}.j - {b}.j) < {c}",
            f"{c} >= abs({b}.{k} - {a}.{k})", f"abs({a}.{k} - {b}.{k}) > {c}",
            f"abs({a}.f - {b}.f) <= {rng.choice(['0.1', '0.5', '1', '0.0', '1e16'])}", f"abs({a}.g - {b}.g) < 0.2",
            f"{a}.f BETWEEN {b}.f - 0.1 AND {b}.f + 0.1", f"{a}.f - {b}.f {op} {b}.f", f"{a}.g - {b}.g {op} {b}.g",
            f"{a}.f + {b}.f {op} 0.3", f"{a}.f {op} 0.1 + {b}.f", f"{a}.f - 0.1 {op} {b}.f",
            f"{a}.d BETWEEN {b}.d - 0.5 AND {b}.d + 0.5", f"{a}.day BETWEEN {b}.day - 1 AND {b}.day + 1",
            f"{a}.day + 1 {op} {b}.day", f"{a}.u BETWEEN {b}.u - INTERVAL '3' SECOND AND {b}.u + INTERVAL '3' SECOND",
            f"{a}.u - {b}.u {op} INTERVAL '2' SECOND", f"{a}.u + INTERVAL '1' SECOND {op} {b}.u",
            f"{a}.{column} <> {b}.{column}", f"NOT ({a}.{column} = {b}.{column})", f"NOT ({a}.f {op} {b}.f)",
            f"({a}.k = {b}.k OR {a}.s = {b}.s)", f"({a}.k {op} {b}.k OR {a}.b)",
            f"({a}.s LIKE 'a%' OR {b}.s LIKE '%b')", f"{a}.s LIKE {b}.s || '%'", f"contains({a}.s, {b}.s)",
            f"starts_with({a}.s, {b}.s)", f"strpos({a}.s, {b}.s) {op} 1", f"substr({a}.s, {b}.j) {op} {b}.s",
            f"{a}.{column} IS DISTINCT FROM {b}.{column}", f"{a}.u + INTERVAL '1' MONTH {op} {b}.u",
            f"regexp_matches({a}.s, '^' || left({b}.s, 1))",
            f"{a}.k IN ({b}.k, {b}.j)", f"{a}.s IN ({b}.s, 'a')", f"({a}.k IS NULL OR {a}.k = {b}.j)",
            f"({a}.k IS NULL) = ({b}.k IS NULL)", f"near({a}.j::BIGINT, {b}.j::BIGINT)", f"near({a}.f, {b}.f)",
            f"CASE WHEN {a}.b THEN {a}.j {op} {b}.j ELSE {a}.s = {b}.s END", f"length({a}.s) + {b}.j {op} 2",
            f"lower({a}.s) {op} {b}.s", f"{a}.s NOT LIKE 'a%' AND {a}.j {op} {b}.j", f"greatest({a}.f, {b}.f) {op} 1",
            f"{a}.j NOT BETWEEN {b}.j AND {b}.j + 1", f"halved({a}.j::BIGINT) {op} {b}.j", f"{a}.f {op} {b}.k",
            f"{a}.f * 2 - {b}.f {op} 1", f"-{a}.j {op} {b}.j", f"{a}.s || {b}.s LIKE '%aa%'", f"{a}.u {op} {b}.day",
        ])  # fmt: skip

    def _three(self, a: str, b: str, c: str) -> str:
        rng = self.rng
        op = rng.choice(["<", "<=", ">", ">=", "=", "<>"])
        return rng.choice([
            f"{a}.j + {b}.j {op} {c}.j", f"{a}.j - {b}.j {op} {c}.k", f"{a}.f + {b}.f {op} {c}.f",
            f"{a}.g - {b}.g {op} {c}.g",
            f"abs({a}.f - {b}.f) <= {c}.f", f"({a}.j = {b}.j OR {b}.j = {c}.j)", f"{a}.s || {b}.s {op} {c}.s",
            f"{a}.j BETWEEN {b}.j AND {c}.j", f"{a}.f BETWEEN {b}.f - {c}.f AND {b}.f + {c}.f",
            f"{a}.u - {b}.u {op} {a}.u - {c}.u", f"greatest({a}.j, {b}.j) {op} {c}.j", f"{a}.f - {b}.f {op} {c}.g",
            f"CASE WHEN {a}.b THEN {b}.j ELSE {c}.j END {op} 1",
        ])  # fmt: skip

    def _time_band(self, a: str, b: str) -> str:
        rng = self.rng
        kind = self.of[a].schema.field("ts").type
        if pa.types.is_timestamp(kind):
            w = f"INTERVAL '{rng.choice([1, 3, 7, 20])}' SECOND"
        elif pa.types.is_date(kind):
            w = rng.choice(["1", "2"])
        else:
            w = str(int(rng.choice([1, 3, 7, 20]) * {"s": 1, "ms": 1000, "us": 1_000_000}[self.of[a].unit]))
        return rng.choice([
            f"{a}.ts BETWEEN {b}.ts AND {b}.ts + {w}", f"{a}.ts BETWEEN {b}.ts - {w} AND {b}.ts + {w}",
            f"{a}.ts = {b}.ts",
            f"{a}.ts < {b}.ts + {w} AND {b}.ts < {a}.ts + {w}", f"{a}.ts >= {b}.ts", f"{a}.ts - {b}.ts <= {w}",
            f"{a}.ts - {b}.ts <= {w} AND {b}.ts - {a}.ts < {w}",
        ])  # fmt: skip

    def _selection(self, a: str) -> str:
        return self.rng.choice([
            f"{a}.k > 0", f"{a}.s LIKE 'a%'", f"{a}.b", f"NOT {a}.b", f"{a}.k IS NOT NULL", f"{a}.s IN ('a', 'b', '')",
            f"{a}.f < 1.5", f"{a}.f <> 1", f"NOT ({a}.f > 1)", f"{a}.k <> 1", f"{a}.d >= 0.5",
            f"{a}.day > DATE '2020-01-01'",
            f"({a}.k = 1 OR {a}.s = 'a')", f"{a}.j BETWEEN 0 AND 2", f"{a}.s IS NULL OR length({a}.s) > 0",
            f"{a}.k = {a}.j",
            f"near({a}.j::BIGINT, 1)", "1 = 1", f"{a}.u > '2020-01-01 00:00:02'", f"{a}.k IN (0, 1, NULL)",
        ]).join(["(", ")"])  # fmt: skip


def make_case(seed: int, *, queries: int | None = None, maker: type[QueryMaker] = QueryMaker) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    aliases = rng.choice([2, 2, 2, 3, 3, 3, 4, 4, 5, 6])
    keys = rng.choice([1, 2, 2, 3, 6] if aliases < 4 else [1, 1, 2, 2, 3])
    streams = [make_stream(rng, f"r{i}", ROWS[aliases], keys) for i in range(rng.randint(1, min(aliases, 5)))]
    by_name = {stream.name: stream for stream in streams}
    extremes = any(_has_extremes(stream.rows) for stream in streams)
    count = queries or rng.choice([1, 1, 1, 1, 2])
    texts = {
        f"q{i}": maker(rng, by_name, extremes).query(rng.randint(1 if rng.random() < 0.05 else 2, aliases))
        for i in range(count)
    }
    if count > 1 and rng.random() < 0.3:
        texts["again"] = texts["q0"]
    case = Case(seed, by_name, texts, rng.choice([1, 1, 2, 2, 3, 4, 5]), rng.choice(["min", "min", "min", "max"]))
    case.batches = cut(rng, case)
    return case


def _has_extremes(rows: pa.Table) -> bool:
    column = rows.column("k")
    return (
        bool(pc.any(pc.is_in(column, value_set=pa.array(BIG, pa.int64()))).as_py())
        if column.type == pa.int64()
        else False
    )


# ------------------------------------------------------------------------------------------------ runs


def plain_functions() -> dict[str, Callable[..., pa.Array]]:
    return {name: function for name, (_, function) in functions().items()}


Limits = tuple[tuple[Any, str, tuple[int, ...]], ...]
"""Module, name of a number in it, some values for it."""
LIMITS: Limits = (
    (compaction, "FAN", (2, 3, 8)),
    (lookup, "CHUNK_PAIRS", (16, 20, 65_536)),
    (envelope, "PAYLOAD_ROWS", (1, 5, 65_536)),
    (portions, "PORTION_ROWS", (1, 7, 131_072)),
)


@contextmanager
def small_limits(rng: random.Random, more: Limits = ()) -> Iterator[None]:
    """Sizes at which the host cuts its work, made so small that a few rows reach them."""
    limits = (*LIMITS, *more)
    before = [(module, name, getattr(module, name)) for module, name, _ in limits]
    try:
        for module, name, choices in limits:
            setattr(module, name, rng.choice(choices))
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def feed_through_a_crash(rng: random.Random, session: weft.Session, trial: Trial, batch: Tables) -> None:
    """Let the batch die somewhere, then feed it again; if it died after its commit it is done."""
    crash_at(session, rng.choice(crash_points(session)), trial.manifest.batch + 1)
    before = trial.manifest
    try:
        trial.feed(batch)
    except weft.HostError:
        assert "crash point" in str(sys.exc_info()[1])
    no_crash(session)
    if trial.manifest is before:
        trial.feed(batch)


def check(case: Case) -> Tally:
    """Run the case in every way and compare.  A difference is an AssertionError."""
    rng = random.Random(case.seed + 1)
    functions = plain_functions()
    tally = Tally()
    hasty, patient = case.session().queries, case.session(lateness=FOREVER).queries
    wanted = {
        name: expected_after_lateness(handle.query, case.batches, functions, case.policy)
        for name, handle in hasty.items()
    }
    run = Run(rng, case, "as it is", None, case.workers, case.batches, wanted)
    run.go({name: handle.query for name, handle in hasty.items()}, tally)
    wanted = {name: oracle(handle.query, case.tables(), functions) for name, handle in patient.items()}
    what, batches = rng.choice([("other cuts", cut(rng, case)), ("other order", shuffled(rng, case))])
    run = Run(rng, case, what, FOREVER, rng.randint(1, 5), batches, wanted)
    run.go({name: handle.query for name, handle in patient.items()}, tally)
    return tally


@dataclass
class Run:
    """Rows in an order and in batches, to a number of workers, and what each query must answer."""

    rng: random.Random
    case: Case
    what: str
    lateness: str | None
    workers: int
    batches: list[Tables]
    wanted: Mapping[str, pa.Table]

    def go(self, queries: Mapping[str, Query], tally: Tally) -> None:
        """All queries under some plans each, in one session or in one for each plan."""
        plans = [
            Planned(f"{name}_{i}", name, wishes)
            for name, query in queries.items()
            for i, wishes in enumerate(self._some_plans(name, query))
        ]
        for group in [plans] if self.rng.random() < 0.6 else [[planned] for planned in plans]:
            session = self.case.session(lateness=self.lateness, workers=self.workers, plans=group)
            if self.rng.random() < 0.15:
                session.analyze(sample=self.rng.choice([5, 1000]), seed=self.case.seed)
            if self.rng.random() < 0.4:
                check_round_trips(session)
            found = self._feed(session)
            for planned in group:
                expected = self.wanted[planned.query]
                what = f"{planned.name} {planned.wishes}, {self.what}, {self.workers} workers: "
                assert_same_rows(found[planned.name], expected, what)
            tally.add(session, group, self.wanted)

    def _some_plans(self, name: str, query: Query) -> list[dict[str, Any]]:
        """Few if the answer is long: such cases take all the time and show nothing more."""
        plans = some_plans(self.rng, query, self.workers)
        return plans if self.wanted[name].num_rows < 2000 else self.rng.sample(plans, 1)

    def _feed(self, session: weft.Session) -> Tables:
        """All batches; sometimes one dies and comes again, sometimes a new process goes on from the files."""
        rng = self.rng
        folder = Path(tempfile.mkdtemp(prefix="weft-fuzz-")) if rng.random() < 0.07 else None
        trials = [Trial(session, state=folder)]
        fatal = rng.randrange(len(self.batches)) if rng.random() < 0.4 else None
        moves = rng.randrange(len(self.batches)) if folder else None
        with small_limits(rng):
            for number, batch in enumerate(self.batches):
                if number == moves:
                    trials.append(Trial(session, state=folder))
                if number == fatal:
                    feed_through_a_crash(rng, session, trials[-1], batch)
                else:
                    trials[-1].feed(batch)
        if folder:
            shutil.rmtree(folder)
        return {name: pa.concat_tables([trial.table(name) for trial in trials]) for name in trials[0].queries}


# ----------------------------------------------------------------------------------------------- plans


@dataclass
class Tally:
    """What was run."""

    rows: int = 0
    pairs: int = 0
    """One plan of one query on one run."""
    kept: int = 0
    """Those of them that keep intermediate results."""
    nested: int = 0
    """Those that make intermediate results out of intermediate results."""
    answered: int = 0
    """Those that keep intermediate results and have an answer that is not empty."""
    deaths: Counter[str] = field(default_factory=Counter)
    """Crash point -> how often a run on Spark died there."""
    strategies: Counter[str] = field(default_factory=Counter)

    def add(self, session: weft.Session, plans: Sequence[Planned], answers: Mapping[str, pa.Table]) -> None:
        """A session that gave the right answers."""
        layouts = {choice.name: choice.chosen.layout for choice in session.choices}
        for planned in plans:
            rows, kept = answers[planned.query].num_rows, layouts[planned.name].kept
            self.pairs += 1
            self.rows += rows
            self.kept += bool(kept)
            self.answered += bool(kept) and rows > 0
            self.nested += any(a & b == a != b for a in kept for b in kept)
            asked = planned.wishes["strategy"]
            self.strategies[asked if isinstance(asked, str) else "by hand"] += 1

    def __iadd__(self, other: Tally) -> Tally:
        self.rows, self.pairs = self.rows + other.rows, self.pairs + other.pairs
        self.kept, self.nested = self.kept + other.kept, self.nested + other.nested
        self.answered, self.deaths = self.answered + other.answered, self.deaths + other.deaths
        self.strategies += other.strategies
        return self

    def __str__(self) -> str:
        names = ", ".join(f"{count} {name}" for name, count in sorted(self.strategies.items()))
        kept = f"{self.kept} keep intermediate results, {self.nested} in levels, {self.answered} not for nothing"
        return f"{self.pairs} pairs ({names}), {kept}, {self.rows} result rows"


TREES = ("left_deep", "tree", "exhaustive", "views")
"""Strategies that keep intermediate results."""


def some_plans(rng: random.Random, query: Query, workers: int) -> list[dict[str, Any]]:
    """Some strategies and plans by hand: both runs of a case see most of them."""
    others = [name for name in STRATEGIES if name not in TREES and _fits(name, query)]
    if len(query.relations) < 3:
        return [_strategy(rng, query, rng.choice(others)) if rng.random() < 0.5 else _written(rng, query, workers)]
    found = [*rng.sample(TREES, 2), rng.choice(others)]
    by_hand = [_written(rng, query, workers) for _ in range(rng.choice([1, 1, 2]))]
    return [*(_strategy(rng, query, name) for name in found), *by_hand]


def all_plans(rng: random.Random, query: Query, workers: int) -> list[dict[str, Any]]:
    """Every strategy, and some plans by hand."""
    names = [name for name in STRATEGIES if _fits(name, query)]
    if len(query.relations) < 3:
        return [_strategy(rng, query, rng.choice(names)), _written(rng, query, workers)]
    return [*(_strategy(rng, query, name) for name in names), *(_written(rng, query, workers) for _ in range(2))]


def _fits(strategy: str, query: Query) -> bool:
    """Whether the strategy is one for so many aliases."""
    return not strategy.startswith("two-way") or len(query.relations) == 2


def _strategy(rng: random.Random, query: Query, strategy: str) -> dict[str, Any]:
    """A strategy by name, and anything it may be asked for besides."""
    statistics = random_statistics(rng, query)
    wishes: dict[str, Any] = {"strategy": strategy, "statistics": statistics}
    if rng.random() < 0.3:
        unit: BudgetUnit = rng.choice(["tuples", "bytes"])
        least = CostModel(estimate(query, statistics or weft.Statistics()), unit=unit).scost(
            flat_tree(len(query.relations))
        )
        budget = max(1.0, least) * rng.choice([1.000001, 1.5, 10, 1000])
        wishes["budget"] = budget if unit == "tuples" else f"{budget:.0f} B" if budget > 1e6 else None
    if rng.random() < 0.2:
        wishes["placement"] = "scattered"
    if rng.random() < 0.2:
        wishes["capacity"] = rng.choice([1, 500, 1e9])
    if rng.random() < 0.2:
        wishes["parallelism"] = {alias: rng.randint(1, 6) for alias in query.aliases if rng.random() < 0.5}
    if rng.random() < 0.2:
        wishes["arrival"] = rng.choice(["history", "none"])
    refused = ("placement", "capacity", "parallelism", "budget") if ":" in strategy else ()  # cubes make copies
    return {name: value for name, value in wishes.items() if name not in refused}


def random_statistics(rng: random.Random, query: Query) -> weft.Statistics | None:
    """Any numbers at all: they may change the plan, never the answer."""
    if rng.random() < 0.15:
        return None
    streams = {r.stream.name: r.stream for r in query.relations}
    names = list(query.aliases)
    return weft.Statistics(
        {name: float(int(10 ** rng.uniform(0, 7))) for name in streams if rng.random() < 0.8},
        rates={name: 10 ** rng.uniform(-1, 4) for name in streams if rng.random() < 0.5},
        widths={name: rng.uniform(1, 500) for name in streams if rng.random() < 0.3},
        selectivities={
            (a, b): 10 ** rng.uniform(-7, 0) for i, b in enumerate(names) for a in names[:i] if rng.random() < 0.8
        },
    )


def _written(rng: random.Random, query: Query, workers: int) -> dict[str, Any]:
    """A random plan; what it leaves open may be chosen by statistics."""
    statistics = random_statistics(rng, query) if rng.random() < 0.3 else None
    for _ in range(20):
        plan = random_plan(rng, query, workers)
        try:
            choose("x", query, workers, Wishes(plan), Known(statistics))
        except weft.PlanError as error:  # kept joins and orders need predicates that connect them
            if "no predicate connects" not in str(error) or not error.detail or not error.hint:
                raise
        else:
            return {"strategy": plan, "statistics": statistics}
    return {"strategy": weft.Plan(), "statistics": statistics}


def random_plan(rng: random.Random, query: Query, workers: int) -> weft.Plan:
    """Kept joins, orders, keys and numbers of workers; each part may be missing."""
    tree = _random_tree(rng, query)
    placement: dict[tuple[str, ...], Any] = {}
    for store in tree.stores:
        usable = [to_sql(expr) for expr in keys(query, store.relations, {})]
        if rng.random() < 0.8:
            some = rng.sample(usable, min(len(usable), rng.choice([1, 1, 1, 2, 3])))
            placement[names(query, store.relations)] = rng.choice([some, some, some, None])
    siblings = {
        child.relations: [names(query, other.relations) for other in operator.children if other != child]
        for operator in tree.operators
        for child in operator.children
    }
    return weft.Plan(
        [names(query, store.relations) for store in tree.stores if store.children],
        orders={names(query, s): rng.sample(rest, len(rest)) for s, rest in siblings.items() if rng.random() < 0.6},
        placement=placement,
        parallelism={names(query, s.relations): rng.randint(1, workers + 1) for s in tree.stores if rng.random() < 0.3},
        ranges=_random_ranges(query, tree),
    )


def _random_ranges(query: Query, tree: Tree) -> list[str] | None:
    """Ranges to index together: all there are, some, none, or left open; drawn apart, so that older seeds stay."""
    there = [to_sql(expr) for expr in limited_in(query, [store.relations for store in tree.stores])]
    rng = random.Random(" ".join(there))
    return rng.choice([there, there, rng.sample(there, rng.randint(0, len(there))), [], None])


def _random_tree(rng: random.Random, query: Query) -> Tree:
    parts = [Tree(1 << i) for i in range(len(query.relations))]
    pairs = [{query.position(alias) for alias in aliases(p)} for p in query.joins if len(aliases(p)) == 2]
    while len(parts) > 2 and rng.random() < 0.8:
        some = [rng.choice(parts)]
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            inside = {i for part in some for i in bits(part.relations)}
            beside = [part for part in parts if part not in some and any(
                pair & inside and pair & set(bits(part.relations)) for pair in pairs)]  # fmt: skip
            if beside and len(some) < len(parts) - 1:
                some.append(rng.choice(beside))
        if len(some) > 1:
            parts = [part for part in parts if part not in some]
            parts.append(Tree(sum(part.relations for part in some), _sorted(some)))
    return parts[0] if len(parts) == 1 else Tree(sum(part.relations for part in parts), _sorted(parts))


def _sorted(parts: Sequence[Tree]) -> tuple[Tree, ...]:
    return tuple(sorted(parts, key=lambda part: part.relations & -part.relations))


def check_round_trips(session: weft.Session) -> None:
    """Every plan can be written down, and what is read back from that is the same plan and the same topology."""
    again = []
    for choice in session.choices:
        text = write(choice.query, choice.chosen.layout).to_json()
        plan = weft.Plan.from_json(text)
        assert plan.to_json() == text
        known = replace(choice.known, made=plan)
        made = choose(choice.name, choice.query, session.workers, choice.wishes, known)
        assert made.chosen.layout == choice.chosen.layout, f"{choice.name}: {text}"
        assert write(choice.query, made.chosen.layout) == plan
        again.append(made)
        if isinstance(asked := choice.wishes.strategy, weft.Plan):
            assert asked.keep == plan.keep
            assert {*asked.orders} <= {*plan.orders}
            assert {*asked.parallelism} <= {*plan.parallelism}
            assert {*asked.placement} <= {*plan.placement} or session.workers == 1
    assert topology(again, session.watermark) == session.topology


def check_on_spark(case: Case, spark: SparkSession, points: Sequence[str] = ()) -> Tally:
    """Run the case on Spark, each query under several plans in one session, and compare with the oracle.

    The run crashes at each of the points, and is continued by a session that knows nothing of it.
    """
    rng = random.Random(case.seed + 2)
    root = Path(tempfile.mkdtemp(prefix="weft-fuzz-"))
    queries = {name: handle.query for name, handle in case.session().queries.items()}
    plans = [
        Planned(f"{name}_{i}", name, wishes)
        for name, query in queries.items()
        for i, wishes in enumerate(all_plans(rng, query, case.workers))
    ]

    def session() -> weft.Session:
        made = case.session(spark=spark, checkpoint=str(root / "checkpoint"), plans=plans)
        for handle in made.queries.values():
            handle.to_parquet(root / handle.name)
        return made

    last, tally = session(), Tally()
    for point in points:
        dying = session()
        if point in crash_points(dying):
            done = max((int(path.stem) for path in root.glob("checkpoint/manifests/*.json")), default=-1)
            crash_at(dying, point, done + 1)
            with dying:
                tally.deaths[point] += _dies(dying)
    with last:
        last.run()
    wanted = {
        name: expected_after_lateness(query, replayed(case), plain_functions(), case.policy)
        for name, query in queries.items()
    }
    for planned in plans:
        what = f"{planned.name} {planned.wishes} on Spark: "
        assert_same_rows(pq.read_table(root / planned.name), wanted[planned.query], what)
    tally.add(last, plans, wanted)
    shutil.rmtree(root, ignore_errors=True)
    return tally


def _dies(session: weft.Session) -> bool:
    """Whether a run reaches its crash point; one that lies on no path, for example without results, is not reached."""
    try:
        session.run()
    except weft.HostError as error:
        if "crash point reached" not in str(error):
            raise
        return True
    return False


def replayed(case: Case) -> list[Tables]:
    """The batches as `weft.read.batches` gives them: the i-th table of every stream in batch i."""
    lists = {name: [b[name] for b in case.batches if name in b] for name in case.streams}
    longest = max(map(len, lists.values()), default=0)
    return [{name: tables[i] for name, tables in lists.items() if i < len(tables)} for i in range(longest)]


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.fuzz",
        "random joins against the oracle",
        lambda seed, _spark: make_case(seed),
        lambda case, spark: check(case) if spark is None else check_on_spark(case, spark, DEATHS),
        Tally(),
    )


if __name__ == "__main__":
    sys.exit(main())
