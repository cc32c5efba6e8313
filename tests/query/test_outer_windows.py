"""Outer joins whose partners are bounded in time: a padded row comes once, when no partner can come any more."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pytest

import weft
from tests.outer import connect
from weft.errors import WeftError
from weft.testing import Trial

BEGIN = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - SQL's TIMESTAMP has no zone
LONG = 10_000
Row = tuple[int | None, int]


def table(rows: Sequence[Row]) -> pa.Table:
    times = [BEGIN + dt.timedelta(minutes=minute) for _, minute in rows]
    return pa.table({"k": pa.array([k for k, _ in rows], pa.int64()), "ts": pa.array(times, pa.timestamp("us"))})


def start(text: str, lateness: str = "0 seconds") -> Trial:
    session = weft.Session("never-made", workers=2)
    for name in "abc":
        session.stream(name, weft.read.batches([table([])]), event_time="ts", lateness=lateness)
    session.query("q", text)
    return Trial(session)


def found(trial: Trial) -> Counter[str]:
    rows = (tuple(row.values()) for row in trial.table("q").to_pylist())
    flush = BEGIN + dt.timedelta(minutes=LONG)
    return Counter(str(row) for row in rows if not any(isinstance(v, dt.datetime) and v >= flush for v in row))


def answer(text: str, fed: dict[str, list[Row]]) -> Counter[str]:
    with connect({name: table(rows) for name, rows in fed.items()}) as con:
        return Counter(map(str, con.sql(text).fetchall()))


def later(batch: int) -> dict[str, pa.Table]:
    return {name: table([(None, LONG * (batch + 1))]) for name in "abc"}


BAND = "{0}.ts BETWEEN {1}.ts - INTERVAL '{2}' MINUTE AND {1}.ts + INTERVAL '{3}' MINUTE"


def random_text(rng: random.Random) -> str:
    """A query in which bands bound all partners."""

    def on(left: str, right: str) -> str:
        more = rng.choice(("", f" AND {right}.k <> 2", f" AND {left}.k > 0"))
        return f"{left}.k = {right}.k AND " + BAND.format(right, left, rng.randrange(9), rng.randrange(9)) + more

    kind = rng.choice(("LEFT", "LEFT", "RIGHT", "FULL"))
    text = f"SELECT a.k AS k, a.ts AS t, b.ts AS u FROM a {kind} JOIN b ON {on('a', 'b')}"
    if rng.random() < 0.5 and kind == "LEFT":
        text = text.replace(" FROM", ", c.ts AS v FROM") + f" LEFT JOIN c ON {on('a', 'c')}"
    if rng.random() < 0.3 and kind != "FULL":
        exists = f"EXISTS (SELECT 1 FROM c AS d WHERE {on('b' if kind == 'RIGHT' else 'a', 'd')})"
        text += f" WHERE {rng.choice(('', 'NOT '))}{exists}"
    return text


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_results_are_only_added_and_in_the_end_all_are_there(seed: int) -> None:
    rng = random.Random(seed)
    text = random_text(rng)
    trial, fed = start(text, "20 minutes"), {name: list[Row]() for name in "abc"}
    shown = [Counter[str]()]
    for batch in range(4):
        new = {n: [(rng.randrange(3), 5 * batch + rng.randrange(20)) for _ in range(rng.randrange(4))] for n in "abc"}
        trial.feed({name: table(rows) for name, rows in new.items()})
        fed = {name: [*fed[name], *new[name]] for name in fed}
        shown.append(found(trial))
    for batch in range(3):
        trial.feed(later(batch))
    expected = answer(text, fed)
    assert found(trial) == expected, text
    assert all(before <= after for before, after in zip(shown, [*shown[1:], expected], strict=True)), text


WINDOWED = [
    (
        "SELECT a.k AS k, a.ts AS t, b.ts AS u FROM a LEFT JOIN b ON a.k = b.k WITHIN INTERVAL '10' MINUTE",
        (
            "SELECT a.k AS k, a.ts AS t, b.ts AS u FROM a LEFT JOIN b ON a.k = b.k"
            " AND b.ts < a.ts + INTERVAL 10 MINUTE AND a.ts < b.ts + INTERVAL 10 MINUTE"
        ),
    ),
    (
        (
            "SELECT a.k AS k, a.ts AS t, b.ts AS u, c.ts AS v FROM a WITHIN INTERVAL '9' MINUTE"
            " LEFT JOIN b WITHIN INTERVAL '3' MINUTE ON a.k = b.k LEFT JOIN c WITHIN INTERVAL '5' MINUTE ON a.k = c.k"
        ),
        (
            "SELECT a.k AS k, a.ts AS t, b.ts AS u, c.ts AS v FROM a LEFT JOIN b ON a.k = b.k"
            " AND b.ts < a.ts + INTERVAL 9 MINUTE AND a.ts < b.ts + INTERVAL 3 MINUTE LEFT JOIN c ON a.k = c.k"
            " AND c.ts < a.ts + INTERVAL 9 MINUTE AND a.ts < c.ts + INTERVAL 5 MINUTE"
            " AND (b.ts IS NULL OR (c.ts < b.ts + INTERVAL 3 MINUTE AND b.ts < c.ts + INTERVAL 5 MINUTE))"
        ),
    ),
    (
        "SELECT a.k AS k, a.ts AS t FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k) WITHIN '10 minutes'",
        (
            "SELECT a.k AS k, a.ts AS t FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.k = b.k"
            " AND b.ts < a.ts + INTERVAL 10 MINUTE AND a.ts < b.ts + INTERVAL 10 MINUTE)"
        ),
    ),
]


@pytest.mark.parametrize(("text", "spelled"), WINDOWED)
def test_a_window_is_a_condition_of_its_join(text: str, spelled: str) -> None:
    rng = random.Random(7)
    trial, fed = start(text, "20 minutes"), {name: list[Row]() for name in "abc"}
    for batch in range(4):
        new = {name: [(rng.randrange(3), 5 * batch + rng.randrange(20)) for _ in range(4)] for name in "abc"}
        trial.feed({name: table(rows) for name, rows in new.items()})
        fed = {name: [*fed[name], *new[name]] for name in fed}
    for batch in range(3):
        trial.feed(later(batch))
    assert found(trial) == answer(spelled, fed)


def test_a_padded_row_comes_when_the_watermark_has_passed_its_bound() -> None:
    trial = start("SELECT a.k AS k FROM a LEFT JOIN b ON a.k = b.k AND " + BAND.format("b", "a", 0, 10))
    seen = []
    for minute in (1, 10, 12, 13, 14):
        trial.feed({"a": table([(minute, minute)]), "b": table([(99, minute)])})
        seen.append(sorted(row["k"] for row in trial.table("q").to_pylist()))
    # The row of minute 1 waits until minute 11: the watermark at the start of the fourth batch is 12.
    assert seen == [[], [], [], [1], [1]]


def test_a_row_that_is_late_is_neither_joined_nor_padded() -> None:
    trial = start("SELECT a.k AS k FROM a LEFT JOIN b ON a.k = b.k AND " + BAND.format("b", "a", 20, 20))
    trial.feed({"a": table([(0, 30)]), "b": table([(5, 30)])})
    trial.feed({"a": table([(5, 25)]), "b": table([(1, 31)])})
    for batch in range(3):
        trial.feed(later(batch))
    assert found(trial) == Counter({"(0,)": 1, "(None,)": 1})


def test_windows_that_include_their_end_are_refused() -> None:
    session = weft.Session("never-made", workers=2)
    for name in "ab":
        session.stream(name, weft.read.batches([table([])]), event_time="ts")
    with pytest.raises(WeftError, match="closed windows"):
        session.query("q", "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WITHIN '5 minutes'", closed=True)


def test_a_window_over_an_outer_join_is_refused() -> None:
    with pytest.raises(WeftError, match="date_trunc"):
        start("SELECT COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY window(a.ts, '5 minutes')")


# ---------------------------------------------------------------------------------- windows, and rows that come late

Timed = tuple[int, int | None, int | None]
"""A number that tells rows apart, a key, a minute."""
FLUSH = -1


@dataclass(frozen=True)
class Chain:
    """A chain of joins with windows, and how DuckDB reads it."""

    text: str
    spelled: str
    used: frozenset[str]


def random_chain(rng: random.Random) -> Chain:
    """Windows behind some sources; each join compares what is there with what it brings."""
    of = [rng.choice("abc") for _ in range(rng.choice((2, 3, 3)))]
    windows = [rng.choice((None, 2, 5, 9)) for _ in of]
    default = rng.choice((None, 3, 15))
    seen, spelled = ["x0"], f"{of[0]} x0"
    text = spelled + _within(windows[0])
    for place, name in enumerate(of[1:], start=1):
        new, near = f"x{place}", rng.choice(seen)
        kind = rng.choice(("LEFT", "LEFT", "RIGHT", "FULL", "SEMI", "ANTI"))
        # DuckDB 2.0 answers an ANTI JOIN of inequalities alone wrongly.
        on = f"{near}.k {rng.choice(('=', '=', '=' if kind == 'ANTI' else '<='))} {new}.k"
        if rng.random() < 0.3:
            on += " AND " + BAND.format(new, near, rng.randrange(9), rng.randrange(9))
        text += f" {kind} JOIN {name} {new}{_within(windows[place])} ON {on}"
        pairs = [pair for old in (int(one[1:]) for one in seen) for pair in ((old, place), (place, old))]
        spelled += f" {kind} JOIN {name} {new} ON {on}" + "".join(_in_time(windows, default, *pair) for pair in pairs)
        seen += [] if kind in ("SEMI", "ANTI") else [new]
    items = ", ".join(f"{one}.n AS {one}n" for one in seen)
    return Chain(f"SELECT {items} FROM {text}{_within(default)}", f"SELECT {items} FROM {spelled}", frozenset(of))


def _within(window: int | None) -> str:
    return "" if window is None else f" WITHIN INTERVAL '{window}' MINUTE"


def _in_time(windows: Sequence[int | None], default: int | None, old: int, new: int) -> str:
    length = windows[old] or default
    if length is None:
        return ""
    near = f"x{new}.ts < x{old}.ts + INTERVAL {length} MINUTE"
    return f" AND (x{old}.n IS NULL OR x{new}.n IS NULL OR {near})"


def timed_table(rows: Sequence[Timed]) -> pa.Table:
    times = [None if minute is None else BEGIN + dt.timedelta(minutes=minute) for *_, minute in rows]
    n, k = (pa.array([row[at] for row in rows], pa.int64()) for at in (0, 1))
    return pa.table({"n": n, "k": k, "ts": pa.array(times, pa.timestamp("us"))})


class InTime:
    """Which rows are in time for a query: those not below the watermark of all its streams."""

    def __init__(self, used: frozenset[str], lateness: dict[str, int]) -> None:
        self.used, self.lateness = used, lateness
        self.newest: dict[str, int] = {}
        self.all: dict[str, list[Timed]] = {name: [] for name in "abc"}
        self.kept: dict[str, list[Timed]] = {name: [] for name in "abc"}
        self.dropped = 0

    def feed(self, batch: dict[str, list[Timed]]) -> None:
        marks = [self.newest[name] - self.lateness[name] for name in self.used if name in self.newest]
        mark = min(marks) if len(marks) == len(self.used) else -LONG
        for name in self.used:
            times = [row[2] for row in batch[name] if row[2] is not None]
            in_time = [row for row in batch[name] if row[2] is not None and row[2] >= mark]
            self.dropped += len(batch[name]) - len(in_time)
            self.all[name] += batch[name]
            self.kept[name] += in_time
            if times:
                self.newest[name] = max(*times, self.newest.get(name, -LONG))


def real(rows: Sequence[tuple[object, ...]]) -> Counter[str]:
    return Counter(str(row) for row in rows if FLUSH not in row)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(40))
def test_windows_of_chains_and_late_rows(seed: int) -> None:
    """A row is late for all parts of a query or for none; what is absent is compared with nothing."""
    rng = random.Random(seed)
    chain, lateness = random_chain(rng), {name: rng.choice((0, 2, 10, 1000)) for name in "abc"}
    session, holes = weft.Session("never-made", workers=2), rng.choice((0.0, 0.0, 0.1))
    for name in "abc":
        empty = weft.read.batches([timed_table([])])
        session.stream(name, empty, event_time="ts", lateness=f"{lateness[name]} minutes")
    session.query("q", chain.text)
    trial, told = Trial(session), InTime(chain.used, lateness)
    batches: list[dict[str, list[Timed]]] = []
    for number in range(4):
        speed = {name: rng.choice((1, 4)) for name in "abc"}
        batches.append({
            name: [
                (100 * number + place, rng.choice((0, 1, 2, None)),
                 None if rng.random() < holes else number * speed[name] + rng.randint(-4, 6))
                for place in range(rng.randrange(4))
            ]
            for name in "abc"
        })  # fmt: skip
    flush: list[dict[str, list[Timed]]] = [{name: [(FLUSH, None, LONG * more)] for name in "abc"} for more in (1, 2, 3)]
    for batch in [*batches, *flush]:
        told.feed(batch)
        trial.feed({name: timed_table(rows) for name, rows in batch.items()})
    counted = sum(trial.late.values()) + sum(trial.untimed.values())
    assert counted in (0, told.dropped), chain.text
    rows = told.kept if counted else told.all
    with connect({name: timed_table(some) for name, some in rows.items()}) as con:
        expected = real(con.sql(chain.spelled).fetchall())
    assert real([tuple(row.values()) for row in trial.table("q").to_pylist()]) == expected, chain.text
