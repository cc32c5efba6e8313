"""Sessions that were found to break: what a plan with tables keeps, and a checkpoint that cannot be written."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.host.state.manifest import Ledger, Manifest
from weft.testing import Trial
from weft.topology.model import Epoch

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64())])


def _declare(*tables: str, workers: int = 2) -> weft.Session:
    """Streams a and b, and some tables."""
    session = weft.Session(checkpoint="unused", workers=workers)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="ts")
    for name in tables:
        session.table(name, weft.read.batches([SCHEMA.empty_table()]))
    return session


def _rows(*keys: int) -> pa.Table:
    return pa.table({"k": list(keys), "ts": [0] * len(keys)}, schema=SCHEMA)


def _answer(session: weft.Session, *batches: dict[str, pa.Table]) -> list[int]:
    trial = Trial(session)
    for batch in batches:
        trial.feed(batch)
    return sorted(row["k"] for row in trial.table("q").to_pylist())


def test_a_query_over_one_table_gives_its_rows() -> None:
    session = _declare("t")
    session.query("q", "SELECT t.k FROM t")
    assert _answer(session, {"t": _rows(1, 2, 2)}, {"a": _rows(1)}) == [1, 2, 2]


@pytest.mark.parametrize("strategy", ["flat", "left_deep", "tree", "exhaustive", weft.Plan(keep=[("t", "u")])], ids=str)
def test_a_kept_join_of_two_tables_answers_a_stream(strategy: str | weft.Plan) -> None:
    session = _declare("t", "u")
    session.query("q", "SELECT a.k FROM t, u, a WHERE t.k = u.k AND u.k = a.k", strategy=strategy)
    batches = ({"t": _rows(1, 2, 2), "u": _rows(1, 2), "a": _rows(2)}, {"a": _rows(1, 2, 3)})
    assert _answer(session, *batches) == [1, 2, 2, 2, 2]


def test_a_join_kept_beside_a_table_only_is_looked_into_by_nobody_and_breaks_nothing() -> None:
    session = _declare("t")
    query = "SELECT x.k FROM a x, b y, t WHERE x.ts <= y.k AND y.k + 1 = t.k"
    session.query("q", query, strategy=weft.Plan(keep=[("x", "y")]))
    assert _answer(session, {"t": _rows(2), "a": _rows(7)}, {"b": _rows(1, 5)}) == [7]


@pytest.mark.parametrize("letter", ["s", "流"])
def test_long_names_of_streams_make_names_of_files_that_fit(tmp_path: Path, letter: str) -> None:
    long = letter * 200
    session = weft.Session(checkpoint="unused", workers=2)
    for name in (long, "b", "c"):
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]))
    query = f"SELECT x.k FROM {long} x, b, c WHERE x.k = b.k AND b.k = c.k AND x.ts = 0"
    session.query("q", query, strategy=weft.Plan(keep=[("x", "b")]))
    trial = Trial(session, state=tmp_path)
    trial.feed({long: _rows(1, 2), "b": _rows(2), "c": _rows(2)})
    assert trial.table("q").to_pylist() == [{"k": 2}]


def test_a_byte_order_mark_before_a_query_says_nothing() -> None:
    session = _declare()
    session.query("q", "\ufeffSELECT a.k FROM a")
    assert _answer(session, {"a": _rows(1)}) == [1]


@pytest.mark.parametrize("name", ["lock", "session.json"])
def test_a_checkpoint_that_cannot_be_opened_is_refused_in_words(tmp_path: Path, name: str) -> None:
    def declare() -> weft.Session:
        session = weft.Session(checkpoint=tmp_path / "checkpoint", workers=2)
        session.stream("a", weft.read.batches([_rows(1)]), event_time="ts")
        session.query("q", "SELECT a.k FROM a").to_memory()
        return session

    first = declare()
    first.claim()
    first.checkpoint.release()
    path = tmp_path / "checkpoint" / name
    os.remove(path)
    path.mkdir()  # cannot be opened by anybody, the superuser included
    with pytest.raises(weft.StateError) as caught:
        declare().claim()
    assert str(path) in str(caught.value) or str(path.parent) in str(caught.value)
    assert caught.value.hint


def test_a_missing_plan_of_an_epoch_is_named(tmp_path: Path) -> None:
    session = _declare()
    session.query("q", "SELECT a.k FROM a, b WHERE a.k = b.k")
    ledger = Ledger(tmp_path)
    ledger.begin()
    ledger.propose(Epoch(0, session.topology), {})
    ledger.commit(Manifest(batch=0))
    (plan,) = ledger.epochs.iterdir()
    plan.unlink()
    with pytest.raises(weft.StateError) as caught:
        ledger.epoch()
    assert str(plan) in str(caught.value)
