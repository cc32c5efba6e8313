"""The demo: its streams are as described, and its check can fail."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.demo import run_demo, show
from weft.demo.check import Oracle, Verdict
from weft.demo.data import JITTER, LATENESS, DemoStream, write_streams
from weft.demo.queries import QUERIES, DemoQuery
from weft.errors import SinkError
from weft.testing import Trial

ORDERS = 3_000


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> tuple[DemoStream, ...]:
    return write_streams(tmp_path_factory.mktemp("demo") / "streams", orders=ORDERS, seed=7)


def files_of(stream: DemoStream) -> list[Path]:
    return sorted(stream.folder.glob("*.parquet"))


def test_same_seed_gives_same_bytes(streams: tuple[DemoStream, ...], tmp_path: Path) -> None:
    for once, again in zip(streams, write_streams(tmp_path, orders=ORDERS, seed=7), strict=True):
        assert [file.read_bytes() for file in files_of(once)] == [file.read_bytes() for file in files_of(again)]


def test_event_times_are_out_of_order_but_never_by_more_than_the_jitter(streams: tuple[DemoStream, ...]) -> None:
    for stream in (stream for stream in streams if stream.event_time is not None):
        tables = [pq.read_table(file) for file in files_of(stream)]
        times = pa.concat_tables(tables)[stream.event_time].to_numpy().astype(np.int64)
        behind = np.maximum.accumulate(times) - times
        assert 0 < behind.max() < JITTER
        assert (len(times), len(tables)) == (stream.rows, stream.files)


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name)
def test_check_sees_missing_extra_and_doubled_rows(
    streams: tuple[DemoStream, ...], query: DemoQuery, tmp_path: Path
) -> None:
    oracle = Oracle(streams)
    empty = oracle.check(query, tmp_path / "gone")
    assert (empty.rows, empty.missing, empty.extra) == (0, empty.expected, 0)
    assert empty.expected > 20
    answer = _answer(oracle, query)
    rows = len(answer)

    results = tmp_path / "results"
    results.mkdir()
    pq.write_table(answer, results / "part.parquet")
    assert oracle.check(query, results) == Verdict(rows, rows, 0, 0)
    pq.write_table(pa.concat_tables([answer, answer.slice(0, 1)]), results / "part.parquet")
    assert oracle.check(query, results) == Verdict(rows + 1, rows, 0, 1)
    pq.write_table(answer.slice(2), results / "part.parquet")
    assert not oracle.check(query, results).equal


def _answer(oracle: Oracle, query: DemoQuery) -> pa.Table:
    return oracle.duck.sql(query.oracle).to_arrow_table()


def test_windows_of_the_demo_cut_matches_off(streams: tuple[DemoStream, ...]) -> None:
    duck = Oracle(streams).duck
    for query in QUERIES[:2]:
        unwindowed, windows = query.oracle.split("  AND greatest", 1)
        assert windows
        assert duck.sql(unwindowed).shape[0] > duck.sql(query.oracle).shape[0]


@pytest.mark.parametrize("measured", [False, True])
def test_estimates_of_the_demo_are_within_a_factor_of_three(
    streams: tuple[DemoStream, ...], tmp_path: Path, measured: bool
) -> None:
    session = weft.Session(tmp_path / "state", workers=2)
    for stream in streams:
        timing = {"static": True} if stream.event_time is None else {"lateness": LATENESS}
        session.stream(stream.name, weft.read.parquet(stream.folder), event_time=stream.event_time, **timing)
    for query in QUERIES:
        session.query(query.name, query.sql)
    if measured:
        session.analyze()
    pages = json.loads(session.explain("topology", "json"))["queries"]
    expected = {page["query"]: page["results"]["estimated"] for page in pages}
    with Oracle(streams) as oracle:
        for query in QUERIES:
            came = oracle.duck.sql(query.oracle).shape[0]
            assert came / 3 < expected[query.name] < came * 3


def test_watermarks_of_the_demo_move_and_windows_expire(streams: tuple[DemoStream, ...], tmp_path: Path) -> None:
    """Its dimensions are tables: they hold nothing up."""
    trial = Trial(show._Demo(tmp_path)._declare(streams, 2))
    marks, held = [], []
    for at in range(6):
        trial.feed({stream.name: pq.read_table(files_of(stream)[at]) for stream in streams if at < stream.files})
        marks.append(min(mark or 0 for mark in trial.manifest.watermarks(trial.topology).values()))
        held.append(sum(trial.state_rows.values()))
    assert [0, *marks] == sorted({0, *marks})
    assert held != sorted(held), "rows have left the windows"


def test_folder_that_exists_is_not_touched(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="exists"):
        run_demo(keep=tmp_path)


@pytest.mark.spark
def test_demo_is_right_on_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_demo(orders=1_000, keep=tmp_path / "kept here", workers=2)
    said = capsys.readouterr().out
    for query in QUERIES:
        assert f"right  {query.name}: all " in said


@pytest.mark.spark
def test_without_duckdb_the_demo_runs_and_says_how_to_get_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "has_duckdb", lambda: False)
    assert run_demo(orders=300, keep=tmp_path / "kept here", workers=2)
    said = capsys.readouterr().out
    assert "The check of every row is skipped: it needs DuckDB (pip install duckdb)" in said
    assert "Results of fresh_orders, the first 3 of" in said
