"""Random joins with tables: present ones, versions as of a time, nearest rows; DuckDB after every batch.

    python -m tests.tabled --n 1000 --seed 0      many cases in this process
    python -m tests.tabled --seed 4711 --n 1 -v   one case again, printed in full
    python -m tests.tabled --n 5 --spark          tables whose files are read again, on Spark

A case is a function of its seed.  It is registered under the strategy by cost and two others; one that cannot carry it
must say so, with a hint.

*Present:* tables are read once, replaced by key, added to and taken from, or both.  Of the joins of all rows of the
streams with the tables as they are now, those are added in a batch whose last stream row came in it.
*Dated:* FOR SYSTEM_TIME AS OF, and ASOF joins with windows; a clock says which rows are final.
*Several:* FOR SYSTEM_TIME AS OF the times of two streams that are joined, and of one of them.
*Nearest:* ASOF joins over full history, whose right sides stay or change; DuckDB reads the very text.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from tests.query import test_asof, test_versions
from tests.seeds import run_seeds
from tests.wide import Tally, some_strategies
from weft.testing import Trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
STREAMS, TABLES = {"a": ("k", "j", "x"), "b": ("k", "j", "y")}, {"t": ("k", "v", "w"), "u": ("k", "v", "z")}
COLUMNS = STREAMS | TABLES
HOW: dict[str, dict[str, Any]] = {
    "once": {}, "replaced": {"key": ["k"]}, "counted": {"changes": "op"}, "told": {"key": ["k"], "changes": "op"},
}  # fmt: skip


def rows_of(name: str, rows: Sequence[Row], *more: str) -> pa.Table:
    """Rows of a stream or a table; some columns say more of them."""
    kinds = {"op": pa.string(), "n": pa.int64()}
    fields = [*((column, pa.int64()) for column in COLUMNS[name]), *((column, kinds[column]) for column in more)]
    return pa.Table.from_pylist(list(rows), pa.schema(fields))


@dataclass
class Present:
    """Rows of streams and tables as they come, and what is there now."""

    rng: random.Random
    modes: dict[str, str]
    here: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    number: int = -1

    @staticmethod
    def of(rng: random.Random) -> Present:
        """With tables of random kinds."""
        return Present(rng, {name: rng.choice(list(HOW)) for name in TABLES})

    def session(self, folder: str, workers: int) -> weft.Session:
        """A session with the streams and the tables."""
        session = weft.Session(folder, workers=workers, progress=False)
        for name in STREAMS:
            session.stream(name, weft.read.batches([rows_of(name, [])]))
        for name, mode in self.modes.items():
            session.table(name, weft.read.batches([rows_of(name, [], *self._told(name))]), **HOW[mode])
        return session

    def batch(self) -> dict[str, pa.Table]:
        """The next batch."""
        self.number += 1
        made = {name: self._stream(name) for name in STREAMS}
        for name, mode in self.modes.items():
            if mode != "once" or not self.number:
                made[name] = self._table(name, mode)
        return made

    def _told(self, name: str) -> tuple[str, ...]:
        return ("op",) if "changes" in HOW[self.modes[name]] else ()

    def _row(self, name: str, key: int | None) -> Row:
        rest = {column: self.rng.choice((0, 1, 2, 3, None)) for column in COLUMNS[name][1:]}
        return {"k": key, **rest}

    def _stream(self, name: str) -> pa.Table:
        rng = self.rng
        new = [self._row(name, rng.choice((0, 1, 2, 3, None))) for _ in range(rng.randrange(5))]
        self.here[name] += [row | {"n": self.number} for row in new]
        return rows_of(name, new)

    def _table(self, name: str, mode: str) -> pa.Table:
        rng, here = self.rng, self.here[name]
        new = list[Row]()
        for _ in range(rng.randrange(5)):
            keyed = "key" in HOW[mode]
            row = self._row(name, rng.randrange(4) if keyed else rng.choice((0, 1, 2, None)))
            there = [one for one in here if one["k"] == row["k"]] if keyed else here
            gone = rng.choice(there) if there and mode != "once" and rng.random() < 0.4 else None
            if gone is not None:
                here.remove(gone)
                new.append({"k": gone["k"]} if mode == "replaced" else gone | {"op": "delete"})
                continue
            if keyed:
                here[:] = [one for one in here if one["k"] != row["k"]]
                row["v"] = row["v"] or 0
            here.append(row)
            new.append(row | ({"op": "insert"} if self._told(name) else {}))
        return rows_of(name, new, *self._told(name))

    def ask(self, text: str) -> pa.Table:
        """What DuckDB says now; rows of streams have their batch in `n`."""
        with duckdb.connect(config={"threads": 1}) as con:
            for name, rows in self.here.items():
                con.register(name, rows_of(name, rows, *(("n",) if name in STREAMS else ())))
            return con.sql(text).to_arrow_table()


@dataclass(frozen=True)
class Asked:
    """A query whose results are added, and what may be made of them."""

    text: str
    came: str
    """The batch in which a result comes."""
    around: str = ""
    """A view over the results, which are called `d` there."""

    @property
    def whole(self) -> str:
        return self.around.replace("FROM d", f"FROM ({self.text}) AS d") if self.around else self.text

    def at(self, number: int) -> str:
        """The results of a batch."""
        return f"{self.text} AND {self.came} = {number}"


def present_text(rng: random.Random) -> Asked:
    """A join of streams and tables."""
    streams = rng.choice((["a"], ["b"], ["a", "b"], ["a", "b"]))
    seen = [f"{name}.{column}" for name in streams for column in STREAMS[name]]
    source = streams[0] if len(streams) == 1 else f"a JOIN b ON a.{rng.choice('kj')} = b.{rng.choice('kj')}"
    tests, read = ["TRUE"], list(seen)
    for place in range(rng.choice((1, 1, 2))):
        name, alias = rng.choice(list(TABLES)), f"t{place}"
        op = rng.choice(("=", "=", "=", "<", ">="))
        on = f"{alias}.{rng.choice(('k', 'k', 'v'))} {op} {rng.choice(seen)}"
        on += f" AND {alias}.v {rng.choice(('>', '<>'))} {rng.randrange(3)}" if rng.random() < 0.3 else ""
        manner = rng.choice(
            ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "EXISTS", "NOT EXISTS", "IN")
        )
        if manner == "IN":
            tests.append(f"{rng.choice(seen)} IN (SELECT {alias}.k FROM {name} {alias} WHERE {alias}.v > 0)")
        elif "EXISTS" in manner:
            tests.append(f"{manner} (SELECT 1 FROM {name} {alias} WHERE {on})")
        else:
            of = f"{name} FOR SYSTEM_TIME AS OF now() AS {alias}" if rng.random() < 0.2 else f"{name} {alias}"
            source += f" {manner} {of} ON {on}"
            read += [] if manner[:4] in ("SEMI", "ANTI") else [f"{alias}.{column}" for column in TABLES[name]]
    tests += [f"{rng.choice(seen)} > 0"] if rng.random() < 0.3 else []
    items = ", ".join(f"{rng.choice(read)} AS c{place}" for place in range(2))
    text = f"SELECT {items} FROM {source} WHERE {' AND '.join(tests)}"
    around = rng.choice(
        ("", "", "SELECT c0, COUNT(*) AS n, MAX(c1) AS m FROM d GROUP BY c0", "SELECT DISTINCT c1 FROM d")
    )
    came = streams[0] + ".n" if len(streams) == 1 else "greatest(a.n, b.n)"
    return Asked(text, came, around)


def shown(table: pa.Table) -> list[str]:
    """A table as a multiset that compares."""
    return sorted(str(tuple(row.values())) for row in table.to_pylist())


def make_present(seed: int) -> tuple[Present, Asked, list[dict[str, pa.Table]], list[list[str]]]:
    """A case, its batches, and the answer after each of them."""
    rng = random.Random(seed)
    world, asked = Present.of(rng), present_text(rng)
    batches, answers, given = list[dict[str, pa.Table]](), list[list[str]](), list[pa.Table]()
    for number in range(rng.randint(2, 5)):
        batches.append(world.batch())
        without_now = asked.at(number).replace(" FOR SYSTEM_TIME AS OF now()", "")
        given.append(world.ask(without_now))
        answers.append(_made(asked, pa.concat_tables(given)))
    return world, asked, batches, answers


def _made(asked: Asked, d: pa.Table) -> list[str]:
    if not asked.around:
        return shown(d)
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("d", d)
        return shown(con.sql(asked.around).to_arrow_table())


# ------------------------------------------------------------------------------------------------- versions


def dated_text(rng: random.Random) -> test_versions.Asked:
    """Versions of a table and nearest rows of a stream, both final; the oracle chains ASOF LEFT JOINs."""
    parts = rng.choice((["r"], ["b"], ["r", "b"], ["b", "r"]))
    written, chained, items, tests, read = "o", "o", ["o.v"], list[str](), ["o.v AS c0"]
    for place, name in enumerate(parts, 1):
        left, test = rng.choice(("", "LEFT ")), rng.choice(("TRUE", "TRUE", f"{name}.v % 2 = 0"))
        op = ">=" if name == "r" else rng.choice((">=", ">"))
        chained += f" ASOF LEFT JOIN {name} ON o.k = {name}.k AND o.ts {op} {name}.ts"
        near = "TRUE"
        if name == "r":
            written += f" {left}JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k AND {test}"
        else:
            window, test = rng.randint(2, 12), "TRUE"
            near = f"o.ts - b.ts < {window}"
            written += f" ASOF {left}JOIN b WITHIN INTERVAL '{window}' SECOND ON o.k = b.k AND o.ts {op} b.ts"
        value = f"CASE WHEN {test} AND {near} THEN {name}.v END"
        items.append(f"{value} AS c{place}")
        read.append(f"{name}.v AS c{place}")
        tests += [] if left else [f"{value} IS NOT NULL"]
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    oracle = f"SELECT {', '.join(items)} FROM {chained}{where}"
    return test_versions.Asked(f"SELECT {', '.join(read)} FROM {written}", "".join(["o", *parts]), oracle)


def several_text(rng: random.Random) -> test_versions.Asked:
    """Versions as of the times of two streams; the oracle chains ASOF LEFT JOINs behind the join of the streams."""
    on = rng.choice(("o.k = b.k", "o.k = b.k AND o.v < b.v", "o.k <> b.k AND o.v > b.v"))
    kind = rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
    written, chained, tests = f"o {kind} b ON {on}", f"o {kind} c AS b ON {on}", list[str]()
    items, read, of = ["o.v AS c0", "b.v AS c1"], ["o.v AS c0", "b.v AS c1"], list[str]()
    for place in range(rng.choice((1, 2, 2, 3))):
        table, stream, alias = rng.choice("ru"), rng.choice("ob"), f"t{place}"
        left, test = rng.choice(("", "LEFT ")), rng.choice(("TRUE", "TRUE", f"{alias}.v % 2 = 0", f"{alias}.v > o.v"))
        key = f"{alias}.k = {rng.choice('ob')}.k"
        written += f" {left}JOIN {table} FOR SYSTEM_TIME AS OF {stream}.ts AS {alias} ON {key} AND {test}"
        chained += f" ASOF LEFT JOIN {table} AS {alias} ON {key} AND {stream}.ts >= {alias}.ts"
        value = f"CASE WHEN {test} THEN {alias}.v END"
        items.append(f"{value} AS c{place + 2}")
        read.append(f"{alias}.v AS c{place + 2}")
        tests += [] if left else [f"{value} IS NOT NULL"]
        of += [table, stream]
    some = "EXISTS (SELECT 1 FROM {} WHERE e.k = o.k AND e.v > o.v)"
    asks = rng.random() < 0.3
    where = f" WHERE {' AND '.join([*tests, *([some.format('e')] if asks else [])])}" if tests or asks else ""
    text = f"SELECT {', '.join(read)} FROM {written}{' WHERE ' + some.format('b AS e') if asks else ''}"
    oracle, around = (
        f"SELECT {', '.join(items)} FROM {chained}{where}",
        "SELECT c0, COUNT(*) AS n, MAX(c2) AS m FROM ({}) d",
    )
    if rng.random() < 0.3:
        text, oracle = (f"{around.format(one)} GROUP BY c0" for one in (text, oracle))
    return test_versions.Asked(text, "".join({"o", "b", *of}), oracle, waiting="".join({*of} & {"o", "b"}))


# -------------------------------------------------------------------------------------------- nearest rows


@dataclass
class Nearest:
    """Rows of three streams; those of b and c may change, and never have the key and the time of others."""

    rng: random.Random
    modes: dict[str, str]
    here: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in "abc"})
    number: int = 0

    @staticmethod
    def of(rng: random.Random) -> Nearest:
        """With right sides of random kinds."""
        return Nearest(rng, {name: rng.choice(("once", "counted", "replaced")) for name in "bc"})

    def session(self, folder: str, workers: int) -> weft.Session:
        """A session with the streams."""
        session = weft.Session(folder, workers=workers, progress=False)
        session.stream("a", weft.read.batches([self._rows("a", [])]))
        for name, mode in self.modes.items():
            how = {"once": {}, "counted": {"changes": "op"}, "replaced": {"key": ["y"]}}[mode]
            session.stream(name, weft.read.batches([self._rows(name, [])]), **how)
        return session

    def _rows(self, name: str, rows: Sequence[Row]) -> pa.Table:
        schema = test_asof.LEFT if name == "a" else test_asof.RIGHT
        more = [("op", pa.string())] if self.modes.get(name) == "counted" else []
        return pa.Table.from_pylist(list(rows), pa.schema([*schema, *more]))

    def batch(self) -> dict[str, pa.Table]:
        """The next batch."""
        rng = self.rng
        new = [self._row(name="x", value=rng.randrange(100)) for _ in range(rng.randrange(6))]
        self.here["a"] += new
        return {"a": self._rows("a", new)} | {name: self._right(name, mode) for name, mode in self.modes.items()}

    def _row(self, name: str, value: int) -> Row:
        rng = self.rng
        return {"k": rng.choice((0, 1, 2, None)), "ts": rng.choice((None, *range(20), *range(20))), name: value}

    def _right(self, name: str, mode: str) -> pa.Table:
        rng, here, new = self.rng, self.here[name], list[Row]()
        for _ in range(rng.randrange(6)):
            self.number += 1
            row = self._row("y", self.number)
            there = here and rng.random() < 0.4
            if there and mode == "counted":
                new.append(here.pop(rng.randrange(len(here))) | {"op": "delete"})
                continue
            if there and mode == "replaced":
                row["y"] = here.pop(rng.randrange(len(here)))["y"]
            if any((one["k"], one["ts"]) == (row["k"], row["ts"]) for one in here):
                row["ts"] = None
            if row["ts"] is None and row["k"] is None:
                row["k"] = 0
            here.append(row)
            new.append(row | ({"op": "insert"} if mode == "counted" else {}))
        return self._rows(name, new)

    def answer(self, text: str) -> list[str]:
        """DuckDB's, over what is there."""
        with duckdb.connect(config={"threads": 1}) as con:
            for name, rows in self.here.items():
                schema = test_asof.LEFT if name == "a" else test_asof.RIGHT
                con.register(name, pa.Table.from_pylist(rows, schema))
            return sorted(map(str, con.sql(text).fetchall()))


