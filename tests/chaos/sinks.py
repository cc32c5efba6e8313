"""The sinks of a story: how a job fills them, and how an independent reader counts what is in them.

parquet, folders            files of a folder, as any reader lists them
changes, final, snapshot    folders of a view
topic                       records of a topic, as a consumer of committed records sees them
calls                       a file for each call of a function, replaced if the batch comes again
sqlite                      rows and the number of the batch in one transaction
remote                      files of a folder in the object store
table                       a table of a catalog that ends with its process, and stays in its folder
"""

from __future__ import annotations

import datetime
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyarrow import fs

from tests.chaos.asked import Asked

Answer = Counter[tuple[Any, ...]]
DIFFERS = "differs"
"""A file beside calls: a batch came again with other rows."""


def attach(handle: Any, asked: Asked, root: Path, servers: str | None) -> None:
    """Give a query its sinks."""
    place = out(root) / asked.name
    for sink in asked.sinks:
        if sink in ("changes", "final", "snapshot"):
            handle.to_parquet(place / sink, mode=sink)
        elif sink == "parquet":
            handle.to_parquet(place / sink)
        elif sink == "folders":
            handle.to_parquet(place / sink, partition_by=last_column(handle))
        elif sink == "remote":
            handle.to_parquet(remote(root, asked.name))
        elif sink == "topic":
            handle.to_kafka(servers, topic_of(root, asked.name), patience="3 minutes")
        elif sink == "table":
            handle.to_table(f"of_{asked.name}", options={"path": place / sink})
        else:
            handle.foreach_batch({"calls": _calls, "sqlite": _sqlite}[sink](place, asked))


def out(root: Path) -> Path:
    """Where sinks are: on the disk of the checkpoint."""
    return root / "disk" / "out"


def remote(root: Path, name: str) -> str | None:
    """The URL of a place of the story; None if it has no object store."""
    place = root / "store"
    return place.read_text().format(name) if place.exists() else None


def last_column(handle: Any) -> str:
    """The column by which folders are made."""
    return str(handle.query.schema.names[-1])


def topic_of(root: Path, name: str) -> str:
    """The topic of a stream or of a query."""
    return f"{root.name}-{name}"


def _calls(folder: Path, asked: Asked) -> Callable[[Any, int], None]:
    def keep(df: Any, batch: int) -> None:
        rows = df.toArrow()
        place = folder / "calls" / f"{batch:06d}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists() and _rows(pq.read_table(place)) != _rows(rows):
            (place.parent / DIFFERS).write_text(f"batch {batch} came again with other rows")
        aside = place.with_name(f".{place.name}")
        pq.write_table(rows, aside)
        os.replace(aside, place)

    return keep


def _sqlite(folder: Path, asked: Asked) -> Callable[[Any, int], None]:
    """The recipe of the documentation: a batch whose number is there is left alone."""

    def keep(df: Any, batch: int) -> None:
        rows = [tuple(_plain(value) for value in row) for row in df.collect()]
        folder.mkdir(parents=True, exist_ok=True)
        with sqlite3.connect(folder / "sink.db") as database:
            database.execute("CREATE TABLE IF NOT EXISTS batches (batch INTEGER)")
            listed = ", ".join(f'"{name}"' for name in df.columns)
            unique = f", UNIQUE ({', '.join(asked.keys)})" if asked.keys else ""
            database.execute(f"CREATE TABLE IF NOT EXISTS results ({listed}{unique})")
            last = database.execute("SELECT max(batch) FROM batches").fetchone()[0]
            if last is None or last < batch:
                holes = ", ".join("?" * len(df.columns))
                database.executemany(f"INSERT OR REPLACE INTO results VALUES ({holes})", rows)
                database.execute("INSERT INTO batches VALUES (?)", (batch,))
        database.close()

    return keep


# ------------------------------------------------------------------------------------------------ reading


def found(asked: Asked, sink: str, root: Path, names: list[str], consume: Callable[[str], Iterable[Any]]) -> Answer:
    """What a sink holds, as a multiset of rows of these columns."""
    folder = out(root) / asked.name / sink
    if sink == "topic":
        return _records(consume(topic_of(root, asked.name)), names)
    if sink == "sqlite":
        return _database(asked, folder.parent / "sink.db", names)
    if sink == "calls":
        assert not (folder / DIFFERS).exists(), (folder / DIFFERS).read_text()
        called = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
        return _last(asked, (row for table in called for row in table.to_pylist()), names)
    by = "hive" if sink in ("folders", "table") else None
    if sink == "remote":
        files, path = fs.FileSystem.from_uri(remote(root, asked.name))
        read = ds.dataset(path, filesystem=files, format="parquet").to_table()
    else:
        read = ds.dataset(folder, format="parquet", partitioning=by).to_table()
    return _changed(asked, read, names) if sink == "changes" else _rows(read.select(names))


def _changed(asked: Asked, changes: pa.Table, names: list[str]) -> Answer:
    """The view after all changes."""
    rows = sorted(changes.to_pylist(), key=lambda row: (row["#batch"], row["#op"] != "delete"))
    if asked.keys:
        return _last(asked, rows, names)
    counted = Counter[tuple[Any, ...]]()
    for row in rows:
        counted[_tuple(row, names)] += -1 if row["#op"] == "delete" else 1
    assert not [row for row, count in counted.items() if count < 0], "more was taken back than there was"
    return +counted


def _last(asked: Asked, rows: Iterable[dict[str, Any]], names: list[str]) -> Answer:
    """Rows that stay; of a view, the last row of each group, unless it has left."""
    if not asked.keys:
        return Counter(_tuple(row, names) for row in rows)
    latest = {_tuple(row, asked.keys): row for row in rows}
    return Counter(_tuple(row, names) for row in latest.values() if row.get("#op") != "delete")


def _records(records: Iterable[Any], names: list[str]) -> Answer:
    messages = list(records)
    if any(message.key() is not None for message in messages):  # of a view: the last record of each key, if it has rows
        latest = {message.key(): message.value() for message in messages}
        read = [json.loads(value) for value in latest.values() if value is not None]
        return Counter(_tuple(row, names) for row in read)
    counted = Counter[tuple[Any, ...]]()
    for message in messages:
        row = json.loads(message.value())
        counted[_tuple(row, names)] += -1 if row.get("op") == "delete" else 1
    assert not [row for row, count in counted.items() if count < 0], "more was taken back than there was"
    return +counted


def _database(asked: Asked, path: Path, names: list[str]) -> Answer:
    with sqlite3.connect(path) as database:
        cursor = database.execute("SELECT * FROM results")
        columns = [column[0] for column in cursor.description]
        rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
    database.close()
    return _last(asked, rows, names)


def _rows(table: pa.Table) -> Answer:
    return Counter(_tuple(row, table.schema.names) for row in table.to_pylist())


def _tuple(row: dict[str, Any], names: Iterable[str]) -> tuple[Any, ...]:
    return tuple(_plain(row[name]) for name in names)


def _plain(value: Any) -> Any:
    """A value as every sink can say it."""
    return value.isoformat() if isinstance(value, datetime.datetime) else value


def expected(asked: Asked, tables: dict[str, pa.Table]) -> tuple[list[str], Answer]:
    """The columns, and what DuckDB says of them."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        result = connection.execute(asked.oracle)
        names = [column[0] for column in result.description]
        return names, Counter(tuple(map(_plain, row)) for row in result.fetchall())
