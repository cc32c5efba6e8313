"""The rows of a story: all of them are known before it begins, and so is what is left of those that change."""

from __future__ import annotations

import datetime
import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tests.chaos.story import ROWS, Input, Story

BASE = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
LATENESS = 30
"""Seconds.  Rows are up to 18 seconds out of order: none is late."""
COLUMNS = {"id": "BIGINT", "g": "BIGINT", "k": "BIGINT", "m": "BIGINT", "v": "BIGINT", "s": "VARCHAR"}
TIMED = pa.schema(
    [*((name, pa.int64()) for name in ["id", "g", "k", "m", "v"]), ("s", pa.string()), ("ts", pa.timestamp("us"))]
)
CHANGED = pa.schema([*list(TIMED)[:-1], ("op", pa.string())])
KEYS = ROWS
"""Rows of a table: one for each value of `g`."""
Row = dict[str, Any]


def schema_of(given: Input) -> pa.Schema:
    """The columns of a stream."""
    bare = pa.schema(list(TIMED)[:-1])
    return {"plain": TIMED, "changes": CHANGED, "upserts": bare, "once": bare, "versions": TIMED}[given.way]


class Rows:
    """What arrives in each stream, batch by batch."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.keys = max(20, ROWS * story.batches * 2 // 5)
        self.arriving = {given.name: self._stream(given, at) for at, given in enumerate(story.inputs)}

    def _stream(self, given: Input, at: int) -> list[list[Row]]:
        dice = random.Random(f"rows {self.story.seed} {at}")
        made, here = [], list[Row]()
        for batch in range(self.story.batches):
            rows = [self._row(dice, batch * ROWS + number + at * 1_000_000) for number in range(ROWS)]
            if given.is_table:
                rows = self._table(dice, given, batch, rows)
            elif given.way == "plain":
                rows = [
                    row | {"ts": BASE + datetime.timedelta(seconds=20 * batch + dice.randint(-9, 9))} for row in rows
                ]
            elif given.way == "changes":
                rows = _taken_back(dice, rows, here)
            else:
                rows = [row | {"id": dice.randrange(2 * ROWS)} for row in rows]
            made.append(rows)
        return made

    def _table(self, dice: random.Random, given: Input, batch: int, rows: list[Row]) -> list[Row]:
        """All keys at first; then none, or later versions of some, each with a time of its own."""
        if batch == 0:
            begin = BASE - datetime.timedelta(minutes=1)
            return [row | {"id": key, **_dated(given, begin)} for key, row in zip(range(KEYS), rows, strict=True)]
        if given.way == "once":
            return []
        some = dice.sample(rows, 12)
        seconds = [20 * batch + dice.randint(-9, 9) + (number + 1) / 100 for number in range(len(some))]
        return [
            row | {"id": dice.randrange(KEYS), **_dated(given, BASE + datetime.timedelta(seconds=second))}
            for row, second in zip(some, seconds, strict=True)
        ]

    def _row(self, dice: random.Random, number: int) -> Row:
        keys = {name: None if dice.random() < 0.02 else dice.randrange(self.keys) for name in "km"}
        return {"id": number, "g": dice.randrange(60), **keys, "v": dice.randrange(100), "s": dice.choice(WORDS)}

    def left(self, left_out: set[tuple[str, int]]) -> dict[str, pa.Table]:
        """The rows of every stream that count in the end; some batches are left out."""
        found = {}
        for given in self.story.inputs:
            arrived = [b for n, b in enumerate(self.arriving[given.name]) if (given.name, n) not in left_out]
            rows = [row for batch in arrived for row in batch]
            wanted = schema_of(given) if given.way != "changes" else pa.schema(list(TIMED)[:-1])
            found[given.name] = pa.Table.from_pylist(_remaining(given, rows), wanted)
        return found


WORDS = ["", "a", "warp", "weft", "ÄÖ", "x" * 200, 'quote " and, comma', "tab\tand \\ back"]


def _dated(given: Input, moment: datetime.datetime) -> Row:
    return {"ts": moment} if given.way == "versions" else {}


def _taken_back(dice: random.Random, new: list[Row], here: list[Row]) -> list[Row]:
    """New rows, and some that are taken back, in any order."""
    here += new
    gone = [here.pop(dice.randrange(len(here))) for _ in range(dice.randrange(ROWS // 3))]
    rows = [row | {"op": "insert"} for row in new] + [row | {"op": "delete"} for row in gone]
    dice.shuffle(rows)
    return rows


def _remaining(given: Input, rows: list[Row]) -> list[Row]:
    if given.way == "upserts":
        return list({row["id"]: row for row in rows}.values())
    if given.way == "changes":
        gone = {row["id"] for row in rows if row["op"] == "delete"}  # numbers are unique
        return [{name: row[name] for name in COLUMNS} for row in rows if row["id"] not in gone]
    return rows


# ---------------------------------------------------------------------------------------------- arriving


def drop(folder: Path, given: Input, batch: int, rows: list[Row]) -> Path:
    """Let a file arrive, at once, as a careful producer does."""
    ending = {"frame": "parquet"}.get(given.kind, given.kind)
    folder.mkdir(parents=True, exist_ok=True)
    aside, path = folder / f".{batch:04d}", folder / f"{batch:04d}.{ending}"
    if given.kind == "json":
        aside.write_text("".join(as_json(row) + "\n" for row in rows))
    elif given.kind == "csv":
        pa.csv.write_csv(pa.Table.from_pylist(rows, schema_of(given)), aside)
    else:
        pq.write_table(pa.Table.from_pylist(rows, schema_of(given)), aside)
    os.utime(aside, (batch, batch))  # Spark's own file source goes by it
    return aside.rename(path)


def as_json(row: Row) -> str:
    """A row as a line."""
    return json.dumps(row | ({"ts": row["ts"].isoformat()} if "ts" in row else {}))
