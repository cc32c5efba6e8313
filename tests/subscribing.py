"""Random subscriptions: joins of some streams, conditions with parameters, and subscriptions that come and go.

The answer is one DuckDB statement.  It knows the batch in which each row and each subscription came, and the batch in
which a subscription ended; nothing else of how Weft works.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import weft
from weft.query.parameters import REMOVED

STREAM = pa.schema(
    [("k", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.date32()),
     ("e", pa.decimal128(20, 2)), ("ts", pa.int64())]
)  # fmt: skip
WORDS = ["", "a", "ab", "abcdefgh-1", "abcdefgh-2", "b", "é"]
NAME = "alerts"
FEED = f"{NAME}-subscriptions"


def value(rng: random.Random, kind: pa.DataType, wide: int, missing: float) -> Any:
    """A value of a type; NULL, NaN and infinities with some probability."""
    if rng.random() < missing:
        return None
    if pa.types.is_string(kind):
        return rng.choice(WORDS)
    if pa.types.is_floating(kind):
        odd = rng.choice([math.nan, math.inf, -math.inf, -0.0])
        return odd if rng.random() < 0.06 else rng.randrange(-wide, wide) / 2
    if pa.types.is_date(kind):
        return rng.randrange(0, wide)
    if pa.types.is_decimal(kind):
        return f"{rng.randrange(-wide, wide)}.{rng.randrange(100):02}"
    return rng.randrange(-wide, wide)


def column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array; dates come as days, decimals as text."""
    if pa.types.is_date(kind):
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, pa.string()).cast(kind) if pa.types.is_decimal(kind) else pa.array(values, kind)


def table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    """Rows as a table."""
    return pa.table([column([row[i] for row in rows], f.type) for i, f in enumerate(schema)], schema=schema)


@dataclass
class Case:
    """A query, its streams, and what happens in each batch."""

    streams: int
    conditions: list[str]
    """Over r0, r1, ...; with parameters written `:p0`."""
    joins: list[str]
    types: list[pa.DataType]
    """Of parameters."""
    window: int | None
    own_windows: bool
    start: str
    wide: int
    key: list[str]
    batches: list[dict[str, pa.Table]] = field(default_factory=list)
    changes: list[list[tuple[str, tuple[Any, ...]]]] = field(default_factory=list)
    """For each batch what happens to subscriptions, in order: ("add", row) or ("remove", key)."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of parameters."""
        named = [(f"p{i}", kind) for i, kind in enumerate(self.types)]
        return pa.schema([("who", pa.string()), ("what", pa.int64()), ("within", pa.int64()), *named])

    @property
    def sql(self) -> str:
        """The query as Weft gets it."""
        sources = ", ".join(f"r{i}" for i in range(self.streams))
        where = " AND ".join([*self.joins, *self.conditions])
        shown = ", ".join(f"r{i}.a AS a{i}" for i in range(self.streams))
        within = f" WITHIN INTERVAL '{self.window}' SECOND" if self.window else ""
        where = f" WHERE {where}" if where else ""
        return f"SELECT {shown}, :what + r0.a AS plus FROM {sources}{where}{within}"


def draw(
    rng: random.Random, batches: int = 4, rows: int = 12, subscriptions: int = 12, streams: int | None = None
) -> Case:
    """A random case."""
    streams, wide = streams or rng.choice([1, 2, 2, 2, 3, 4]), rng.choice([2, 6, 20])
    types: list[pa.DataType] = []

    def parameter(kind: pa.DataType) -> str:
        types.append(kind)
        return f":p{len(types) - 1}"

    conditions = [_condition(rng, streams, parameter) for _ in range(rng.randrange(0, 6))]
    joins = [rng.choice([f"r{i}.k = r{i + 1}.k", f"r{i}.k = r{i + 1}.k", f"r{i}.a <= r{i + 1}.k"])
             for i in range(streams - 1)]  # fmt: skip
    window = rng.choice([None, 3, 10])
    case = Case(streams, conditions, joins, types, window, window is not None and rng.random() < 0.5,
                rng.choice(["now", "state"]), wide, rng.choice([["who"], ["who", "what"]]))  # fmt: skip
    for number in range(batches):
        case.batches.append({f"r{i}": _rows(rng, rng.randrange(0, rows), wide, number) for i in range(streams)})
        case.changes.append([_change(rng, case, number) for _ in range(rng.randrange(0, subscriptions))])
    return case