# --------------------------------------------------------------------------------------------------- checks


@dataclass(frozen=True)
class Case:
    """A query over batches, and the answers after them."""

    seed: int
    kind: str
    text: str
    batches: list[dict[str, pa.Table]]
    answers: list[list[str]]
    world: Any

    def session(self) -> weft.Session:
        """A session with its streams and tables."""
        workers = 1 + self.seed % 3
        return (
            test_versions.session("never-made", workers)
            if self.world is None
            else self.world.session("never-made", workers)
        )

    def describe(self) -> str:
        """All of it, for people."""
        modes = getattr(self.world, "modes", "")
        fed = [
            f"  batch {i}: { {n: t.to_pylist() for n, t in b.items() if t.num_rows} }"
            for i, b in enumerate(self.batches)
        ]
        return "\n".join([f"seed {self.seed}, {self.kind} {modes}", self.text, *fed])


def make_case(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    kind = rng.choice(("present", "present", "dated", "several", "nearest"))
    if kind == "present":
        world, asked, batches, answers = make_present(seed)
        return Case(seed, kind, asked.whole, batches, answers, world)
    if kind in ("dated", "several"):
        wanted, rows = (dated_text if kind == "dated" else several_text)(rng), test_versions.batches(rng, 6)
        clock = test_versions.Clock(wanted.streams)
        answers = [clock.answer(wanted, clock.take(batch)) for batch in rows]
        fed = [test_versions.fed(batch, number) for number, batch in enumerate(rows)]
        return Case(seed, kind, wanted.text, fed, answers, None)
    near, text = Nearest.of(rng), test_asof.random_text(rng)
    pairs = [(near.batch(), near.answer(text)) for _ in range(rng.randint(2, 5))]
    return Case(seed, kind, text, [batch for batch, _ in pairs], [answer for _, answer in pairs], near)


def check(case: Case) -> Tally:
    """Run a case in this process under several strategies."""
    tally, rng = Tally(kinds=Counter([case.kind])), random.Random(case.seed + 1)
    for strategy in ("auto", *some_strategies(rng, 2)):
        session = case.session()
        try:
            session.query("q", case.text, strategy=strategy, cross_product=True)
            session.explain("topology")
        except weft.WeftError as error:
            if strategy == "auto" or not error.hint:
                raise
            tally.kinds[f"refused by {strategy}"] += 1
            continue
        tally.kinds[strategy] += 1
        trial = Trial(session)
        for number, (batch, answer) in enumerate(zip(case.batches, case.answers, strict=True)):
            trial.feed(batch)
            found = shown(trial.table("q"))
            assert found == answer, f"{strategy}, batch {number}\n{found}\nbut DuckDB says\n{answer}"
            tally.views += 1
            tally.rows += len(answer)
    return tally


@dataclass(frozen=True)
class Refreshed:
    """A case with tables whose files are read again."""

    seed: int

    def describe(self) -> str:
        """The case, for people."""
        return f"seed {self.seed}, tables that are read again"


def check_refreshed(seed: int, spark: SparkSession) -> Tally:
    """A table whose files are read again, on Spark: each round has other files, and is a batch."""
    rng, tally = random.Random(seed), Tally(kinds=Counter(["refreshed"]))
    world = Present(rng, {"t": "counted", "u": "counted"})
    asked, given = present_text(rng), list[pa.Table]()
    with tempfile.TemporaryDirectory(prefix="weft-tabled-") as folder:
        for number in range(3):
            _write(Path(folder), world.batch(), world.here, number)
            session = weft.Session(f"{folder}/state", workers=2, progress=False, spark=spark)
            for name in STREAMS:
                session.stream(name, weft.read.parquet(f"{folder}/{name}"))
            for name in TABLES:
                session.table(name, weft.read.parquet(f"{folder}/{name}"), refresh=True)
            query = session.query("q", asked.whole, cross_product=True)
            query.to_parquet(f"{folder}/out", **({"mode": "snapshot"} if query.query.is_view else {}))
            session.run()
            given.append(world.ask(asked.at(number).replace(" FOR SYSTEM_TIME AS OF now()", "")))
            answer = _made(asked, pa.concat_tables(given))
            found = shown(_read(Path(folder, "out")))
            assert found == answer, f"{asked.whole}\nbatch {number}\n{found}\nbut DuckDB says\n{answer}"
            tally.views += 1
            tally.rows += len(answer)
    return tally


def _write(folder: Path, batch: Mapping[str, pa.Table], here: Mapping[str, list[Row]], number: int) -> None:
    for name in STREAMS:
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(batch[name], folder / name / f"{number}.parquet")
    for name in TABLES:
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(rows_of(name, here[name]), folder / "new.parquet")
        (folder / "new.parquet").rename(folder / name / "all.parquet")


def _read(folder: Path) -> pa.Table:
    files = sorted(folder.rglob("[!_.]*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else pa.table({})


def cases(first: int, count: int) -> Iterator[Case]:
    """Some cases in a row."""
    return (make_case(seed) for seed in range(first, first + count))


def main() -> int:
    """The command line; on Spark, tables whose files are read again."""
    return run_seeds(
        "tests.tabled",
        "random joins with tables",
        lambda seed, spark: make_case(seed) if spark is None else Refreshed(seed),
        lambda case, spark: check(case) if spark is None else check_refreshed(case.seed, spark),
        Tally(),
    )


if __name__ == "__main__":
    sys.exit(main())
