"""Sources and sinks of other kinds than Weft's own, known only by their protocols."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import framed, table
from weft.host.results.sink import Results, Sink
from weft.host.results.sinks import SINKS
from weft.host.sources.source import Piece, Source
from weft.host.state.manifest import Ledger

pytestmark = pytest.mark.spark

PAIR = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.k = b.k"


@dataclass(frozen=True)
class Topic(Source):
    """Rows in partitions, one JSON line each; a position is an offset for each partition."""

    folder: Path
    most: int = 2
    """Rows of a partition that a batch may have."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("id", pa.int64()), ("k", pa.int64())])

    def open(self, stream: str, folder: str) -> TopicReader:
        return TopicReader(stream, self.folder, self.most)

    def write(self, partition: int, *rows: tuple[int, int]) -> None:
        self.folder.mkdir(exist_ok=True)
        with open(self.folder / str(partition), "a") as file:
            file.writelines(json.dumps({"id": i, "k": k}) + "\n" for i, k in rows)


@dataclass(frozen=True)
class TopicReader:
    stream: str
    folder: Path
    most: int

    def beginning(self) -> Any:
        return {}

    def discover(self) -> Any:
        return {path.name: len(path.read_text().splitlines()) for path in sorted(self.folder.iterdir())}

    def end(self, start: Any, known: Any) -> Any:
        return {name: min(count, start.get(name, 0) + self.most) for name, count in known.items()}

    def pieces(self, start: Any, end: Any) -> list[Piece]:
        return [Piece(name, (start.get(name, 0), end[name]), 1, self.stream) for name in end]

    def check(self, position: Any) -> None:
        assert all((self.folder / name).exists() for name in position)

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        assert piece.groups is not None
        lines = (self.folder / piece.file).read_text().splitlines()[slice(*piece.groups)]
        yield from pa.Table.from_pylist([json.loads(line) for line in lines], schema).select(columns).to_batches()


class Counting(Sink):
    """Counts the rows of each batch."""

    def __init__(self, query: str, schema: pa.Schema, seen: dict[int, Counter[tuple[Any, ...]]]) -> None:
        self.query, self.schema, self.seen = query, schema, seen

    def take(self, results: Results) -> None:
        rows = [tuple(row.values()) for file in results.files for row in pq.read_table(file).to_pylist()]
        assert sorted(rows) == sorted(map(tuple, results.load().collect()))
        self.seen[results.batch] = Counter(rows)


def run(root: Path, topic: Topic, seen: dict[int, Counter[tuple[Any, ...]]], b: object) -> weft.RunReport:
    s = weft.Session(root / "checkpoint", workers=2)
    s.stream("a", topic)
    s.stream("b", b)
    s.query("q", PAIR).to("counted", seen)
    return s.run()


def stream_b(root: Path, kind: str) -> object:
    rows = table(id=[10], k=[1])
    if kind == "own pace":
        return weft.read.batches([rows])
    (root / "b").mkdir(exist_ok=True)
    pq.write_table(rows, root / "b" / "0.parquet")
    return framed(root / "b", 2, "id LONG, k LONG")


@pytest.mark.parametrize("kind", ["own pace", "with a DataFrame"])
def test_a_source_with_positions_of_its_own_and_a_sink_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setitem(SINKS, "counted", Counting)  # type: ignore[arg-type]
    seen: dict[int, Counter[tuple[Any, ...]]] = {}
    topic = Topic(tmp_path / "topic")
    topic.write(0, (0, 1), (1, 1), (2, 1))
    topic.write(1, (3, 1), (4, 2))
    report = run(tmp_path, topic, seen, stream_b(tmp_path, kind))
    assert [batch.rows_in["a"] for batch in report.batches] == [4, 1]
    assert sum(seen.values(), Counter()) == {(i, 10): 1 for i in range(4)}
    topic.write(1, (5, 1))
    topic.write(2, (6, 1))
    report = run(tmp_path, topic, seen, stream_b(tmp_path, kind))
    assert [batch.rows_in["a"] for batch in report.batches] == [2]
    assert seen[2] == {(5, 10): 1, (6, 10): 1}
    assert run(tmp_path, topic, seen, stream_b(tmp_path, kind)).batches == ()
    if kind == "own pace":
        assert Ledger(tmp_path / "checkpoint").last().offsets == {"a": {"0": 3, "1": 3, "2": 1}, "b": 1}
