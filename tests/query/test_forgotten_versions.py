"""Versions that are forgotten: what waits still finds its own, and what was shown is what is taken back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

Row = tuple[Any, ...]
PLAIN = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64())])
CHANGING = pa.schema([*PLAIN, ("op", pa.int64())])


def rows(*values: Row, schema: pa.Schema = PLAIN) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


def session(lateness: int, changing: str = "", table: bool = False) -> weft.Session:
    s = weft.Session("never-made", workers=2)
    late = f"{lateness} seconds"
    for name in "abc":
        kind = CHANGING if name in changing else PLAIN
        op = "op" if name in changing else None
        s.stream(name, weft.read.batches([rows(schema=kind)]), event_time="ts", lateness=late, changes=op)
    if table:
        s.table("r", weft.read.batches([rows()]), key="k", event_time="ts", lateness=late)
    return s


def found(trial: Trial, name: str = "q") -> list[Row]:
    return sorted((tuple(row.values()) for row in trial.table(name).to_pylist()), key=str)


def test_a_row_that_waits_for_a_later_partner_keeps_its_earlier_one() -> None:
    s = session(0, table=True)
    s.query(
        "q",
        "SELECT a.v, b.v AS w, c.v AS u FROM a WITHIN INTERVAL '60' SECOND"
        " ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts ASOF LEFT JOIN c ON a.k = c.k AND a.ts <= c.ts",
    )
    s.query(
        "dated",
        "SELECT a.v, r.v AS w, c.v AS u FROM a WITHIN INTERVAL '60' SECOND"
        " JOIN r FOR SYSTEM_TIME AS OF a.ts ON a.k = r.k ASOF LEFT JOIN c ON a.k = c.k AND a.ts <= c.ts",
    )
    trial = Trial(s)
    past = rows((1, 99, 5), (1, 105, 6))
    trial.feed({"a": rows((1, 100, 1)), "b": past, "r": past, "c": rows((1, 130, 7))})
    for now in (110, 120, 130):
        new = rows((1, now, now))
        trial.feed({"a": rows((2, now, 0)), "b": new, "r": new, "c": rows((2, now, 0))})
    assert found(trial) == found(trial, "dated") == []
    end = rows((2, 170, 0))
    trial.feed(dict.fromkeys("abcr", end))
    trial.feed({})
    assert found(trial) == [(1, 5, 7)]
    assert found(trial, "dated") == [(1, 5, 7)]


def test_the_first_version_that_is_kept_is_taken_back_as_it_was_shown() -> None:
    s = session(12)
    s.query("q", "SELECT a.v, b.v AS w FROM a WITHIN INTERVAL '4' SECOND ASOF JOIN b ON a.k = b.k AND a.ts <= b.ts")
    trial = Trial(s)
    trial.feed({"a": rows((2, 27, 0)), "b": rows((1, 10, 10), (1, 20, 20), (2, 27, 0))})
    trial.feed({"a": rows((2, 27, 0))})
    trial.feed({"b": rows((1, 26, 26))})
    trial.feed({"a": rows((1, 17, 17)), "b": rows((1, 18, 18))})
    trial.feed({"a": rows((2, 60, 0)), "b": rows((2, 60, 0))})
    trial.feed({})
    assert [row for row in found(trial) if row[0]] == [(17, 18)]


@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
def test_of_equal_times_the_row_that_is_left_counts(op: str) -> None:
    s = session(5, changing="b")
    s.query("q", f"SELECT a.v, b.v AS w FROM a WITHIN INTERVAL '9' SECOND ASOF JOIN b ON a.k = b.k AND a.ts {op} b.ts")
    trial = Trial(s)
    at = {">=": 10, ">": 11, "<=": 10, "<": 9}[op]

    def came(*values: Row) -> dict[str, pa.Table]:
        return {"b": rows(*values, schema=CHANGING)}

    trial.feed(came((1, 10, 5, 1), (1, 10, 7, 1), (2, 10, 3, 1), (2, 10, 3, 1), (3, 10, 4, -1)))
    trial.feed(came((1, 10, 7, -1), (2, 10, 3, -1), (3, 10, 4, 1)))
    trial.feed({"a": rows(*((k, at, k) for k in (1, 2, 3)))})
    trial.feed({"a": rows((0, 60, 0)), **came((0, 60, 0, 1))})
    trial.feed({})
    assert [row for row in found(trial) if row[0]] == [(1, 5), (2, 3)]


@pytest.mark.parametrize("op", [">=", ">"])
def test_a_row_at_the_watermark_may_give_its_place_to_the_one_before(op: str) -> None:
    s = session(0, changing="b")
    s.query("q", f"SELECT a.v, b.v AS w FROM a WITHIN INTERVAL '9' SECOND ASOF JOIN b ON a.k = b.k AND a.ts {op} b.ts")
    trial = Trial(s)
    trial.feed({"a": rows((1, 20, 1)), "b": rows((1, 10, 10, 1), (1, 20, 20, 1), schema=CHANGING)})
    trial.feed({})
    trial.feed({"b": rows((1, 20, 21, 1), schema=CHANGING)})
    trial.feed({"b": rows((1, 20, 20, -1), (1, 20, 21, -1), (2, 30, 0, 1), schema=CHANGING), "a": rows((2, 30, 0))})
    trial.feed({})
    assert found(trial) == [(1, 10)]


JOINED = "SELECT a.v, {shown} FROM a {within} {first} ASOF LEFT JOIN b ON a.k = b.k AND a.ts {op} b.ts"
NEAR = "CASE WHEN b.ts - a.ts < 7 THEN b.v END AS w"
LATENESS = 9


def texts() -> dict[str, tuple[str, str, int]]:
    """Queries, what they are to DuckDB, and how long a row waits."""
    within = "WITHIN INTERVAL '7' SECOND"
    found: dict[str, tuple[str, str, int]] = {}
    for name, op in (("not_before", ">="), ("after", ">"), ("not_after", "<="), ("before", "<")):
        near, waits = ("b.v AS w", 0) if op[0] == ">" else (NEAR, 7)
        asked = JOINED.format(shown="b.v AS w", within=within, first="", op=op)
        found[name] = asked, JOINED.format(shown=near, within="", first="", op=op), waits
    for name, first, past in (
        ("both", "ASOF LEFT JOIN b AS d ON a.k = d.k AND a.ts >= d.ts", ""),
        ("dated", "LEFT JOIN r FOR SYSTEM_TIME AS OF a.ts AS d ON a.k = d.k", "r"),
    ):
        oracle = "ASOF LEFT JOIN r AS d ON a.k = d.k AND a.ts >= d.ts" if past else first
        asked = JOINED.format(shown="d.v AS u, b.v AS w", within=within, first=first, op="<=")
        found[name] = asked, JOINED.format(shown=f"d.v AS u, {NEAR}", within="", first=oracle, op="<="), 7
    return found


class Clock:
    """The rows that were in time, and the watermark of some streams."""

    def __init__(self, streams: str) -> None:
        self.newest: dict[str, int] = {}
        self.kept: dict[str, list[Row]] = {name: [] for name in streams}

    def take(self, batch: dict[str, list[Row]]) -> int | None:
        """See a batch; the watermark with which it began."""
        known = len(self.newest) == len(self.kept)
        mark = min(self.newest.values()) - LATENESS if known else None
        for name, kept in self.kept.items():
            kept += [row for row in batch[name] if mark is None or row[1] >= mark]
            for row in batch[name]:
                self.newest[name] = max(self.newest.get(name, 0), row[1])
        return mark

    def answer(self, text: str, waits: int, mark: int | None) -> list[Row]:
        """What DuckDB says of the rows that are final, and of the changes that were in time."""
        final = [row for row in self.kept["a"] if mark is not None and row[1] + waits < mark]
        count = Counter[Row]()
        for *row, op in self.kept["b"]:
            count[tuple(row)] += op
        greatest = {row[:2]: row for row in sorted(row for row, times in count.items() if times > 0)}
        latest = {row[:2]: row for row in self.kept.get("r", [])}
        with duckdb.connect(config={"threads": 1}) as con:
            for name, values in (("a", final), ("b", greatest.values()), ("r", latest.values())):
                con.register(name, rows(*values))
            return sorted(con.sql(text).fetchall(), key=str)


def batches(rng: random.Random, count: int) -> Iterator[dict[str, list[Row]]]:
    """Times go on and some rows are late; of b some are taken back, some even before they come."""
    number, open_rows = 0, list[Row]()
    for now in range(10, 10 + 4 * count, 4):
        batch: dict[str, list[Row]] = {name: [] for name in "abr"}
        for name in rng.choices("aaabbbr", k=rng.randrange(6, 16)):
            number += 1
            row = rng.choice((0, 1)), max(0, now + rng.randrange(4) - rng.randrange(2 + LATENESS)), number
            batch[name].append((*row, 1) if name == "b" else row)
        for row in batch["b"][:]:
            if rng.random() < 0.3:
                batch["b"].append((*row[:2], row[2] + 1000, 1))
        rng.shuffle(open_rows)
        batch["b"] += [(*row[:3], -row[3]) for row in open_rows[:2]]
        open_rows = open_rows[2:] + [row for row in batch["b"] if row[3] > 0]
        if rng.random() < 0.3:
            number += 1
            owed = (rng.choice((0, 1)), now, number, -1)
            batch["b"].append(owed)
            open_rows.append(owed)
        yield batch


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2))
def test_versions_of_rows_that_change_are_met_once(seed: int) -> None:
    rng = random.Random(seed)
    s, every = session(LATENESS, changing="b", table=True), texts()
    asked = {name: every[name] for name in [*every][seed % 2 :: 2]}
    for name, (text, _, _) in asked.items():
        s.query(name, text)
    trial, clocks = Trial(s), {"ab": Clock("ab"), "abr": Clock("abr")}
    for number, batch in enumerate(batches(rng, 10)):
        trial.feed({name: rows(*batch[name], schema=CHANGING if name == "b" else PLAIN) for name in batch})
        marks = {name: clock.take(batch) for name, clock in clocks.items()}
        for name, (_, text, waits) in asked.items():
            streams = "abr" if name == "dated" else "ab"
            assert found(trial, name) == clocks[streams].answer(text, waits, marks[streams]), (seed, number, name)
    assert all(len(found(trial, name)) > 5 for name in asked)
