"""A script that is edited between two runs: what a run would change, said before anything is changed.

The state is made here, by the in-process host; nothing needs Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft import cli
from weft.errors import SinkError, StateError
from weft.host.migration.compare import compare
from weft.host.results.left import publish_left, refuse_unsent
from weft.host.state.manifest import Ledger
from weft.script import open_session, parse_script, say_changes
from weft.testing import Trial

HEAD = """
SET checkpoint = 'state';
CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't');
CREATE STREAM b FROM PARQUET 'in/b' WITH (event_time = 't');
"""
PAIRS = """CREATE QUERY pairs INTO PARQUET 'out/pairs' AS
    SELECT a.k, b.v FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '10' SECOND;"""
LATE = """CREATE QUERY late INTO PARQUET 'out/late' AS
    SELECT a.k FROM a JOIN b ON a.k = b.k AND a.t > b.t WITHIN INTERVAL '10' SECOND;"""
WIDE = PAIRS.replace("'10'", "'5'")
ROWS = pa.table({"k": [1, 2], "v": [3, 4], "w": [5, 6], "t": [100, 101]})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / "in" / name).mkdir(parents=True)
        pq.write_table(ROWS, tmp_path / "in" / name / "0.parquet")
    return tmp_path


def opened(folder: Path, text: str, *, workers: int | None = None, head: str = HEAD) -> tuple[weft.Session, list[str]]:
    """The session of a script, checked, and what a run would change."""
    script = parse_script(head + text, folder=folder)
    session = open_session(script, workers=workers)
    session.check()
    return session, say_changes(session, script)


def commit(folder: Path, text: str, *, publish: bool = True) -> weft.Session:
    """Do what a first run of the script does, up to the publication of its results."""
    session = open_session(parse_script(HEAD + text, folder=folder), workers=2)
    trial = Trial(session, state=session.checkpoint.root)
    trial.feed({"a": ROWS, "b": ROWS})
    for name, handle in session.queries.items():
        for sink in handle.sinks:
            sink.claim(session.checkpoint.id, published=False, last=-1)
        if publish:
            pq.write_table(trial.table(name), folder / "out" / name / "000000000000-1-0000.parquet")
    return session


def note(session: weft.Session) -> Mapping[str, Any]:
    """What a run of the session would note of its queries."""
    ledger, work = Ledger(session.checkpoint.root), session.work()
    epoch, last = ledger.epoch(), ledger.last()
    assert epoch is not None
    return work.note(replace(last, partial=compare(epoch.topology, work.topology, last).partial))


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_nothing_is_said_of_a_first_run_or_of_a_script_that_stays(folder: Path) -> None:
    assert opened(folder, PAIRS + LATE)[1] == []
    commit(folder, PAIRS + LATE)
    assert opened(folder, LATE + PAIRS)[1] == []
    # Names of aliases, case and layout are text too, but the query is the same.
    assert opened(folder, LATE + PAIRS.replace("\n", " ").replace("JOIN", "join"))[1] == []


def test_a_query_that_left_the_script_is_dropped(folder: Path) -> None:
    commit(folder, PAIRS + LATE)
    s, said = opened(folder, PAIRS)
    assert said == ["query late is no longer in the script: dropped"]
    assert list(s.queries) == ["pairs"]


def test_a_drop_that_is_written_down_is_said_as_such_and_may_stay_in_the_script(folder: Path) -> None:
    commit(folder, PAIRS + LATE)
    assert opened(folder, "DROP QUERY late;" + PAIRS)[1] == ["query late: dropped"]
    told = ["query late is not in the checkpoint: there is nothing to drop"]
    (folder / "second").mkdir()
    (folder / "second" / "in").symlink_to(folder / "in")
    commit(folder / "second", PAIRS)
    assert opened(folder / "second", "DROP QUERY late;" + PAIRS)[1] == told


def test_a_query_that_is_dropped_and_created_as_it_was_goes_on(folder: Path) -> None:
    commit(folder, PAIRS + LATE)
    assert opened(folder, "DROP QUERY late;" + LATE + PAIRS)[1] == []


def test_a_changed_query_is_replaced_and_its_folder_named(folder: Path) -> None:
    commit(folder, PAIRS)
    _, said = opened(folder, WIDE)
    assert said == [
        "query pairs has changed: replaced",
        f"query pairs: folder {folder / 'out/pairs'} holds results of the earlier text too",
    ]
    assert opened(folder, WIDE.replace("out/pairs", "out/other"))[1] == said[:1]


def test_a_new_query_says_from_when_on_it_is_complete(folder: Path) -> None:
    commit(folder, PAIRS)
    new = "CREATE QUERY new INTO PARQUET 'out/new' {} AS SELECT a.w FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '1' {};"
    s, said = opened(folder, PAIRS + new.format("", "MINUTE"))
    assert said == [
        "query new is new: added",
        "query new: complete from 1970-01-01 00:02:41 on, since rows it needs were read before and not kept",
    ]
    noted = note(s)
    assert weft.Statistics.from_json(noted["new"].pop("statistics")).rows("a") == 2
    assert noted["new"] == {
        "began": 1, "complete from": 161_000_000, "into": [str(folder / "out" / "new")],
    }  # fmt: skip
    assert noted["pairs"]["began"] == 0
    endless = new.format("", "MINUTE").replace(" WITHIN INTERVAL '1' MINUTE", "")
    assert "query new: never complete, since" in opened(folder, PAIRS + endless)[1][1]
    with pytest.raises(StateError, match="cannot be complete"):
        opened(folder, PAIRS + new.format("WITH (complete = TRUE)", "MINUTE"))


def test_a_replaced_query_begins_anew(folder: Path) -> None:
    """It is planned, judged and filled as a new one, although the checkpoint knows its name."""
    commit(folder, PAIRS)
    changed = (
        "CREATE QUERY pairs INTO PARQUET 'out/2' WITH (backfill = TRUE{}) AS SELECT a.w FROM a JOIN b ON a.k = b.k;"
    )
    s, said = opened(folder, changed.format(""))
    assert said[0] == "query pairs has changed: replaced"
    assert "never complete" in said[1]
    assert s.work().backfill == ("pairs",)
    assert s.queries["pairs"].complete_from is not None
    now = opened(folder, changed.format(", start = 'now'"))[0].queries["pairs"].query
    assert [relation.since for relation in now.relations] == [1, 1]
    assert opened(folder, PAIRS)[0].work().backfill == ()


def test_other_workers_are_said(folder: Path) -> None:
    commit(folder, PAIRS)
    assert opened(folder, PAIRS, workers=3)[1] == ["3 workers instead of 2"]
    assert opened(folder, "SET workers = 3;" + PAIRS)[1] == ["3 workers instead of 2"]
    assert opened(folder, PAIRS)[1] == []


def test_another_plan_is_said(folder: Path) -> None:
    three = PAIRS.replace(" FROM a JOIN b ON a.k = b.k", " FROM a JOIN b ON a.k = b.k JOIN a z ON z.v = b.v")
    commit(folder, "SET strategy = 'flat';" + three)
    assert opened(folder, "SET strategy = 'flat';" + three)[1] == []
    assert opened(folder, "SET strategy = 'left_deep';" + three)[1] == [
        "query pairs has another plan: its state is moved"
    ]


def test_results_with_other_columns_need_another_folder(folder: Path) -> None:
    commit(folder, PAIRS + LATE)
    before = listing(folder)
    other = PAIRS.replace("a.k, b.v", "a.k, b.v AS u")
    with pytest.raises(SinkError, match="other columns") as caught:
        opened(folder, other + LATE.replace("out/late", "out/fresh"))
    assert "k int64, v int64" in (caught.value.detail or "")
    assert "another folder" in (caught.value.hint or "")
    opened(folder, other.replace("out/pairs", "out/fresh"))
    assert listing(folder) == before


def test_a_folder_without_results_takes_other_columns(folder: Path) -> None:
    commit(folder, PAIRS, publish=False)
    s, said = opened(folder, PAIRS.replace("a.k, b.v", "a.k, b.v AS u"))
    assert said == ["query pairs has changed: replaced"]
    s.queries["pairs"].sinks[0].claim(s.checkpoint.id, published=False, last=0)
    assert pq.read_table(folder / "out" / "pairs").column_names == ["k", "u"]


def test_a_changed_stream_is_refused(folder: Path) -> None:
    commit(folder, PAIRS)
    with pytest.raises(StateError, match="belongs to another session") as caught:
        opened(folder, PAIRS, head=HEAD.replace("'in/b'", "'in/a'"))
    assert 'stream "b", source' in (caught.value.detail or "")


def test_results_left_by_a_killed_run_go_to_the_folder_of_the_query_as_it_was(folder: Path) -> None:
    s = commit(folder, PAIRS, publish=False)
    ledger = leave(s)
    for _ in range(2):
        publish_left(ledger, {"pairs": s.checkpoint.notes()["pairs"]["into"], "gone": ["nowhere"]})
        assert pq.read_table(folder / "out" / "pairs").to_pylist() == [{"k": 1, "v": 2}]
    assert not [*ledger.staging_folder(0).rglob("*.parquet")]


def test_a_query_whose_results_only_its_own_sink_can_send_is_not_dropped_before_they_are_sent(folder: Path) -> None:
    ledger, to = leave(commit(folder, PAIRS, publish=False)), {"pairs": ["to topic t at broker:9092"]}
    with pytest.raises(StateError, match='"pairs" cannot be dropped or replaced yet') as caught:
        refuse_unsent(ledger, to)
    assert caught.value.detail == "the last run ended before results of batch 0 were sent to topic t at broker:9092."
    refuse_unsent(ledger, {"pairs": []})
    ledger.discard(ledger.staged(ledger.last()) / "pairs")
    refuse_unsent(ledger, to)


def leave(s: weft.Session) -> Ledger:
    """Commit a result of the first batch that is not published."""
    ledger = Ledger(s.checkpoint.root)
    file = ledger.staging_folder(0) / "pairs" / "run" / "000000000000-1-0000.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"k": [1], "v": [2]}), file)
    ledger.commit(replace(ledger.last(), files=({"query": "pairs", "file": f"run/{file.name}", "rows": 1},)))
    return ledger


# ---------------------------------------------------------------------------------------- command line


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    return int(end.value.code or 0)


def test_explain_says_what_a_run_would_change_and_changes_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commit(folder, PAIRS + LATE)
    script = folder / "job.sql"
    script.write_text(HEAD + WIDE)
    before = listing(folder)
    assert call("explain", str(script)) == 0
    told = capsys.readouterr()
    assert told.err == (
        "a run would change:\n"
        "  query late is no longer in the script: dropped\n"
        "  query pairs has changed: replaced\n"
        f"  query pairs: folder {folder / 'out/pairs'} holds results of the earlier text too\n"
    )
    assert "b.time - 5 seconds" in told.out
    script.write_text(HEAD + PAIRS.replace("b.v", "b.w"))
    before["job.sql"] = script.read_bytes()
    assert call("explain", str(script)) == 0
    assert capsys.readouterr().err.startswith("a run would be refused: folder ")
    assert call("run", str(script)) == 2
    assert capsys.readouterr().err.startswith("error: folder ")
    assert listing(folder) == before


def test_queries_and_status_of_a_checkpoint_are_shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commit(folder, PAIRS + LATE)
    before = listing(folder)
    assert call("queries", str(folder / "state")) == 0
    text = "  from    a a within 10 seconds, b b within 10 seconds\n  where   a.k = b.k"
    assert capsys.readouterr().out == (
        "query late  0 results, since batch 0, complete\n  select  a.k AS k\n"
        f"{text} AND a.t > b.t\n  into    {folder / 'out/late'}\n\n"
        "query pairs  2 results, since batch 0, complete\n  select  a.k AS k, b.v AS v\n"
        f"{text}\n  into    {folder / 'out/pairs'}\n"
    )
    assert call("status", str(folder / "state")) == 0
    assert re.sub(r"-[0-9a-f]{12}", "-#", capsys.readouterr().out) == (
        f"checkpoint {folder / 'state'}\nworkers 2, epoch 0, last batch 0\n"
        "stream a  2 rows read  0 late\nstream b  2 rows read  0 late\n"
        "query late   watermark 1970-01-01 00:01:41  waits for a\n"
        "query pairs  watermark 1970-01-01 00:01:41  waits for a\n"
        f"query late   0 results  into {folder / 'out/late'}\nquery pairs  2 results  into {folder / 'out/pairs'}\n"
        "store a-#  2 rows  for late.a, pairs.a\nstore b-#  2 rows  for late.b, pairs.b\n"
    )
    assert listing(folder) == before


@pytest.mark.parametrize("command", ["queries", "status"])
def test_a_folder_that_is_no_checkpoint_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(command, str(tmp_path / "gone")) == 2
    assert "is not a checkpoint" in capsys.readouterr().err
    assert not (tmp_path / "gone").exists()
