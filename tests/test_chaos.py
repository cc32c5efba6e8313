"""The parts of stories of trouble: seeds, clocks that jump, disks that are slow, files that cannot be read."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import weft
from tests.chaos.harms import Shim, damage
from tests.chaos.job import declare
from tests.chaos.outcome import Outcome
from tests.chaos.rows import Rows, schema_of
from tests.chaos.sinks import expected
from tests.chaos.story import ENDING, Input, draw
from tests.chaos.summary import summarize

SEEDS = range(200)


def test_a_story_is_its_seed() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)
    assert Rows(draw(7)).arriving == Rows(draw(7)).arriving


def test_every_trouble_and_every_sink_is_drawn() -> None:
    stories = [draw(seed) for seed in SEEDS]
    troubles = {step.trouble for story in stories for step in story.steps}
    kills = {"driver", "jvm", "worker", "daemon", "executor", "group", "broker"}
    assert troubles == kills | {"disk", "file", "clock", "slow", "store"}
    sinks = {sink for story in stories for query in story.queries for sink in query.sinks}
    assert sinks == {
        "parquet",
        "folders",
        "topic",
        "calls",
        "sqlite",
        "table",
        "changes",
        "snapshot",
        "final",
        "remote",
    }
    assert {given.kind for story in stories for given in story.inputs} == {"parquet", "csv", "json", "topic", "frame"}
    assert {len(story.inputs) for story in stories} == {2, 3, 4, 5, 6, 7}
    ends = [step for story in stories for step in story.steps if step.trouble in ENDING]
    assert len(ends) > 0.1 * sum(len(story.steps) for story in stories)


def test_every_query_can_be_planned_and_has_an_answer(tmp_path: Path) -> None:
    for seed in SEEDS[:12]:
        story = draw(seed, kills=1)
        tables = Rows(story).left(set())
        session = weft.Session(tmp_path / str(seed), workers=2)
        for given in story.inputs:
            declare(session, given, weft.read.parquet(tmp_path, schema=schema_of(given)))
        for asked in [*story.queries, *([story.extra] if story.extra else [])]:
            names, _ = expected(asked, tables)
            query = session.query(asked.name, asked.sql).query
            assert list(query.schema.names) == names
            assert query.is_view == asked.is_view, asked.sql


def test_clocks_jump_and_syncs_take_long_in_processes_with_the_library(tmp_path: Path) -> None:
    shim = Shim(tmp_path / "trouble")
    program = "import os, time; t = time.monotonic(); os.fsync(1); print(time.time(), time.monotonic() - t)"

    def ask() -> tuple[float, float]:
        with open(tmp_path / "said", "w+") as out:  # a pipe cannot be synced
            environ = {**os.environ, **shim.environ}
            subprocess.run([sys.executable, "-c", program], stdout=out, env=environ, check=True)
            out.seek(0)
            now, took = out.read().split()
        return float(now) - time.time(), float(took)

    if not shim.works:
        return  # no compiler here: stories say so
    assert abs(ask()[0]) < 60
    shim.jump(3 * 86_400)
    shim.slow(0.2)
    ahead, took = ask()
    assert abs(ahead - 3 * 86_400) < 60
    assert took >= 0.2


@pytest.mark.parametrize("seed", range(4))
def test_damaged_files_cannot_be_read(tmp_path: Path, seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    given = Input("a", "parquet")
    damage(tmp_path, given, 3, Rows(draw(1)).arriving["a"][0], random.Random(seed))
    assert [path.name for path in tmp_path.iterdir()] == ["0003.parquet"]
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pq.read_table(tmp_path / "0003.parquet")


def test_a_summary_counts_kills_and_names_stories_that_failed() -> None:
    good, bad = Outcome(1, rows=10, sinks=2), Outcome(2, difference="a row is missing")
    good.kills.update(driver=2, worker=3)
    bad.kills.update(worker=1)
    said = summarize([good, bad])
    assert "| processes killed | 6 |" in said
    assert "| of them in stories that came to a good end | 5 |" in said
    assert "| stories that failed | 1: 2 |" in said
