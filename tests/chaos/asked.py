"""Queries of a story: what Weft is asked, what DuckDB is asked, and where results go.

DuckDB's text is written by hand for each form, with the rule of windows spelled out: it shares nothing with Weft but
the rows.  DuckDB sees of a stream that changes the rows that are left, and of a table with versions all of them.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.story import Input

Inputs = Mapping[str, "Input"]
KEEPS = ("parquet", "folders", "topic", "calls", "sqlite", "remote")
"""Sinks of rows that stay."""
SHOWS = ("changes", "snapshot", "topic")
"""Sinks of views."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query."""

    name: str
    sql: str
    oracle: str
    is_view: bool = False
    keys: tuple[str, ...] = ()
    """Columns that name a group; of other views the rows are counted."""
    closes: str | None = None
    """The stream whose event time closes its windows."""
    waits: tuple[str, ...] = ()
    """Inputs whose event times must have passed that of a row, which is in its last column, before it is given out."""
    is_free: bool = True
    """Whether every strategy can carry it."""
    sinks: tuple[str, ...] = ()


def ask(dice: random.Random, inputs: Inputs, has_topics: bool, is_remote: bool) -> tuple[Asked, ...]:
    """Two to four queries, and one for each table; the first keeps all streams whole."""
    forms, streams = dice.sample(FORMS, dice.randint(1, 3)), _streams(inputs)
    made = [chain(dice, inputs, "all", streams)]
    made += [form(dice, inputs, f"q{number}") for number, form in enumerate(forms)]
    for name, given in inputs.items():
        if given.is_table:
            made.append(dice.choice(TABLE_FORMS[given.way])(dice, inputs, f"of_{name}", name))
    absent = {*(() if has_topics else ("topic",)), *(() if is_remote else ("remote",))}
    return tuple(_with_sinks(dice, query, inputs, absent) for query in made)


def extra(dice: random.Random, inputs: Inputs) -> Asked:
    """A query that comes and goes; what it needs of old rows, the first query has kept."""
    made = dice.choice((chain, grouped))(dice, inputs, "last")
    return _as(made, ("changes",) if made.is_view else ("parquet",))


def _with_sinks(dice: random.Random, query: Asked, inputs: Inputs, absent: set[str]) -> Asked:
    known = [sink for sink in (SHOWS if query.is_view else KEEPS) if sink not in absent]
    if query.keys:
        known += ["calls", "sqlite"]
    if query.closes and inputs[query.closes].is_filed:
        known.append("final")
    drawn = dice.sample(known, min(len(known), dice.choice((1, 2, 2, 3))))
    is_table = random.Random(query.sql).random() < 0.4  # dice of its own: stories stay what they were
    return _as(query, tuple("table" if is_table and sink == "folders" else sink for sink in drawn))


def _as(query: Asked, sinks: tuple[str, ...]) -> Asked:
    return replace(query, sinks=sinks)


# ------------------------------------------------------------------------------------------------ forms


def chain(dice: random.Random, inputs: Inputs, name: str, over: list[str] | None = None) -> Asked:
    """Full history: each stream with the next."""
    names = over or _some(dice, inputs, dice.randint(2, 3))
    joins = "".join(f" JOIN {y} ON {y}.k = {x}.m" for x, y in itertools.pairwise(names))
    columns = ("id", "k", "m", "v", "g") if over else ("id", "v", "g")
    listed = ", ".join(f"{x}.{column} AS {x}_{column}" for x in names for column in columns)
    return _same(name, f"SELECT {listed} FROM {names[0]}{joins}", _changes(inputs, names))


