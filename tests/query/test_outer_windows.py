"""Outer joins whose partners are bounded in time: a padded row comes once, when no partner can come any more."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence

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
