"""Random outer joins and subqueries, and what DuckDB says to the plain query that Weft makes of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import duckdb
import pyarrow as pa

from weft.query.model import Query, Stream
from weft.testing.oracle import oracle_sql

COLUMNS = {"a": ("k", "x", "s"), "b": ("k", "x", "y"), "c": ("k", "j", "z"), "d": ("j", "x", "w")}
STREAMS = {
    name: Stream(name, pa.schema([(column, pa.int64()) for column in columns])) for name, columns in COLUMNS.items()
}


def tables(rng: random.Random, rows: int = 7) -> dict[str, pa.Table]:
    """Rows with NULLs, and some twice."""

    def row(names: Iterable[str]) -> dict[str, int | None]:
        return {name: None if rng.random() < 0.15 else rng.randrange(4) for name in names}

    made = {}
    for name, stream in STREAMS.items():
        listed = [row(stream.schema.names) for _ in range(rng.randrange(rows + 1))]
        made[name] = pa.Table.from_pylist(listed + listed[: rng.randrange(3)], stream.schema)
    return made


class RandomOuter:
    """Texts of random queries over the four streams."""

    def __init__(self, rng: random.Random, *, size: int = 4, grouped: bool = True) -> None:
        self.rng, self.size, self.grouped = rng, size, grouped
        self.number = 0

    def text(self) -> str:
        """A query."""
        rng = self.rng
        source, seen = self._join(rng.randint(1, self.size))
        where = [self._condition(seen) for _ in range(rng.choice((0, 0, 1, 2)))]
        if rng.random() < 0.5 or self.number < 2:
            where.append(self._subquery(seen))
        listed = rng.sample(seen, min(len(seen), rng.randint(1, 4)))
        clause = f" WHERE {' AND '.join(where)}" if where else ""
        if self.grouped and rng.random() < 0.15:
            return f"SELECT {listed[0]} AS k, COUNT(*) AS n, SUM({listed[-1]}) AS s FROM {source}{clause} GROUP BY 1"
        if rng.random() < 0.1:
            value = f", EXISTS ({self._inner(seen)[0]}) AS e"
        else:
            value = f", {self._scalar(seen)} AS v" if rng.random() < 0.1 else ""
        items = ", ".join(f"{column} AS c{place}" for place, column in enumerate(listed))
        return f"SELECT {items}{value} FROM {source}{clause}"

    def _join(self, size: int) -> tuple[str, list[str]]:
        if size == 1:
            return self._leaf()
        cut = self.rng.choice((1, size - 1, self.rng.randint(1, size - 1)))
        (left, mine), (right, other) = self._join(cut), self._join(size - cut)
        kind = self.rng.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
        on = " AND ".join(self._pair(mine, other) for _ in range(self.rng.choice((1, 1, 2))))
        on += self._asked(kind, on, mine, other)
        right = right if size - cut == 1 else f"({right})"
        return f"{left} {kind} {right} ON {on}", mine if kind in ("SEMI JOIN", "ANTI JOIN") else mine + other

    def _asked(self, kind: str, on: str, mine: list[str], other: list[str]) -> str:
        """Now and then a subquery in ON, over one side or, where a stream is added to another one, over both."""
        rng, self.rng = self.rng, random.Random(on)
        try:
            if self.rng.random() > 0.15:
                return ""
            of = {name.partition(".")[0] for name in (*mine, *other)}
            both = kind in ("LEFT JOIN", "SEMI JOIN", "ANTI JOIN") and len(of) == 2
            return f" AND {self._subquery(self.rng.choice((mine, other, *([mine + other] if both else []))))}"
        finally:
            self.rng = rng

    def _leaf(self) -> tuple[str, list[str]]:
        name = self.rng.choice([*COLUMNS])
        self.number += 1
        alias = f"{name}{self.number}"
        return f"{name} AS {alias}", [f"{alias}.{column}" for column in COLUMNS[name]]

    def _pair(self, mine: list[str], other: list[str]) -> str:
        left, right = self.rng.choice(mine), self.rng.choice(other)
        return self.rng.choice((
            f"{left} = {right}", f"{left} = {right}", f"{left} < {right}", f"{left} + 1 = {right}",
            f"({left} = {right} OR {left} IS NULL)", f"{left} = {right} AND {right} > 1",
            f"{left} = {right} AND {self.rng.choice(mine)} <> 2",
        ))  # fmt: skip

    def _condition(self, seen: list[str]) -> str:
        one, two = self.rng.choice(seen), self.rng.choice(seen)
        return self.rng.choice((
            f"{one} > 0", f"{one} IS NULL", f"{one} IS NOT NULL", f"coalesce({one}, 2) < 3", f"{one} <= {two}",
            f"({one} = 1 OR {two} IS NULL)", f"{one} IS DISTINCT FROM {two}", f"NOT ({one} = 2)", f"{one} IN (1, 2)",
        ))  # fmt: skip

    def _inner(self, seen: list[str]) -> tuple[str, str]:
        """A subquery, and the column it selects."""
        source, mine = self._join(self.rng.choice((1, 1, 2)))
        tied = [self._pair(mine, seen) for _ in range(self.rng.choice((0, 1, 1, 2)))]
        clause = f" WHERE {' AND '.join(tied)}" if tied else ""
        column = self.rng.choice(mine)
        return f"SELECT {column} FROM {source}{clause}", column

    def _subquery(self, seen: list[str]) -> str:
        text, _ = self._inner(seen)
        value = self.rng.choice(seen)
        return self.rng.choice((
            f"EXISTS ({text})", f"NOT EXISTS ({text})", f"{value} IN ({text})", f"{value} NOT IN ({text})",
            f"({value} = 1 OR EXISTS ({text}))", f"({value} = 2 OR {value} NOT IN ({text}))",
            f"({value} IN ({text})) IS NULL", f"{value} > {self._scalar(seen)}", f"{value} <= {self._scalar(seen)}",
            f"{value} IN (SELECT k FROM b GROUP BY k HAVING SUM(x) > 2)",
        ))  # fmt: skip

    def _scalar(self, seen: list[str]) -> str:
        name = self.rng.choice([*COLUMNS])
        self.number += 1
        alias = f"{name}{self.number}"
        columns = [f"{alias}.{column}" for column in COLUMNS[name]]
        what = self.rng.choice((f"MAX({columns[1]})", "COUNT(*)", f"MIN({columns[0]}) + 1", f"SUM({columns[2]})"))
        tied = f" WHERE {columns[0]} = {self.rng.choice(seen)}" if self.rng.random() < 0.7 else ""
        return f"(SELECT {what} FROM {name} AS {alias}{tied})"


def plain_sql(query: Query) -> str:
    """The plain query as DuckDB reads it: each derived stream is a WITH."""
    parts: dict[str, str] = {}
    _add_parts(query, parts)
    named = ",\n".join(f'"in {name}" AS (\n{text})' for name, text in parts.items())
    return f"WITH {named}\nSELECT * FROM ({oracle_sql(query)})" if parts else oracle_sql(query)


def _add_parts(query: Query, parts: dict[str, str]) -> None:
    for stream in (relation.stream for relation in query.relations if relation.stream.made):
        if stream.name in parts:
            continue
        for made in stream.made:
            _add_parts(made, parts)
        union = "\nUNION ALL\n".join(f"SELECT * FROM ({oracle_sql(made)})" for made in stream.made)
        often = "" if stream.weight is None else f', range("{stream.weight}")'
        parts[stream.name] = f"SELECT rows.* FROM (\n{union}) AS rows{often}"


def connect(data: Mapping[str, pa.Table]) -> duckdb.DuckDBPyConnection:
    """A database that has the rows under the names of the streams and under those of the oracle."""
    con = duckdb.connect(config={"threads": 1})
    for name, table in data.items():
        con.register(name, table)
        con.register(f"in {name}", table)
    return con


def rows(con: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """The answer as a multiset that compares."""
    return sorted(map(str, con.sql(text).fetchall()))