def _condition(rng: random.Random, streams: int, parameter: Any) -> str:
    x, y = (f"r{rng.randrange(streams)}" for _ in range(2))
    name, kind = rng.choice([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.date32()),
                             ("e", pa.decimal128(20, 2))])  # fmt: skip
    match rng.randrange(8):
        case 0 | 1:
            return f"{x}.{name} {rng.choice(['<', '<=', '>', '>=', '='])} {parameter(kind)}"
        case 2:
            return f"{parameter(kind)} {rng.choice(['<', '<=', '>', '>=', '='])} {x}.{name}"
        case 3 | 4:
            return f"{x}.{name} BETWEEN {parameter(kind)} AND {parameter(kind)}"
        case 5:
            return f"{x}.a + {y}.a {rng.choice(['<', '>='])} {parameter(pa.int64())}"
        case 6:
            return f"({x}.c LIKE {parameter(pa.string())} || '%' OR {x}.a <> {parameter(pa.int64())})"
        case _:
            return f"{x}.a < {parameter(pa.float64())}"


def _rows(rng: random.Random, count: int, wide: int, number: int) -> pa.Table:
    kinds = [f.type for f in STREAM][1:-1]
    return table(
        [
            (rng.randrange(3), *(value(rng, kind, wide, 0.08) for kind in kinds), 4 * number + rng.randrange(6))
            for _ in range(count)
        ],
        STREAM,
    )


def _change(rng: random.Random, case: Case, number: int) -> tuple[str, tuple[Any, ...]]:
    who, what = f"s{rng.randrange(8)}", rng.randrange(2)
    if number and rng.random() < 0.4:
        return "remove", (who, what)
    within = rng.choice([None, 0, 1, 5, 100]) if case.own_windows else None
    given = (_extreme(rng, kind) or value(rng, kind, case.wide, 0.3) for kind in case.types)
    return "add", (who, what, within, *given)


def _extreme(rng: random.Random, kind: pa.DataType) -> int | None:
    """Sometimes the least or the greatest value there is: it is an end, and no missing one."""
    return rng.choice([2**63 - 1, -(2**63)]) if kind == pa.int64() and rng.random() < 0.15 else None


# ------------------------------------------------------------------------------------------------------- Weft


def declare(case: Case, checkpoint: Path, workers: int, strategy: str = "auto", *, known: bool = False) -> weft.Session:
    """A session with the streams and the query of a case; `known` lets it see all rows when it plans."""
    session = weft.Session(checkpoint=checkpoint, workers=workers)
    for i in range(case.streams):
        rows = [batch[f"r{i}"] for batch in case.batches] if known else [STREAM.empty_table()]
        session.stream(f"r{i}", weft.read.batches(rows), event_time="ts", lateness="1 hour")
    added = [row for found in case.changes for kind, row in found if kind == "add" and known]
    session.subscriptions(
        NAME, case.sql, parameters=weft.read.batches([table(added, case.schema)]), key=case.key, start=case.start,
        window="within" if case.own_windows else None, strategy=strategy,
    )  # fmt: skip
    return session


def changes(case: Case, number: int) -> pa.Table:
    """What happens to subscriptions in a batch, as rows of parameters."""
    found = case.changes[number]
    rows = [(*row, *[None] * (len(case.schema) - len(row))) for _, row in found]
    marks = pa.array([kind == "remove" for kind, _ in found], pa.bool_())
    return table(rows, case.schema).append_column(REMOVED, marks)


