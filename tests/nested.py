"""Random queries that read other queries: groups, DISTINCT and UNION inside joins and groups, to some depth.

DuckDB reads the very text after every batch.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

import duckdb
import pyarrow as pa

import weft
from weft.testing import Trial

COLUMNS = {"a": ("k", "x"), "b": ("k", "y"), "c": ("k", "j", "z")}
KINDS = ("count(*)", "count({})", "sum({})", "min({})", "max({})", "count(DISTINCT {})")


class Nested:
    """Random texts."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.number = rng, 0

    def query(self, depth: int = 2) -> str:
        """A text that reads something derived, in all likelihood."""
        return self.derived(depth)[0] if self.rng.random() < 0.5 else self.join(depth)[0]

    def derived(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """A text that cannot be put in place, and its columns."""
        return self.rng.choice([self.groups, self.groups, self.different, self.union])(depth)

    def join(self, depth: int, width: int | None = None) -> tuple[str, tuple[str, ...]]:
        """A plain join, of a given number of columns."""
        parts, seen = self._from(depth)
        many = width or self.rng.randint(1, 3)
        items = [f"{self.rng.choice(seen)} AS c{place}" for place in range(many)]
        return f"SELECT {', '.join(items)} FROM {parts}{self._where(seen)}", tuple(f"c{i}" for i in range(many))

    def groups(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """A text with GROUP BY, or with one group."""
        parts, seen = self._from(depth)
        keys = self.rng.sample(seen, min(len(seen), self.rng.choice([0, 1, 1, 2])))
        made = [self.rng.choice(KINDS).format(self.rng.choice(seen)) for _ in range(self.rng.randint(1, 2))]
        items = [f"{item}{'::BIGINT' if item not in keys else ''} AS c{i}" for i, item in enumerate([*keys, *made])]
        by = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = f" HAVING {self.rng.choice(made)} {self.rng.choice(['<', '>='])} 3" if self.rng.random() < 0.3 else ""
        names = tuple(f"c{i}" for i in range(len(items)))
        return f"SELECT {', '.join(items)} FROM {parts}{self._where(seen)}{by}{having}", names

    def different(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """A text with DISTINCT."""
        text, names = self.join(depth)
        return text.replace("SELECT", "SELECT DISTINCT", 1), names

    def union(self, depth: int) -> tuple[str, tuple[str, ...]]:
        """A text with UNION."""
        first, names = self.join(depth)
        texts = [first, *(self.join(max(0, depth - 1), len(names))[0] for _ in range(self.rng.randint(1, 2)))]
        return f" UNION {self.rng.choice(['ALL ', 'ALL ', ''])}".join(texts), names

    def _from(self, depth: int) -> tuple[str, list[str]]:
        text, seen = self._factor(depth)
        for _ in range(self.rng.choice([0, 1, 1])):
            other, more = self._factor(depth)
            op = self.rng.choice(["=", "=", "=", "<"])
            text, seen = f"{text} JOIN {other} ON {self.rng.choice(seen)} {op} {self.rng.choice(more)}", seen + more
        return text, seen

    def _where(self, seen: list[str]) -> str:
        return f" WHERE {self.rng.choice(seen)} <> {self.rng.randint(0, 4)}" if self.rng.random() < 0.4 else ""

    def _factor(self, depth: int) -> tuple[str, list[str]]:
        self.number += 1
        alias = f"t{self.number}"
        if depth and self.rng.random() < 0.6:
            text, names = self.derived(depth - 1)
            return f"({text}) AS {alias}", [f"{alias}.{name}" for name in names]
        name = self.rng.choice([*COLUMNS])
        return f"{name} {alias}", [f"{alias}.{column}" for column in COLUMNS[name]]


def some_rows(rng: random.Random, name: str, most: int = 6) -> pa.Table:
    """Rows of a stream."""
    names = COLUMNS[name]
    rows = [{n: None if rng.random() < 0.1 else rng.randrange(5) for n in names} for _ in range(rng.randint(0, most))]
    return pa.Table.from_pylist(rows, pa.schema([(column, pa.int64()) for column in names]))


def declare(session: weft.Session) -> weft.Session:
    """Declare the streams."""
    for name in COLUMNS:
        session.stream(name, weft.read.batches([some_rows(random.Random(0), name)]))
    return session


class Oracle:
    """DuckDB over all rows so far."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        for name, columns in COLUMNS.items():
            self.con.execute(f"CREATE TABLE {name} ({', '.join(f'{column} BIGINT' for column in columns)})")

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the rows of a batch."""
        for name, table in tables.items():
            self.con.register("fresh", table)
            self.con.execute(f"INSERT INTO {name} SELECT * FROM fresh")
            self.con.unregister("fresh")

    def rows(self, text: str) -> list[str]:
        """What a text means now."""
        return sorted(map(repr, self.con.execute(text).fetchall()))


def rows(table: pa.Table) -> list[str]:
    """The rows of an answer, in an order of their own."""
    return sorted(repr(tuple(row.values())) for row in table.to_pylist())


def check(text: str, rng: random.Random, *, workers: int = 2, batches: int = 4, **options: object) -> Trial:
    """Feed random batches, and compare after each of them."""
    session = declare(weft.Session("never-made", workers=workers))
    session.query("q", text, cross_product=True, **options)  # type: ignore[arg-type]
    trial, oracle = Trial(session), Oracle()
    for _ in range(batches):
        fresh = {name: some_rows(rng, name) for name in COLUMNS}
        trial.feed(fresh)
        oracle.add(fresh)
        assert rows(trial.table("q")) == oracle.rows(text), text
    return trial
