"""One script, edited between its runs, on Spark: what every query has in the end is what DuckDB says.

Rows of run n have ids from 1000 n on, so the oracle can tell which rows came before a query was added.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.spark._kit import answer, drop, oracle, table
from weft import WeftError, cli
from weft.host.crash import CrashPoint
from weft.script import open_session, parse_script
from weft.session.run import Handle
from weft.session.status import show_queries

pytestmark = pytest.mark.spark

HEAD = """
SET checkpoint = 'state';
SET workers = {workers};
CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't', lateness = '1 minute', max_files = 1);
CREATE STREAM b FROM PARQUET 'in/b' WITH (event_time = 't', lateness = '1 minute');
"""
C = "CREATE STREAM c FROM PARQUET 'in/c' WITH (event_time = 't');"
D = "CREATE TABLE d FROM PARQUET 'in/d';"
QUERY = "CREATE QUERY {} INTO PARQUET 'out/{}' WITH ({}) AS SELECT a.id AS x, {}.id AS y FROM a, {} WHERE {};"
SHORT = QUERY.format("near", "near", "closed = FALSE", "b", "b", "a.k = b.k WITHIN '30 seconds'")
BIG = QUERY.format("big", "big", "strategy = 'flat'", "b", "b", "a.k = b.k AND a.v > 5")
WHOLE = QUERY.format("whole", "whole", "closed = TRUE", "b", "b", "a.k = b.k")
# The same name and folder with another text: old rows of the state are joined, but not with each other.
LONG = QUERY.format("near", "near", "start = 'state'", "b", "b", "a.k = b.k AND a.id % 2 = 0 WITHIN '20 seconds'")
PAST = QUERY.format(
    "past", "past", "backfill = TRUE, complete = TRUE", "b", "b", "a.k = b.k AND b.id % 3 = 0 WITHIN '25 seconds'"
)
NAMED = QUERY.format("named", "named", "budget = '1 GB'", "d", "d", "a.k = d.k")
FRESH = QUERY.format("fresh", "fresh", "start = 'now'", "b", "b", "a.k = b.k")
NEWER = QUERY.format("newer", "newer", "start = 'state'", "c", "c", "a.k = c.k")


def arrive(root: Path, run: int) -> None:
    """New rows of all streams."""
    dice = np.random.default_rng(run)
    for name in "abc":
        columns = {column: dice.integers(0, 12, 60).tolist() for column in "kv"}
        times = (1000 + run * 20 + dice.integers(0, 20, 60)).tolist()
        drop(
            root / "in" / name, f"{run}.parquet", table(id=list(range(run * 1000, run * 1000 + 60)), **columns, t=times)
        )
    if not run:
        drop(root / "in" / "d", "0.parquet", table(id=[1, 2, 3], k=[4, 5, 5]))


def run_script(root: Path, text: str, workers: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Run the script as a user does; what is said before the run."""
    (root / "job.sql").write_text(HEAD.format(workers=workers) + text)
    with pytest.raises(SystemExit) as end:
        cli.main(["run", str(root / "job.sql")])
    said = capsys.readouterr()
    assert end.value.code == 0, said.err
    return [line for line in said.err.splitlines() if line.startswith(("query ", f"{workers} workers"))]


def wait_for(handle: Handle, done: Callable[[], bool]) -> None:
    """Wait until something is the case, for a minute at most."""
    limit = time.monotonic() + 60
    while not done():
        assert time.monotonic() < limit
        assert not handle.wait(0.05), "the run has ended"


def expected(root: Path, other: str, where: str) -> Counter[tuple[object, ...]]:
    """What DuckDB finds among all rows that have arrived."""
    inputs = {name: pq.read_table(root / "in" / name) for name in "abcd"}
    return oracle(f"SELECT a.id, {other}.id FROM a, {other} WHERE {where}", **inputs)