def windowed(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """Windows of event time."""
    names = _timed(dice, inputs, dice.choice((2, 2, 3)))
    width = {x: dice.choice((20, 40, 60)) for x in names}
    first, *others = names
    joins = "".join(f" JOIN {x} WITHIN INTERVAL '{width[x]}' SECOND ON {x}.g = {first}.g" for x in others)
    listed = ", ".join(f"{x}.id AS {x}_id" for x in names)
    sql = f"SELECT {listed} FROM {first} WITHIN INTERVAL '{width[first]}' SECOND{joins}"
    plain = "".join(f" JOIN {x} ON {x}.g = {first}.g" for x in others)
    newest = f"greatest({', '.join(f'{x}.ts' for x in names)})"
    within = " AND ".join(f"{newest} - {x}.ts < INTERVAL {width[x]} SECOND" for x in names)
    return Asked(name, sql, f"SELECT {listed} FROM {first}{plain} WHERE {within}")


def band(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """An inequality on both sides."""
    x, y = _some(dice, inputs, 2)
    sql = f"SELECT {x}.id AS x, {y}.id AS y FROM {x} JOIN {y} ON {x}.k < {y}.m AND {y}.m <= {x}.k + 1"
    return _same(name, f"{sql} WHERE {y}.v % 3 = 0", _changes(inputs, (x, y)))


def itself(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """A stream with itself."""
    (x,) = _some(dice, inputs, 1)
    return _same(name, f"SELECT p.id AS p, q.id AS q, q.s FROM {x} p JOIN {x} q ON q.k = p.m", _changes(inputs, (x,)))


def outer(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """A row without partner is shown until one comes."""
    x, y = _some(dice, inputs, 2)
    how = dice.choice(("LEFT", "FULL"))
    return _same(name, f"SELECT {x}.id AS x, {y}.id AS y, {y}.v FROM {x} {how} JOIN {y} ON {y}.k = {x}.m", True)


def distinct(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """Every row once."""
    x, y = _some(dice, inputs, 2)
    sql = f"SELECT DISTINCT {x}.g AS x, {y}.g AS y FROM {x} JOIN {y} ON {y}.k = {x}.m"
    return _same(name, sql, _changes(inputs, (x, y)))


def grouped(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """Sums over a join."""
    x, y = _some(dice, inputs, 2)
    having = dice.choice(("", f" HAVING SUM({y}.v) % 2 = 0"))
    sql = f"""SELECT {x}.g AS g, COUNT(*) AS n, SUM({y}.v)::BIGINT AS total, MIN({y}.v) AS least
        FROM {x} JOIN {y} ON {y}.k = {x}.m GROUP BY {x}.g{having}"""
    return Asked(name, sql.replace("::BIGINT", ""), sql, True, ("g",))


def counted(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """Counts in windows of event time."""
    (x,) = _timed(dice, inputs, 1)
    sql = f"""SELECT window.start AS start, {x}.g AS g, COUNT(*) AS n, MAX({x}.v) AS most
        FROM {x} WHERE {x}.g < 12 GROUP BY window({x}.ts, '1 minute'), {x}.g"""
    plain = f"""SELECT time_bucket(INTERVAL 1 MINUTE, {x}.ts) AS start, {x}.g AS g, COUNT(*) AS n, MAX({x}.v) AS most
        FROM {x} WHERE {x}.g < 12 GROUP BY ALL"""
    return Asked(name, sql, plain, True, ("start", "g"), x)


def nearest(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """The last row before a time, by full history; of several the one with the greatest number."""
    x, y = _timed(dice, inputs, 2)
    how = dice.choice(("", "LEFT "))
    sql = f"SELECT {x}.id AS x, {y}.id AS y FROM {x} ASOF {how}JOIN {y} ON {x}.g = {y}.g AND {x}.ts >= {y}.ts"
    ranked = f"row_number() OVER (PARTITION BY {x}.id ORDER BY {y}.ts DESC, {y}.id DESC) AS r"
    joined = f"{x} {how}JOIN {y} ON {x}.g = {y}.g AND {x}.ts >= {y}.ts"
    oracle = f"SELECT x, y FROM (SELECT {x}.id AS x, {y}.id AS y, {ranked} FROM {joined}) WHERE r = 1"
    return Asked(name, sql, oracle, is_view=True, is_free=False)


def partnered(dice: random.Random, inputs: Inputs, name: str) -> Asked:
    """Rows that have a partner, or that have none."""
    x, y = _some(dice, inputs, 2)
    condition, is_taken_back = dice.choice(
        (
            (f"EXISTS (SELECT 1 FROM {y} WHERE {y}.k = {x}.m AND {y}.v > 20)", False),
            (f"{x}.m IN (SELECT {y}.k FROM {y} WHERE {y}.v > 20)", False),
            (f"NOT EXISTS (SELECT 1 FROM {y} WHERE {y}.k = {x}.m AND {y}.v > 80)", True),
            (f"{x}.g NOT IN (SELECT {y}.g FROM {y} WHERE {y}.v > 97)", True),
        )
    )
    changes = is_taken_back or _changes(inputs, (x, y))
    return _same(name, f"SELECT {x}.id AS id, {x}.v AS v FROM {x} WHERE {condition}", changes)


FORMS: list[Callable[[random.Random, Inputs, str], Asked]] = [
    windowed, windowed, band, itself, outer, distinct, grouped, grouped, counted, nearest, partnered, partnered,
]  # fmt: skip


def looked_up(dice: random.Random, inputs: Inputs, name: str, table: str) -> Asked:
    """Rows of a stream with a table that is read once."""
    x = dice.choice([one for one, given in inputs.items() if given.way == "plain"])
    on = f"{x}.g = {table}.id AND {table}.v > 30"
    how = dice.choice((f"JOIN {table} ON {on}", f"LEFT JOIN {table} ON {on}"))
    return _same(name, f"SELECT {x}.id AS x, {table}.v AS v, {table}.s AS s FROM {x} {how}", False)


def present(dice: random.Random, inputs: Inputs, name: str, table: str) -> Asked:
    """Rows of a stream with a table as it is when they come.  All keys are there from the first batch on, for good."""
    x = dice.choice([one for one, given in inputs.items() if given.way == "plain"])
    sql = f"SELECT {x}.id AS x, {table}.id AS t FROM {x} JOIN {table} ON {table}.id = {x}.g AND {table}.v >= 0"
    return Asked(name, sql, f"SELECT x.id AS x, x.g AS t FROM {x} x", is_free=False)


def versions(dice: random.Random, inputs: Inputs, name: str, table: str) -> Asked:
    """Rows of a stream with the version of a table that held at their time."""
    filed = [one for one, given in inputs.items() if given.way == "plain" and given.is_filed]
    if not filed or not inputs[table].is_filed:  # of topics it is not known here which rows the watermark has passed
        return present(dice, inputs, name, table)
    x = dice.choice(filed)
    listed = f"SELECT {x}.id AS x, {table}.v AS v, {x}.ts AS ts FROM {x}"
    sql = f"{listed} JOIN {table} FOR SYSTEM_TIME AS OF {x}.ts AS {table} ON {table}.id = {x}.g"
    oracle = f"{listed} ASOF JOIN {table} ON {table}.id = {x}.g AND {x}.ts >= {table}.ts"
    return Asked(name, sql, oracle, waits=(x, table), is_free=False)


TABLE_FORMS: Mapping[str, tuple[Callable[[random.Random, Inputs, str, str], Asked], ...]] = {
    "once": (looked_up,),
    "versions": (present, versions),
}


def _same(name: str, sql: str, is_view: bool) -> Asked:
    return Asked(name, sql, sql, is_view)


def _changes(inputs: Inputs, names: tuple[str, ...] | list[str]) -> bool:
    return any(inputs[name].way != "plain" for name in names)


def _streams(inputs: Inputs) -> list[str]:
    return [name for name, given in inputs.items() if not given.is_table]


def _some(dice: random.Random, inputs: Inputs, count: int) -> list[str]:
    known = sorted(_streams(inputs))
    return dice.sample(known, min(count, len(known)))


def _timed(dice: random.Random, inputs: Inputs, count: int) -> list[str]:
    known = sorted(name for name, given in inputs.items() if given.is_timed)
    return dice.sample(known, min(count, len(known)))
