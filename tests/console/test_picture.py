"""What a checkpoint shows, from its files alone."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.console.kit import Clock, Run, declare, make_checkpoint
from weft.console.picture import SHOWN, Picture, thin_points
from weft.observe.history import history_file
from weft.observe.point import Point


def test_a_stopped_session_shows_what_it_did(tmp_path: Path) -> None:
    picture = Picture(make_checkpoint(tmp_path))
    state = picture.state()
    assert state["life"]["state"] == "stopped"
    assert [point["batch"] for point in state["points"]] == [0, 1, 2, 3, 4]
    assert [event["is"] for event in state["events"]] == ["start", "notice", "end"]
    assert state["queries"] == ["q0", "q1"]
    assert set(state["streams"]) == {"a", "b", "c"}


def test_the_plan_has_what_explain_shows_and_what_the_state_holds(tmp_path: Path) -> None:
    found = Picture(make_checkpoint(tmp_path)).plan()
    topology = found["plan"]["topology"]
    assert {store["id"] for store in topology["stores"]} == set(found["stores"])
    probes = {part["id"] for query in topology["queries"] for way in query["ways"] for part in way["parts"]}
    assert probes == set(found["probed"])
    assert found["workers"]["1"]["rows"] == 2 * found["workers"]["0"]["rows"]
    assert "FROM a JOIN b" in found["plan"]["queries"]["q0"]["text"]


def test_everything_is_json(tmp_path: Path) -> None:
    picture = Picture(make_checkpoint(tmp_path))
    for part in (picture.state(), picture.plan(), picture.queries(), picture.rows("q0"), picture.history(3600)):
        assert json.loads(json.dumps(part))


def test_a_run_without_an_end_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    run.batch()
    assert Picture(run.root).state()["life"]["state"] == "running"
    path = history_file(run.root)
    path.write_text(path.read_text().replace('"born":"', '"born":"0'))
    assert Picture(run.root).state()["life"]["state"] == "killed"


def test_a_silent_run_on_another_machine_is_called_silent(tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock(now=1000.0))
    path = history_file(run.root)
    path.write_text(json.dumps({**json.loads(path.read_text()), "host": "elsewhere"}) + "\n")
    assert Picture(run.root).state()["life"]["state"] == "silent"


def test_a_checkpoint_without_a_batch_shows_that(tmp_path: Path) -> None:
    session = declare(tmp_path)
    session.claim()
    session.checkpoint.release()
    picture = Picture(session.checkpoint.root)
    assert picture.state()["life"] == {"state": "new", "at": None}
    assert picture.plan()["batch"] == -1


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(weft.StateError, match="not a checkpoint"):
        Picture(tmp_path).check()


def test_last_rows_are_those_of_the_newest_file(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    (tmp_path / "out" / "q0").mkdir(parents=True)
    pq.write_table(pa.table({"x": list(range(100)), "y": [None] * 100}), tmp_path / "out" / "q0" / "part.parquet")
    found = Picture(root).rows("q0")
    assert found["columns"] == ["x", "y"]
    assert [row[0] for row in found["rows"]] == list(range(80, 100))
    assert Picture(root).rows("q1")["rows"] == []


def test_long_histories_are_thinned_without_losing_rows() -> None:
    lines = [Point(t, t + 1, t, 1, 0.1, 0.1, t, t, 1, rows={"a": 3}).plain() for t in range(5000)]
    thin = thin_points(lines, 5000 / SHOWN)
    assert len(thin) <= SHOWN + 1
    assert sum(point.rows["a"] for point in thin) == 15000


def test_what_was_read_is_kept_until_it_changes(tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    picture = Picture(run.root)
    run.batch()
    assert picture.plan()["batch"] == 0
    run.batch()
    assert picture.plan()["batch"] == 1
    assert picture.plan()["plan"] is picture.plan()["plan"]