def test_a_script_edited_between_runs_is_the_new_truth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    near = "a.k = b.k AND abs(a.t - b.t) < {}"
    past = f"{near.format(25)} AND b.id % 3 = 0"
    arrive(tmp_path, 0)
    assert run_script(tmp_path, SHORT + BIG, 2, capsys) == []
    first = expected(tmp_path, "b", near.format(30))
    big = expected(tmp_path, "b", "a.k = b.k AND a.v > 5")
    assert (answer(tmp_path / "out/near"), answer(tmp_path / "out/big")) == (first, big)

    arrive(tmp_path, 1)
    said = run_script(tmp_path, D + LONG + PAST + NAMED, 2, capsys)
    assert said[:3] == [
        "query big is no longer in the script: dropped",
        "query near has changed: replaced",
        f"query near: folder {tmp_path / 'out/near'} holds results of the earlier text too",
    ]
    assert [line for line in said[3:] if "added" in line] == ["query past is new: added", "query named is new: added"]
    assert answer(tmp_path / "out/big") == big
    second = f"{near.format(20)} AND a.id % 2 = 0 AND NOT (a.id < 1000 AND b.id < 1000)"
    assert answer(tmp_path / "out/near") == first + expected(tmp_path, "b", second)
    assert answer(tmp_path / "out/past") == expected(tmp_path, "b", past)

    named = expected(tmp_path, "d", "a.k = d.k AND a.id >= 1000")  # rows of a are not kept for tables
    assert answer(tmp_path / "out/named") == named

    arrive(tmp_path, 2)
    said = run_script(tmp_path, D + C + "DROP QUERY named;" + LONG + PAST + FRESH + NEWER, 3, capsys)
    assert said[0] == "query named: dropped"
    assert said[-1] == "3 workers instead of 2"
    assert answer(tmp_path / "out/near") == first + expected(tmp_path, "b", second)
    assert answer(tmp_path / "out/past") == expected(tmp_path, "b", past)
    assert answer(tmp_path / "out/fresh") == expected(tmp_path, "b", "a.k = b.k AND a.id >= 2000 AND b.id >= 2000")
    assert answer(tmp_path / "out/named") == named
    # A stream that nobody has read before is read from its first file; rows of a that were kept join with it.
    newer = answer(tmp_path / "out/newer")
    assert expected(tmp_path, "c", "a.k = c.k AND a.id >= 2000") <= newer <= expected(tmp_path, "c", "a.k = c.k")

    before = {name: answer(tmp_path / "out" / name) for name in ("near", "past", "fresh", "newer", "named", "big")}
    said = run_script(tmp_path, D + C + "DROP QUERY named;" + LONG + PAST + FRESH + NEWER, 3, capsys)
    assert said == ["query named is not in the checkpoint: there is nothing to drop"]
    assert {name: answer(tmp_path / "out" / name) for name in before} == before


@pytest.mark.crash
def test_results_that_a_killed_run_left_stay_with_the_query_as_it_was(tmp_path: Path) -> None:
    """The run dies after a commit; then the query is replaced by one with other columns and another folder."""
    arrive(tmp_path, 0)
    head = HEAD.format(workers=2)
    session = open_session(parse_script(head + SHORT + BIG, folder=tmp_path))
    session.crash_point = CrashPoint("commit after", 0)
    with pytest.raises(WeftError, match="crash point"):
        session.run()
    first = expected(tmp_path, "b", "a.k = b.k AND abs(a.t - b.t) < 30")
    assert not answer(tmp_path / "out/near")
    edited = SHORT.replace("out/near", "out/other").replace(" AS x", " AS z")
    open_session(parse_script(head + edited, folder=tmp_path)).run()
    assert answer(tmp_path / "out/near") == first
    assert answer(tmp_path / "out/big") == expected(tmp_path, "b", "a.k = b.k AND a.v > 5")
    assert not answer(tmp_path / "out/other")
    arrive(tmp_path, 1)
    open_session(parse_script(head + edited, folder=tmp_path)).run()
    later = "a.k = b.k AND abs(a.t - b.t) < 30 AND NOT (a.id < 1000 AND b.id < 1000)"
    assert answer(tmp_path / "out/other") == expected(tmp_path, "b", later)
    assert answer(tmp_path / "out/near") == first


def test_a_query_replaced_while_the_session_runs_is_filled_once(tmp_path: Path) -> None:
    """Results among old rows come once, whatever changes after that."""
    arrive(tmp_path, 0)
    s = open_session(parse_script(HEAD.format(workers=2) + SHORT + WHOLE, folder=tmp_path))
    handle = s.start(every="50 milliseconds")
    wait_for(handle, lambda: handle.report().count == 1)
    with s.lock:  # one change: the run sees the session before it or after it
        s.drop("near")
        q = s.query("near", LONG.partition(" AS ")[2].rstrip(";"), backfill=True).to_parquet(tmp_path / "out/new")
    wait_for(handle, lambda: len(handle.changes()) == 1)
    s.rescale(3)
    wait_for(handle, lambda: len(handle.changes()) == 2)
    arrive(tmp_path, 1)
    wait_for(handle, lambda: handle.report().count == 2)
    handle.stop()
    text = "a.k = b.k AND abs(a.t - b.t) < 20 AND a.id % 2 = 0"
    assert answer(tmp_path / "out/new") == expected(tmp_path, "b", text)
    old = "a.k = b.k AND abs(a.t - b.t) < 30 AND a.id < 1000 AND b.id < 1000"
    assert answer(tmp_path / "out/near") == expected(tmp_path, "b", old)
    assert answer(tmp_path / "out/whole") == expected(tmp_path, "b", "a.k = b.k")
    assert (q.complete_from, handle.changes()[0].why) == (None, 'query "near" is replaced')
    assert f"{answer(tmp_path / 'out/new').total():,} results, since batch 1" in show_queries(tmp_path / "state")
