"""Random queries of all kinds over streams that stay or change, compared with DuckDB after every batch.

    python -m tests.wide --n 1000 --seed 0      many cases in this process
    python -m tests.wide --seed 4711 --n 1 -v   one case again, printed in full
    python -m tests.wide --n 10 --spark         on Spark

A case is a function of its seed.  Each of four streams brings rows that stay, rows that are taken back, or rows that
replace others by their key.  A query has outer, semi and anti joins to some depth, subqueries, derived tables, groups,
UNION ALL, DISTINCT, and numbers of rows, cut off or not.  It is registered under several strategies; one that cannot
carry it must say so.  DuckDB reads the very text, over the rows that are left.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

import weft
from tests.outer import COLUMNS, RandomOuter
from tests.seeds import run_seeds
from weft.optimizer.wishes import STRATEGIES, TWO_WAY
from weft.testing import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
OP = "op"
MODES = ("stay", "stay", "change", "replace")


class Wide(RandomOuter):
    """Texts of random queries; derived tables stand where streams do."""

    depth = 1

    def text(self) -> str:
        """A query."""
        made = self._whole()
        return made if self.rng.random() < 0.75 else self._united(made)

    def _whole(self) -> str:
        return self._ranked()[0] if self.rng.random() < 0.35 else super().text()

    def _united(self, _: str) -> str:
        width = self.rng.randint(1, 2)
        return " UNION ALL ".join(self._plain(width) for _ in range(2))

    def _plain(self, width: int) -> str:
        source, seen = self._join(self.rng.randint(1, 2))
        items = ", ".join(f"{self.rng.choice(seen)} AS c{place}" for place in range(width))
        where = f" WHERE {self._condition(seen)}" if self.rng.random() < 0.4 else ""
        return f"SELECT {items} FROM {source}{where}"

    def _leaf(self) -> tuple[str, list[str]]:
        if not self.depth or self.rng.random() > 0.25:
            return super()._leaf()
        self.depth -= 1
        made = self.rng.choice((self._groups, self._ranked, self._ranked, self._different, self._added))
        text, names = made()
        self.depth += 1
        self.number += 1
        alias = f"t{self.number}"
        return f"({text}) AS {alias}", [f"{alias}.{name}" for name in names]

    def _groups(self) -> tuple[str, list[str]]:
        source, seen = self._join(self.rng.choice((1, 1, 2)))
        key, value = self.rng.choice(seen), self.rng.choice(seen)
        what = self.rng.choice(("COUNT(*)", f"MAX({value})", f"COUNT({value})", f"CAST(SUM({value}) AS BIGINT)"))
        return f"SELECT {key} AS k, {what} AS v FROM {source} GROUP BY {key}", ["k", "v"]

    def _different(self) -> tuple[str, list[str]]:
        return self._plain(2).replace("SELECT", "SELECT DISTINCT", 1), ["c0", "c1"]

    def _added(self) -> tuple[str, list[str]]:
        return f"{self._plain(2)} UNION ALL {self._plain(2)}", ["c0", "c1"]

    def _ranked(self) -> tuple[str, list[str]]:
        """Numbers of rows.  All columns that are read are in the order, so that there is one answer."""
        rng = self.rng
        source, seen = self._join(rng.choice((1, 1, 2, 2)))
        listed = rng.sample(seen, min(len(seen), rng.randint(1, 3)))
        items = ", ".join(f"{column} AS c{place}" for place, column in enumerate(listed))
        order = ", ".join(self._order(column) for column in rng.sample(listed, len(listed)))
        where = f" WHERE {self._condition(seen)}" if rng.random() < 0.3 else ""
        names, most = [f"c{place}" for place in range(len(listed))], rng.randint(1, 4)
        if rng.random() < 0.25:
            skip = f" OFFSET {rng.randint(0, 3)}" if rng.random() < 0.4 else ""
            return f"SELECT {items} FROM {source}{where} ORDER BY {order} LIMIT {most}{skip}", names
        by = f"PARTITION BY {rng.choice(listed)} " if rng.random() < 0.7 else ""
        kind = rng.choice(("ROW_NUMBER", "ROW_NUMBER", "RANK", "DENSE_RANK"))
        place = f"{kind}() OVER ({by}ORDER BY {order if kind == 'ROW_NUMBER' else self._order(listed[0])})"
        test = rng.choice((f"<= {most}", f"< {most + 1}", f"= {most}", f"BETWEEN 2 AND {most}", None))
        if test is None:
            return f"SELECT {items}, {place} AS n FROM {source}{where}", [*names, "n"]
        if rng.random() < 0.5:
            return f"SELECT {items} FROM {source}{where} QUALIFY {place} {test}", names
        return f"SELECT * FROM (SELECT {items}, {place} AS n FROM {source}{where}) WHERE n {test}", [*names, "n"]

    def _order(self, column: str) -> str:
        return column + self.rng.choice(("", " DESC", " NULLS FIRST", " DESC NULLS FIRST", " ASC NULLS LAST"))


@dataclass
class World:
    """A case: how streams change, what every batch brings, what is left after it, and the texts."""

    seed: int
    modes: dict[str, str]
    batches: list[dict[str, pa.Table]]
    left: list[dict[str, pa.Table]]
    texts: list[str]
    workers: int

    def session(self, folder: str, spark: SparkSession | None = None) -> weft.Session:
        """A session with the streams."""
        session = weft.Session(folder, workers=self.workers, progress=False, **({"spark": spark} if spark else {}))
        for name, mode in self.modes.items():
            how: dict[str, Any] = {"stay": {}, "change": {"changes": OP}, "replace": {"key": [COLUMNS[name][0]]}}[mode]
            session.stream(name, weft.read.batches([batch[name] for batch in self.batches]), **how)
        return session

    def describe(self) -> str:
        """All of it, for people."""
        rows = [
            f"  batch {i}: { {n: t.to_pylist() for n, t in b.items() if t.num_rows} }"
            for i, b in enumerate(self.batches)
        ]
        return "\n".join([f"seed {self.seed}, {self.workers} workers, {self.modes}", *self.texts, *rows])


def make_world(seed: int, texts: int = 1) -> World:
    """The case of a seed."""
    rng = random.Random(seed)
    modes = {name: rng.choice(MODES) for name in COLUMNS}
    here: dict[str, list[Row]] = {name: [] for name in COLUMNS}
    batches, left = [], []
    for _ in range(rng.randint(2, 4)):
        batches.append({name: _bring(rng, name, modes[name], rows) for name, rows in here.items()})
        left.append({name: pa.Table.from_pylist(rows, _schema(name)) for name, rows in here.items()})
    made = [Wide(rng, size=rng.choice((1, 2, 2, 3))).text() for _ in range(texts)]
    return World(seed, modes, batches, left, made, rng.randint(1, 3))


def _schema(name: str, *more: str) -> pa.Schema:
    return pa.schema([*((column, pa.int64()) for column in COLUMNS[name]), *((column, pa.string()) for column in more)])


def _bring(rng: random.Random, name: str, mode: str, here: list[Row]) -> pa.Table:
    """What a batch brings to a stream that has some rows; `here` is what it has then."""
    new = [
        {c: None if rng.random() < 0.15 else rng.randrange(4) for c in COLUMNS[name]} for _ in range(rng.randrange(5))
    ]
    if mode == "stay":
        here += new + new[:1]
        return pa.Table.from_pylist(new + new[:1], _schema(name))
    if mode == "replace":
        return _replace(new, name, here)
    gone = [here.pop(rng.randrange(len(here))) for _ in range(rng.randrange(len(here) + 1))]
    here += new
    rows = [*(row | {OP: "delete"} for row in gone), *(row | {OP: "insert"} for row in new)]
    rng.shuffle(rows)
    return pa.Table.from_pylist(rows, _schema(name, OP))


def _replace(new: list[Row], name: str, here: list[Row]) -> pa.Table:
    """Rows with a key that is there replace others; one with nothing but a key takes it away."""
    key, *rest = COLUMNS[name]
    for row in new:
        row[key] = row[key] or 0
        here[:] = [other for other in here if other[key] != row[key]]
        here += [row] if any(row[column] is not None for column in rest) else []
    return pa.Table.from_pylist(new, _schema(name))


def in_duckdb(text: str, tables: dict[str, pa.Table]) -> list[str]:
    """The answer to a text as a multiset that compares."""
    with duckdb.connect(config={"threads": 1}) as con:
        for name, table in tables.items():
            con.register(name, table)
        return sorted(map(str, con.sql(text).fetchall()))


def shown(table: pa.Table) -> list[str]:
    """The same of a table."""
    return sorted(str(tuple(row.values())) for row in table.to_pylist())


@dataclass
class Tally:
    """What was compared."""

    views: int = 0
    rows: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.views + other.views, self.rows + other.rows, self.kinds + other.kinds)

    def __str__(self) -> str:
        said = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kinds.items()))
        return f"{self.views} answers with {self.rows} rows compared; queries: {said}"


KINDS = {
    "outer": ("LEFT", "RIGHT", "FULL"),
    "semi or anti": ("SEMI", "ANTI"),
    "subquery": ("EXISTS", " IN (SELECT"),
    "ranked": (" OVER ",),
    "limited": (" LIMIT ",),
    "united": (" UNION ",),
    "derived": ("FROM (", "JOIN ("),
}


def register(session: weft.Session, world: World, strategy: str, tally: Tally) -> dict[str, str]:
    """Register every text under a strategy; name -> text of those that it can carry."""
    found = {}
    for place, text in enumerate(world.texts):
        name = f"q{place}"
        try:
            session.query(name, text, strategy=strategy, cross_product=True)
            session.explain("topology")
        except weft.WeftError as error:
            if strategy == "auto" or not error.hint:
                raise
            tally.kinds[f"refused by {strategy}"] += 1
            session.drop(name) if name in session.queries else None
            continue
        found[name] = text
        tally.kinds.update(kind for kind, words in KINDS.items() if any(word in text for word in words))
        tally.kinds[strategy] += 1
    return found


def some_strategies(rng: random.Random, most: int) -> list[str]:
    """Strategies other than the one by cost."""
    return rng.sample([one for one in (*STRATEGIES, *TWO_WAY) if one != "auto"], most)


def check_world(world: World) -> Tally:
    """Run the case in this process, under several strategies: parts of a query have the strategy of the query."""
    rng, tally = random.Random(world.seed + 1), Tally()
    for strategy in ("auto", *some_strategies(rng, 2)):
        session = world.session("never-made")
        if not (queries := register(session, world, strategy, tally)):
            continue
        trial = Trial(session)
        for batch, left in zip(world.batches, world.left, strict=True):
            trial.feed(batch)
            for name, text in queries.items():
                compare(trial.table(name), text, left, tally)
    return tally


def check_on_spark(world: World, spark: SparkSession) -> Tally:
    """Run the case on Spark under one strategy, and compare at the end."""
    rng, tally = random.Random(world.seed + 1), Tally()
    with tempfile.TemporaryDirectory(prefix="weft-wide-") as folder:
        session = world.session(folder, spark)
        queries = register(session, world, rng.choice(["auto", *some_strategies(rng, 3)]), tally)
        for name in queries:
            session.queries[name].to_memory()
        if queries:
            session.run()
        for name, text in queries.items():
            compare(session.queries[name].table(), text, world.left[-1], tally)
    return tally


def compare(found: pa.Table, text: str, left: dict[str, pa.Table], tally: Tally) -> None:
    """Compare an answer with that of DuckDB."""
    right = in_duckdb(text, left)
    assert shown(found) == right, f"{text}\n{shown(found)}\nbut DuckDB says\n{right}"
    tally.views += 1
    tally.rows += len(right)


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.wide",
        "random queries of all kinds",
        lambda seed, spark: make_world(seed, 4 if spark else 1),
        lambda world, spark: check_world(world) if spark is None else check_on_spark(world, spark),
        Tally(),
    )


if __name__ == "__main__":
    sys.exit(main())