# ----------------------------------------------------------------------------------------------------- DuckDB


def lives(case: Case) -> list[tuple[Any, ...]]:
    """All subscriptions, with the batch in which each came and the one in which it ended; 1000 if it did not."""
    alive: list[list[Any]] = []
    done: list[tuple[Any, ...]] = []
    for number, found in enumerate(case.changes):
        for kind, row in found:
            if kind == "add":
                alive.append([row, number])
                continue
            own = {"who": 0, "what": 1}
            gone = [one for one in alive if all(one[0][own[name]] == row[own[name]] for name in case.key)]
            alive = [one for one in alive if one not in gone]
            done += [(*one[0], one[1], number) for one in gone]
    return [*done, *((*row, number, 1000) for row, number in alive)]


def expected(case: Case) -> pa.Table:
    """The answer."""
    with duckdb.connect(config={"threads": 1}) as duck:
        for i in range(case.streams):
            parts = [
                batch[f"r{i}"].append_column("n", pa.array([number] * batch[f"r{i}"].num_rows, pa.int64()))
                for number, batch in enumerate(case.batches)
            ]
            duck.register(f"r{i}", pa.concat_tables(parts))
        schema = pa.schema([*case.schema, ("began", pa.int64()), ("ended", pa.int64())])
        duck.register("s", table(lives(case), schema))
        return duck.sql(_statement(case)).to_arrow_table()


def _statement(case: Case) -> str:
    names = [f"r{i}" for i in range(case.streams)]
    where = [*case.joins, *map(_unless_null, case.conditions), *_times(case, names)]
    newest = f"greatest({', '.join(f'{name}.n' for name in names)})"
    where += [f"s.began <= {newest}"] if case.start == "state" else [f"s.began <= {name}.n" for name in names]
    where += [f"{newest} < s.ended"]
    key = ", ".join(f"s.{name}" for name in case.key)
    shown = ", ".join(f"{name}.a AS a{i}" for i, name in enumerate(names))
    return f"SELECT {key}, {shown}, s.what + r0.a AS plus FROM {', '.join(names)}, s WHERE {' AND '.join(where)}"


def _times(case: Case, names: list[str]) -> list[str]:
    if len(names) < 2:
        return []
    newest = f"greatest({', '.join(f'{name}.ts' for name in names)})"
    found = [f"{newest} - {name}.ts < {case.window}" for name in names] if case.window else []
    own = [f"(s.within IS NULL OR {newest} - {name}.ts < s.within)" for name in names]
    return [*found, *(own if case.own_windows else [])]


def _unless_null(condition: str) -> str:
    """NaN compares with nothing, a NULL parameter admits everything; the two conditions of BETWEEN are two."""
    words = condition.replace("(", " ").replace(")", " ").split()
    given = [word[1:] for word in words if word.startswith(":")]
    if "BETWEEN" in words:
        x, (low, high) = words[0], given
        return f"{_unless_null(f'{x} >= :{low}')} AND {_unless_null(f'{x} <= :{high}')}"
    read = [w for w in words if w.startswith("r") and w.endswith(".b")]
    numbers = [f"(TRY_CAST({w} AS DOUBLE) IS NULL OR NOT isnan({w}::DOUBLE))" for w in read]
    numbers += [f"(s.{name} IS NULL OR TRY_CAST(s.{name} AS DOUBLE) IS NULL OR NOT isnan(TRY_CAST(s.{name} AS DOUBLE)))"
                for name in given] if "||" not in words else []  # fmt: skip
    plain = condition
    for name in given:
        plain = plain.replace(f":{name}", f"s.{name}")
    missing = " OR ".join(f"s.{name} IS NULL" for name in given)
    return f"({missing} OR ({' AND '.join([plain, *numbers])}))"
