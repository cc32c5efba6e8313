"""What the tests on Spark share: small inputs that arrive as files, and the answer as DuckDB gives it."""

from __future__ import annotations

import datetime
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import weft
from weft.host.crash import CrashPoint
from weft.launch.spark import local_session

BASE = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
Answer = Counter[tuple[Any, ...]]


def moment(seconds: float) -> datetime.datetime:
    """A time of the test clock."""
    return BASE + datetime.timedelta(seconds=seconds)


def table(**columns: Any) -> pa.Table:
    """A table; lists of whole numbers become int64, lists of datetimes timestamps in microseconds."""
    arrays = {n: v if isinstance(v, pa.Array | pa.ChunkedArray) else pa.array(v) for n, v in columns.items()}
    return pa.table(arrays)


def drop(folder: Path, name: str, content: pa.Table) -> Path:
    """Let a file arrive in a folder, at once, as a careful producer does."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{name}"
    pq.write_table(content, aside)
    return aside.rename(folder / name)


def hang_at(session: weft.Session, point: Sequence[str]) -> None:
    """Let a job wait to be killed, if its last arguments say where: POINT BATCH MARK."""
    if point:
        name, batch, mark = point
        session.crash_point = CrashPoint(name, int(batch), "hang", mark)


def answer(source: Path | pa.Table) -> Answer:
    """The rows of a result as a multiset, in the way any reader would see a folder."""
    found = source if isinstance(source, pa.Table) else ds.dataset(source, format="parquet").to_table()
    return Counter(zip(*(column.to_pylist() for column in found.columns), strict=True))


def oracle(sql: str, **inputs: pa.Table) -> Answer:
    """The answer of DuckDB to a query over tables."""
    with duckdb.connect() as connection:
        for name, content in inputs.items():
            connection.register(name, content)
        return Counter(connection.execute(sql).fetchall())


# ------------------------------------------------------------------------------------ a job to be killed

STREAMS = ("r", "s", "t")
WINDOWED = """
    SELECT r.id AS rid, s.id AS sid, t.id AS tid
    FROM r WITHIN INTERVAL '40' SECOND
    JOIN s WITHIN INTERVAL '60' SECOND ON s.k = r.k
    JOIN t WITHIN INTERVAL '50' SECOND ON t.m = s.m
"""
HISTORY = """
    SELECT r.id AS rid, s.id AS sid, t.id AS tid, z.id AS zid, r.k + t.m AS x
    FROM r JOIN s ON s.k = r.k JOIN t ON t.m = s.m JOIN s z ON z.m = t.k
"""
PAIRS = "SELECT r.id AS rid, t.id AS tid FROM r JOIN t ON r.k < t.m AND t.m <= r.k + 1 WHERE t.id % 3 = 0"
QUERIES = {"windowed": WINDOWED, "history": HISTORY, "pairs": PAIRS}

_NEWEST = "greatest(r.ts, s.ts, t.ts)"
ORACLES = {
    "windowed": f"""
        SELECT r.id, s.id, t.id FROM r JOIN s ON s.k = r.k JOIN t ON t.m = s.m
        WHERE {_NEWEST} - r.ts < INTERVAL 40 SECOND AND {_NEWEST} - s.ts < INTERVAL 60 SECOND
          AND {_NEWEST} - t.ts < INTERVAL 50 SECOND""",
    "history": HISTORY,
    "pairs": PAIRS,
}


def make_input(root: Path, batches: int, seed: int, rows: int = 40, first: int = 0) -> None:
    """Files of three streams, one a batch each; rows are up to 10 seconds out of order."""
    dice = np.random.default_rng([seed, first])
    for at, stream in enumerate(STREAMS):
        for batch in range(first, first + batches):
            ids = np.arange(rows) + (batch * rows + at * 1_000_000)
            seconds = batch * 20 + dice.integers(-9, 10, rows)
            columns = {
                "id": ids.tolist(),
                "k": dice.integers(0, 80, rows).tolist(),
                "m": dice.integers(0, 80, rows).tolist(),
                "ts": [moment(int(x)) for x in seconds],
            }
            path = drop(root / "in" / stream, f"{batch:04d}.parquet", table(**columns))
            os.utime(path, (batch, batch))  # Spark's own file source goes by it


PLANS: dict[str, dict[str, weft.Plan | str]] = {
    "flat": dict.fromkeys(QUERIES, "flat"),
    "kept": {
        "windowed": weft.Plan([("s", "t")], placement={("s", "t"): "s.k"}),
        "history": weft.Plan([("s", "t"), ("r", "s", "t")], placement={"z": None}),
    },
    "left_deep": {"windowed": "left_deep", "history": "left_deep"},
    "mixed": dict.fromkeys(QUERIES, "flat"),
}
"""Plans of the job by name: query -> strategy.  "mixed" is "flat" with a stream of Spark's."""
SCHEMA = "id LONG, k LONG, m LONG, ts TIMESTAMP_NTZ"
STATISTICS = weft.Statistics(rows=dict.fromkeys(STREAMS, 1000.0), predicates={"s.k = r.k": 1 / 80, "t.m = s.m": 1 / 80})


def make_session(
    root: Path, workers: int = 2, plans: str = "flat", checkpoint: str | None = None, **options: Any
) -> weft.Session:
    """The session over :func:`make_input`."""
    session = weft.Session(checkpoint or root / "checkpoint", workers=workers, **options)
    session.options(statistics=STATISTICS)  # files come and go; the plan must not
    for stream in STREAMS:
        folder = root / "in" / stream
        source = (
            framed(folder, workers) if (plans, stream) == ("mixed", "s") else weft.read.parquet(folder, max_files=1)
        )
        session.stream(stream, source, event_time="ts", lateness="30 seconds")
    for name, sql in QUERIES.items():
        session.query(name, sql, strategy=PLANS[plans].get(name)).to_parquet(root / "out" / name)
    return session


def framed(folder: Path, workers: int = 2, schema: str = SCHEMA, max_files: int | None = 1) -> Any:
    """A folder as a streaming DataFrame."""
    reader = local_session(workers).readStream.schema(schema)
    reader = reader if max_files is None else reader.option("maxFilesPerTrigger", max_files)
    return reader.parquet(str(folder))


def expected(root: Path) -> dict[str, Answer]:
    """What the result folders must hold in the end."""
    inputs = {stream: pq.read_table(root / "in" / stream) for stream in STREAMS}
    return {name: oracle(sql, **inputs) for name, sql in ORACLES.items()}


def found(root: Path) -> dict[str, Answer]:
    """What the result folders hold."""
    return {name: answer(root / "out" / name) for name in QUERIES if (root / "out" / name / "empty.parquet").exists()}


def listing(folder: Path) -> dict[str, int]:
    """Visible files of a folder with their sizes."""
    while True:
        try:
            return {p.name: p.stat().st_size for p in folder.iterdir() if not p.name.startswith((".", "_"))}
        except FileNotFoundError:
            continue  # merged meanwhile: list again
