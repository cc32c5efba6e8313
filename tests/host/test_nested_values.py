"""Structs and lists wherever other values may stand: as keys of groups, beside NULLs of outer joins, in views."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.wide import in_duckdb, shown
from weft.testing import Trial

Row = dict[str, Any]
COLUMNS = {
    "k": pa.int64(),
    "f": pa.float64(),
    "l": pa.list_(pa.int64()),
    "s": pa.struct([("x", pa.int64()), ("l", pa.list_(pa.string()))]),
}
TEXTS = (
    "SELECT a.{0}, COUNT(*) AS n FROM a GROUP BY a.{0}",
    "SELECT DISTINCT a.{0} FROM a",
    "SELECT b.{0}, COUNT(*) AS n, SUM(a.f) AS total FROM a LEFT JOIN b ON a.k = b.k GROUP BY 1",
    "SELECT a.k, a.{0} FROM a JOIN b ON a.{0} = b.{0}",
    "SELECT a.k, b.{0} = b.{0} AS same, b.{0} <> a.{0} AS other FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT a.{0} FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.{0} IS DISTINCT FROM a.{0})",
    "SELECT a.k, b.l[1] AS first, b.s.x, b.s.l[-1] AS last FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT a.{0} FROM a WHERE a.k IN (SELECT b.k FROM b WHERE b.{0} <> b.{0} OR b.f IS NULL)",
    "SELECT a.{0} FROM a UNION SELECT b.{0} FROM b",
    "SELECT a.{0} FROM a WHERE a.f > (SELECT SUM(b.f) FROM b WHERE a.{0} IS NOT DISTINCT FROM b.{0})",
)  # fmt: skip


def _value(rng: random.Random, kind: pa.DataType) -> Any:
    if rng.random() < 0.2:
        return None
    if pa.types.is_list(kind):
        return [_value(rng, kind.value_type) for _ in range(rng.randrange(3))]
    if pa.types.is_struct(kind):
        return {field.name: _value(rng, field.type) for field in kind}
    return "ab"[rng.randrange(2)] if pa.types.is_string(kind) else rng.randrange(3) / (1 + pa.types.is_floating(kind))


def _feed(rng: random.Random, here: list[Row], *, changes: bool) -> pa.Table:
    """Rows that are added, and taken back if the stream changes; `here` is what is left then."""
    gone = [here.pop(rng.randrange(len(here))) for _ in range(rng.randrange(len(here) + 1))] if changes else []
    new = [{name: _value(rng, kind) for name, kind in COLUMNS.items()} for _ in range(rng.randrange(5))]
    here += new
    rows = [*(row | {"op": "delete"} for row in gone), *(row | {"op": "insert"} for row in new)]
    return pa.Table.from_pylist(rows, _schema(changes=changes))


def _schema(*, changes: bool) -> pa.Schema:
    return pa.schema([*COLUMNS.items(), *([("op", pa.string())] if changes else [])])


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(90_210, 90_216))
def test_structs_and_lists_are_values_like_others(seed: int) -> None:
    rng = random.Random(seed)
    session = weft.Session("never-made", workers=rng.randint(1, 3), progress=False)
    changing = {name: rng.random() < 0.5 for name in ("a", "b")}
    for name, changes in changing.items():
        source = weft.read.batches([_schema(changes=changes).empty_table()])
        session.stream(name, source, changes="op" if changes else None)
    texts = {f"q{at}": text.format(rng.choice("ls")) for at, text in enumerate(TEXTS)}
    for name, text in texts.items():
        session.query(name, text)
    assert session.explain("topology")
    trial, here = Trial(session), {name: list[Row]() for name in changing}
    for _ in range(3):
        trial.feed({name: _feed(rng, here[name], changes=changes) for name, changes in changing.items()})
        left = {name: pa.Table.from_pylist(rows, _schema(changes=False)) for name, rows in here.items()}
        for name, text in texts.items():
            assert shown(trial.table(name)) == in_duckdb(text, left), text
