"""What a changed session means for its queries: goldens of the papers, what is refused, and what is said.

G-E1 and G-E2 are about epochs (C34 to C38).  Here a change of plan is a migration; the answers must be the same.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.host.migration.migrate import Summary
from weft.testing import Trial

SCHEMA = pa.schema([("id", pa.string()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("ts", pa.int64())])
PAIR = "SELECT r.id AS r, s.id AS s FROM r JOIN s ON r.a = s.a WITHIN INTERVAL '10' SECOND"


def row(name: str, ts: int, a: int = 1, b: int = 0) -> pa.Table:
    return pa.table({"id": [name], "a": [a], "b": [b], "c": [7], "ts": [ts]}, schema=SCHEMA)


def session(root: Path, lateness: int = 0, workers: int = 2, streams: str = "rst") -> weft.Session:
    made = weft.Session(root / "checkpoint", workers=workers, progress=False)
    for name in streams:
        made.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="ts", lateness=lateness)
    return made


def begin(made: weft.Session) -> Trial:
    return Trial(made, state=made.checkpoint.root)


def moment(seconds: int) -> datetime.datetime:
    return datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)  # noqa: DTZ001 - event times have no zone


def pairs(trial: Trial, query: str) -> list[tuple[str, ...]]:
    return sorted(tuple(found.values()) for found in trial.table(query).to_pylist())


# ---------------------------------------------------------------------------------------------- goldens


def test_ge1_pairs_across_epochs_come_once(tmp_path: Path) -> None:
    sql = "SELECT s.id AS s, t.id AS t FROM r, s, t WHERE r.a = s.a AND s.b = t.b WITHIN INTERVAL '30' SECOND"

    def planned(strategy: str | weft.Plan) -> weft.Session:
        made = session(tmp_path, lateness=30)
        made.query("q", sql, strategy=strategy)
        return made

    kept = weft.Plan(keep=[("s", "t")])
    trial = begin(planned("flat"))
    trial.feed({"s": row("s1", 5, b=1), "t": row("t1", 6, b=1)})
    trial.feed({"s": row("s3", 8, b=3)})
    trial = begin(planned(kept))
    assert any(store.members for store in trial.topology.stores)
    assert trial.state_rows[next(store.id for store in trial.topology.stores if store.members)] == 1
    trial.feed({"s": row("s2", 12, b=2), "t": row("t2", 13, b=2)})
    trial.feed({"t": row("t3", 14, b=3)})
    trial.feed({"s": row("s4", 15, b=4)})
    trial = begin(planned("flat"))
    trial.feed({"t": row("t4", 22, b=4)})
    trial.feed({"r": row("r", 25)})
    assert pairs(trial, "q") == [("s1", "t1"), ("s2", "t2"), ("s3", "t3"), ("s4", "t4")]


@pytest.mark.parametrize("is_kept", [False, True])
def test_ge2_a_new_query_uses_the_state_that_is_there(tmp_path: Path, is_kept: bool) -> None:
    made = session(tmp_path)
    other = "SELECT s.id, s.a, t.id AS t FROM s JOIN t ON s.b = t.b WITHIN INTERVAL '30' SECOND"
    made.query("other", other if is_kept else "SELECT t.id, u.id AS u FROM t JOIN t u ON t.b = u.b")
    trial = begin(made)
    trial.feed({"s": row("s95", 95), "t": row("t95", 95)} if is_kept else {"t": row("t95", 95)})
    if not is_kept:  # somebody has read the stream before, and nobody kept its rows
        made.query("passing", "SELECT s.id FROM s")
        trial.change()
        trial.feed({"s": row("s95", 95)})
    q = made.query("q", PAIR)
    trial.change()
    assert q.complete_from == moment(75 if is_kept else 105), "the newest row that may be missing, and a window"
    trial.feed({"r": row("r101", 101), "s": row("s101", 101)})
    trial.feed({"r": row("r104", 104)})
    old = [("r101", "s95"), ("r104", "s95")] if is_kept else []
    assert pairs(trial, "q") == sorted([*old, ("r101", "s101"), ("r104", "s101")])
    trial.feed({"s": row("s111", 111), "r": row("r112", 112)})
    assert pairs(trial, "q")[-1] == ("r112", "s111")
    assert q.complete_from is None, "nothing before is needed any more"


# ------------------------------------------------------------------------------- sessions that differ


def started(root: Path) -> weft.Session:
    made = session(root)
    made.query("q", PAIR)
    begin(made).feed({"r": row("r1", 1), "s": row("s2", 2)})
    return made


def test_more_queries_other_workers_and_strategies_are_migrated(tmp_path: Path) -> None:
    started(tmp_path)
    made = session(tmp_path, workers=3)
    made.query("q", PAIR, strategy="hypercube:random")
    made.query("more", "SELECT r.id FROM r JOIN t ON r.a = t.a")
    trial = begin(made)
    assert trial.manifest.epoch == 1
    trial.feed({"s": row("s3", 3)})
    assert pairs(trial, "q") == [("r1", "s3")]


def test_a_missing_query_is_refused_unless_it_is_dropped(tmp_path: Path) -> None:
    started(tmp_path)
    made = session(tmp_path)
    made.query("other", PAIR)
    with pytest.raises(weft.StateError, match='query "q" of the checkpoint is missing'):
        begin(made)
    made.drop("q")
    assert set(begin(made).topology.emit_of) == {"other"}


def test_a_changed_query_is_refused_unless_the_old_one_is_dropped(tmp_path: Path) -> None:
    started(tmp_path)
    changed = "SELECT s.id AS s, s.a AS a FROM s JOIN r ON r.a = s.a WITHIN INTERVAL '20' SECOND"
    made = session(tmp_path)
    made.query("q", changed, backfill=True)
    with pytest.raises(weft.StateError, match='query "q", select'):
        begin(made)
    made = session(tmp_path)
    made.drop("q")
    made.query("q", changed, backfill=True)
    trial = begin(made)
    assert pairs(trial, "q") == [("s2", 1)]


def test_a_changed_stream_is_refused(tmp_path: Path) -> None:
    started(tmp_path)
    made = session(tmp_path, lateness=5)
    made.query("q", PAIR)
    with pytest.raises(weft.StateError, match="lateness"):
        begin(made)


def test_a_query_that_needs_what_nobody_kept_has_stores_of_its_own(tmp_path: Path) -> None:
    made = started(tmp_path)
    trial = begin(made)
    more = "SELECT r.c AS c, s.c AS d FROM r JOIN s ON r.a = s.a WITHIN INTERVAL '10' SECOND"
    strict = made.query("strict", more, complete=True)
    with pytest.raises(weft.StateError, match='query "strict" cannot be complete'):
        trial.change()
    made.drop(strict.name)
    new = made.query("new", more)
    summary = trial.change()
    assert isinstance(summary, Summary)
    assert made.queries["q"].complete_from is None
    assert new.complete_from == moment(12)
    trial.feed({"s": row("s4", 4)})
    assert pairs(trial, "q") == [("r1", "s4")]
    assert pairs(trial, "new") == []
    made.rescale(1)  # stores that now lie in the same place stay apart
    trial.change()
    trial.feed({"r": row("r5", 5)})
    assert pairs(trial, "q")[-2:] == [("r5", "s2"), ("r5", "s4")]
    assert pairs(trial, "new") == [(7, 7)]


@pytest.mark.parametrize(
    "sql",
    ["SELECT r.id AS id FROM r", "SELECT r.a AS a, count(*) AS n FROM r GROUP BY r.a",
     "SELECT r.id AS id FROM r UNION ALL SELECT s.id AS id FROM s"],
)  # fmt: skip
def test_old_rows_that_nobody_kept_are_not_passed_over_where_all_are_asked_for(tmp_path: Path, sql: str) -> None:
    made = session(tmp_path)
    made.query("one", "SELECT r.id AS id FROM r")
    made.query("pairs", PAIR.replace("r.", "t.").replace("FROM r", "FROM t"))
    trial = begin(made)
    trial.feed({"r": row("r1", 1), "s": row("s1", 2), "t": row("t1", 3)})
    made.query("strict", sql, backfill=True, complete=True)
    with pytest.raises(weft.StateError, match='query "strict" cannot be complete') as found:
        trial.change()
    assert 'rows of stream "r" were read before and not kept' in str(found.value)


def test_a_union_of_streams_that_change_is_refused_where_one_was_not_kept(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("op", pa.string())])
    made = weft.Session(tmp_path / "checkpoint", workers=2, progress=False)
    for name in "rst":
        made.stream(name, weft.read.batches([schema.empty_table()]), changes="op")
    made.query("pairs", "SELECT r.id AS id FROM r JOIN t ON r.id = t.id")
    made.query("one", "SELECT s.id AS id FROM s")
    trial = begin(made)
    rows = pa.table({"id": ["x"], "op": ["insert"]}, schema=schema)
    trial.feed(dict.fromkeys("rst", rows))
    made.query("kept", "SELECT r.id AS id FROM r UNION ALL SELECT t.id AS id FROM t")
    trial.change()
    assert pairs(trial, "kept") == [("x",), ("x",)]
    made.query("both", "SELECT r.id AS id FROM r UNION ALL SELECT s.id AS id FROM s")
    with pytest.raises(weft.StateError, match='query "both" cannot be complete'):
        trial.change()


def test_a_dropped_query_takes_its_stores_with_it(tmp_path: Path) -> None:
    made = started(tmp_path)
    made.query("more", "SELECT r.id FROM r JOIN t ON r.b = t.b")
    trial = begin(made)
    before = {store.id for store in trial.topology.stores}
    made.drop("more")
    trial.change()
    assert {store.id for store in trial.topology.stores} < before
    assert {ref.store for ref in trial.segments} <= {store.id for store in trial.topology.stores}


def test_a_trial_without_the_checkpoint_of_its_session_cannot_change(tmp_path: Path) -> None:
    made = session(tmp_path)
    made.query("q", PAIR)
    with pytest.raises(weft.HostError, match="no checkpoint to change"):
        Trial(made).change()
