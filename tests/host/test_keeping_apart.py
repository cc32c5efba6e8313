"""A query keeps its rows whatever is added beside it and however stores are shared, also those of what it reads."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.testing import Trial, assert_same_rows

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
NEAR = "b.k = a.k AND b.ts >= a.ts - 2 AND b.ts <= a.ts + 3"
TEXTS = {
    "without": f"SELECT a.id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {NEAR})",
    "without_less": f"SELECT a.id, a.v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {NEAR} AND b.v > a.v)",
    "padded": "SELECT a.id, b.v FROM a LEFT JOIN b ON b.k = a.k",
    "padded_too": "SELECT a.v, b.id FROM a LEFT JOIN b ON b.k = a.k",
    "grouped": "SELECT d.k, d.n FROM (SELECT a.k, COUNT(*) AS n FROM a JOIN b USING (k) GROUP BY 1) d JOIN b USING (k)",
    "plain": "SELECT a.id, b.v FROM a JOIN b ON a.k = b.k AND a.v < b.v",
    "window": "SELECT b.id, a.v FROM b JOIN a WITHIN INTERVAL '1' SECOND ON a.k = b.k",
}

ADDED = ("plain", "window", "without", "without_less")
"""Results that are never taken back: such a query may begin without old rows."""


def _session(folder: Path, texts: list[str], sharing: str, workers: int = 2) -> weft.Session:
    session = weft.Session(folder, workers=workers, progress=False)
    session.options(sharing=sharing)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="ts", lateness="2 seconds")
    for name in texts:
        session.query(name, TEXTS[name])
    return session


def _rows(rng: random.Random, batch: int) -> pa.Table:
    rows = [
        {"id": 100 * batch + at, "k": rng.randrange(3), "v": rng.randrange(4), "ts": 2 * batch + rng.randrange(3)}
        for at in range(rng.randrange(6))
    ]
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.mark.parametrize("added", [True, False], ids=["added", "shared"])
@pytest.mark.parametrize("seed", range(31_400, 31_408))
def test_a_query_keeps_what_its_parts_have(tmp_path: Path, seed: int, added: bool) -> None:
    rng = random.Random(seed)
    one = rng.choice(list(TEXTS))
    other = rng.choice([name for name in (ADDED if added else TEXTS) if name != one])
    kept = [one] if added else [one, other]
    session = _session(tmp_path / "life", kept, "global" if added else "none")
    life = Trial(session, state=session.checkpoint.root)
    alone = {name: Trial(_session(tmp_path / "never", [name], "none")) for name in kept}
    for batch in range(5):
        if batch == 3:
            session.rescale(rng.randint(1, 3))
            session.query(other, TEXTS[other]) if added else session.options(sharing=rng.choice(["global", "local"]))
            life.change()
        fed = {"a": _rows(rng, batch), "b": _rows(rng, batch)}
        life.feed(fed)
        for name, trial in alone.items():
            trial.feed(fed)
            assert_same_rows(life.table(name), trial.table(name), f"{name} after batch {batch}: ")
    restarted = _session(tmp_path / "life", [one, other], session.sharing, session.workers)
    again = Trial(restarted, state=session.checkpoint.root)
    assert again.manifest == life.manifest  # a restart has the same stores, and moves nothing
