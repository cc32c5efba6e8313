"""Input and results in an object store: every result once, in all modes, although runs die and requests fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import weft
from tests.objectstore import Store
from tests.spark._kit import Answer, moment, oracle
from weft.host.crash import CrashPoint
from weft.host.state.depot import Depot
from weft.host.url import open_url
from weft.script import open_session, parse_script

pytestmark = pytest.mark.spark

PAIRS = "SELECT a.id, b.id AS other, a.k FROM a JOIN b ON a.k = b.k AND a.id > b.id"
SUMS = "SELECT a.k, count(*) AS n, sum(a.id) AS total FROM a GROUP BY a.k"
WINDOWS = "SELECT a.k, count(*) AS n FROM a GROUP BY a.k, window(a.ts, '20 seconds')"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store().running() as running:
        yield running


def put_rows(store: Store, folder: str, name: str, rows: pa.Table) -> None:
    file = pa.BufferOutputStream()
    pq.write_table(rows, file)
    Depot(store.url(folder)).put_bytes(name, file.getvalue().to_pybytes())


def make_inputs(store: Store, folder: str, batches: int) -> dict[str, pa.Table]:
    """Two streams, a file a batch each; all rows of each."""
    dice, made = np.random.default_rng(4), {}
    for stream in ("a", "b"):
        parts = []
        for batch in range(batches):
            ids = dice.integers(0, 1000, 30)
            rows = {"id": ids, "k": ids % 7, "ts": [moment(batch * 20 + int(x) % 20) for x in ids]}
            parts.append(pa.table({name: pa.array(values) for name, values in rows.items()}))
            put_rows(store, f"{folder}/{stream}", f"{batch}.parquet", parts[-1])
        made[stream] = pa.concat_tables(parts)
    return made


def read_results(store: Store, folder: str) -> pa.Table:
    """What any reader finds there."""
    files, path = open_url(store.url(folder))
    return ds.dataset(path, filesystem=files, format="parquet", partitioning="hive").to_table()


def answer_of(rows: pa.Table, *columns: str) -> Answer:
    return Counter(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))


def make_session(root: Path, store: Store) -> weft.Session:
    session = weft.Session(root / "state", workers=2)
    for stream in ("a", "b"):
        source = weft.read.parquet(store.url(f"job/in/{stream}"), max_files=1)
        session.stream(stream, source, event_time="ts", lateness="0 seconds")
    session.query("pairs", PAIRS).to_parquet(store.url("job/pairs"))
    session.query("by", PAIRS).to_parquet(store.url("job/by"), partition_by="k")
    session.query("sums", SUMS).to_parquet(store.url("job/changes")).to_parquet(store.url("job/now"), mode="snapshot")
    session.query("windows", WINDOWS).to_parquet(store.url("job/final"), mode="final")
    return session


def test_every_result_once_at_urls_in_all_modes(tmp_path: Path, store: Store) -> None:
    made = make_inputs(store, "job/in", 3)
    store.failing = 0.01
    try:
        for batch, point in enumerate(("publish", "commit after"), start=1):
            session = make_session(tmp_path, store)
            session.crash_point = CrashPoint(point, batch)
            with pytest.raises(weft.HostError, match="crash point reached"):
                session.run()
        session = make_session(tmp_path, store)
        session.run()
    finally:
        store.failing = 0.0
    for folder in ("job/pairs", "job/by"):
        assert answer_of(read_results(store, folder), "id", "other", "k") == oracle(PAIRS, **made)
    sums = oracle(SUMS, **made)
    assert answer_of(read_results(store, "job/now"), "k", "n", "total") == sums
    changes = read_results(store, "job/changes")
    with duckdb.connect() as connection:
        connection.register("changes", changes)
        last = 'SELECT k, n, total FROM changes QUALIFY row_number() OVER (PARTITION BY k ORDER BY "#batch" DESC) = 1'
        assert Counter(connection.execute(last).fetchall()) == sums
        again = 'SELECT count(*) FROM (SELECT k, "#batch" FROM changes GROUP BY ALL HAVING count(*) > 1)'
        assert connection.execute(again).fetchone() == (0,)
    closed = "SELECT k, count(*) FROM a GROUP BY k, time_bucket(INTERVAL 20 SECOND, ts)"
    final = answer_of(read_results(store, "job/final"), "k", "n")
    assert final
    assert final <= oracle(closed, **made)
    noted = "".join(path.read_text(errors="replace") for path in (tmp_path / "state").rglob("*") if path.is_file())
    assert "job/in/a" in noted
    assert "secret" not in noted + repr(session) + session.explain() + str(session.queries)


def test_a_place_of_another_query_is_refused_and_a_store_that_is_gone_says_so(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_rows(store, "taken/a", "0.parquet", pa.table({"id": [1], "k": [1], "ts": [moment(0)]}))
    Depot(store.url("taken/out")).put_bytes("x.parquet", b"somebody's")
    session = weft.Session(tmp_path / "state", workers=2)
    session.stream("a", weft.read.parquet(store.url("taken/a")))
    session.query("q", "SELECT a.id FROM a").to_parquet(store.url("taken/out"))
    with pytest.raises(weft.SinkError, match=r"folder s3://bucket/taken/out already holds other results"):
        session.run()
    monkeypatch.setattr("weft.host.url.TRIES", 1)
    store.failing = 1.0
    try:
        with pytest.raises(weft.SinkError, match=r"folder s3://bucket/taken/out cannot be used") as caught:
            session.run()
    finally:
        store.failing = 0.0
    assert "secret" not in str(caught.value)


def test_a_script_names_places_by_urls(tmp_path: Path, store: Store) -> None:
    made = make_inputs(store, "script/in", 1)
    text = f"""
        SET workers = 2;
        CREATE STREAM a FROM PARQUET '{store.url("script/in/a")}';
        CREATE STREAM b FROM PARQUET '{store.url("script/in/b")}';
        CREATE QUERY pairs INTO PARQUET '{store.url("script/out")}' AS {PAIRS};
    """
    open_session(parse_script(text, folder=tmp_path, name="job")).run()
    assert answer_of(read_results(store, "script/out"), "id", "other", "k") == oracle(PAIRS, **made)
