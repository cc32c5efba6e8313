"""The console over real sessions: one that runs, is changed and is stopped from the page; one that is killed."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow.dataset as ds
import pytest

import weft
from tests.console.viewing import life, says, viewing, visit, visit_all
from tests.spark._kit import PAIRS, expected, found, make_input, make_session
from weft.console.picture import Picture
from weft.console.serve import Console, serve
from weft.demo.live import LiveDemo

if TYPE_CHECKING:
    from playwright.sync_api import Browser
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
HERE = Path(__file__).resolve().parents[2]


def test_a_running_session_is_shown_changed_and_stopped_from_the_page(
    browser: Browser, spark: SparkSession, tmp_path: Path
) -> None:
    make_input(tmp_path, batches=4, seed=1)
    with make_session(tmp_path, spark=spark) as session:
        handle = session.start(every=0.1, console=Console(port=0, control=True))
        assert handle.console is not None
        with viewing(browser, handle.console) as page:
            life(page, "running")
            visit_all(page)
            visit(page, "queries")
            page.click("text=Add a query")
            page.fill("input[name=query]", "more")
            page.fill("textarea[name=sql]", PAIRS)
            page.fill("input[name=into]", str(tmp_path / "out" / "more"))
            page.click("dialog >> text=Add it")
            page.wait_for_selector("table .link >> text=more")
            while not handle.changes():  # what is dropped before it takes part leaves no mark
                assert not handle.wait(0.1)
            page.click("table .link >> text=more")
            page.click("text=Drop this query")
            page.click("dialog >> text=Drop it")
            page.wait_for_function(
                "() => ![...document.querySelectorAll('table .link')].some((one) => one.textContent === 'more')"
            )
            while session.checkpoint.last < 3:
                handle.wait(0.1)
            page.click("text=Stop the run")
            page.click("dialog >> text=Stop it")
            life(page, "stopped")
            visit(page, "history")
            says(page, 'query "more" is new')
        assert not handle.active
    assert found(tmp_path) == expected(tmp_path)


def test_a_killed_session_is_shown_from_its_checkpoint_alone(browser: Browser, tmp_path: Path) -> None:
    make_input(tmp_path, batches=2, seed=2)
    command = [sys.executable, "-m", "tests.spark._shown", str(tmp_path)]
    with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "begun\n"
        served = serve(tmp_path / "checkpoint", Console(port=0))
        with viewing(browser, served) as page:
            life(page, "running")
            job.kill()
            life(page, "killed")
            visit_all(page)
            says(page, "the run was killed")
        served.close()


def test_a_hundred_queries_run_and_are_shown(browser: Browser, spark: SparkSession, tmp_path: Path) -> None:
    make_input(tmp_path, batches=1, seed=3)
    session = weft.Session(tmp_path / "checkpoint", spark=spark, workers=2)
    session.options(sharing="local")
    for name in "rst":
        session.stream(name, weft.read.parquet(tmp_path / "in" / name), event_time="ts", lateness="30 seconds")
    for number in range(100):
        sql = f"SELECT r.id AS a, s.id AS b FROM r JOIN s ON r.k = s.k WHERE r.id > {number} WITHIN INTERVAL '1' MINUTE"
        session.query(f"q{number}", sql).to_memory()
    with session:
        session.run(console=Console(port=0))
        served = session.start(every=1.0, console=Console(port=0)).console
        assert served is not None
        with viewing(browser, served) as page:
            life(page, "running")
            visit_all(page)


def test_the_demonstration_loses_nothing_whatever_the_viewer_chooses(spark: SparkSession, tmp_path: Path) -> None:
    seconds = itertools.count(1_800_000_000)
    demo = LiveDemo(tmp_path, spark=spark, clock=lambda: next(seconds))
    choices = [{"scheme": "hash"}, {"workers": "4", "skew": "always"}, {"scheme": "hybrid", "local": "kept joins"}]
    with demo.session:
        demo.session.run()
        for choice in choices:
            demo.choose(choice)
            for _ in range(3):
                demo.feeder.arrive()
            demo.session.run()
    newest = "greatest(r.ts, m.ts, t.ts, j.ts, f.ts)"
    wanted = f"""
        SELECT m.id AS machine, r.site, j.owner, t.id AS task, f.reason
        FROM rack r JOIN machine m ON m.rack = r.id JOIN task t ON t.machine = m.id
        JOIN job j ON j.id = t.job JOIN failure f ON f.machine = t.machine
        WHERE j.class = 'production' AND {newest} - t.ts < INTERVAL 5 SECOND
        AND {newest} - j.ts < INTERVAL 60 SECOND AND {newest} - f.ts < INTERVAL 5 SECOND"""
    with duckdb.connect() as connection:
        for name in ("rack", "machine", "job", "task", "failure"):
            connection.register(name, ds.dataset(tmp_path / "streams" / name, format="parquet"))
        connection.register("found", ds.dataset(tmp_path / "results" / "failing_machines", format="parquet"))
        both = f"(({wanted}) EXCEPT ALL (FROM found)) UNION ALL ((FROM found) EXCEPT ALL ({wanted}))"
        assert connection.execute(both).fetchall() == []
        assert connection.execute("SELECT count(*) > 1000 FROM found").fetchall() == [(True,)]


def test_a_run_that_fails_in_the_background_is_called_failed(spark: SparkSession, tmp_path: Path) -> None:
    def refuse(_frame: object, _batch: int) -> None:
        raise ValueError("no more room")

    ended = threading.Event()
    make_input(tmp_path, batches=1, seed=4)
    session = make_session(tmp_path, spark=spark)
    session.queries["pairs"].foreach_batch(refuse)
    handle = session.start(every=0.1)
    while handle.active:
        ended.wait(0.05)
    assert Picture(tmp_path / "checkpoint").state()["life"]["state"] == "failed"
    assert "no more room" in Picture(tmp_path / "checkpoint").state()["life"]["why"]
    with pytest.raises(weft.WeftError, match="no more room"):
        session.close()
