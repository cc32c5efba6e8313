"""Queries of a story: what Weft is asked, what DuckDB is asked, and where results go.

DuckDB's text is written by hand for each form, with the rule of windows spelled out: it shares nothing with Weft but
the rows.  DuckDB sees of a stream that changes the rows that are left.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.chaos.story import Input

Inputs = Mapping[str, "Input"]
KEEPS = ("parquet", "folders", "topic", "calls", "sqlite")
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
    sinks: tuple[str, ...] = ()


def ask(dice: random.Random, inputs: Inputs, has_topics: bool) -> tuple[Asked, ...]:
    """Two to four queries; the first keeps all streams whole."""
    forms = dice.sample(FORMS, dice.randint(1, 3))
    made = [chain(dice, inputs, "all", list(inputs))]
    made += [form(dice, inputs, f"q{number}") for number, form in enumerate(forms)]
    return tuple(_with_sinks(dice, query, inputs, has_topics) for query in made)


def extra(dice: random.Random, inputs: Inputs) -> Asked:
    """A query that comes and goes; what it needs of old rows, the first query has kept."""
    made = dice.choice((chain, grouped))(dice, inputs, "last")
    return _as(made, ("changes",) if made.is_view else ("parquet",))


def _with_sinks(dice: random.Random, query: Asked, inputs: Inputs, has_topics: bool) -> Asked:
    known = [sink for sink in (SHOWS if query.is_view else KEEPS) if has_topics or sink != "topic"]
    if query.keys:
        known += ["calls", "sqlite"]
    if query.closes and inputs[query.closes].is_filed:
        known.append("final")
    drawn = dice.sample(known, min(len(known), dice.choice((1, 2, 2, 3))))
    is_table = random.Random(query.sql).random() < 0.4  # dice of its own: stories stay what they were
    return _as(query, tuple("table" if is_table and sink == "folders" else sink for sink in drawn))


def _as(query: Asked, sinks: tuple[str, ...]) -> Asked:
    return Asked(query.name, query.sql, query.oracle, query.is_view, query.keys, query.closes, sinks)


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


FORMS: list[Callable[[random.Random, Inputs, str], Asked]] = [
    windowed, windowed, band, itself, outer, distinct, grouped, grouped, counted,
]  # fmt: skip


def _same(name: str, sql: str, is_view: bool) -> Asked:
    return Asked(name, sql, sql, is_view)


def _changes(inputs: Inputs, names: tuple[str, ...] | list[str]) -> bool:
    return any(inputs[name].way != "plain" for name in names)


def _some(dice: random.Random, inputs: Inputs, count: int) -> list[str]:
    return dice.sample(sorted(inputs), min(count, len(inputs)))


def _timed(dice: random.Random, inputs: Inputs, count: int) -> list[str]:
    known = sorted(name for name, given in inputs.items() if given.is_timed)
    return dice.sample(known, min(count, len(known)))
