"""Small result files are merged; whoever lists the folder sees every row once, at any moment."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.errors import SinkError, SourceError
from weft.host.results import merging, parquet
from weft.host.results.parquet import ParquetSink
from weft.host.results.part import Part
from weft.host.results.sink import Results
from weft.host.sources.filelog import FileLog

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


class Folder:
    """Results of batches with two files each; row x = 10 * batch + file comes `1 + x % 3` times."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, many: int = 8) -> None:
        monkeypatch.setattr(merging, "MANY", many)
        monkeypatch.setattr(parquet, "MANY", many)
        self.root, self.out = root, root / "out"
        self.open()
        self.wanted: Counter[int] = Counter()

    def open(self, last: int = -1) -> None:
        self.sink = ParquetSink("q", SCHEMA, self.out)
        self.sink.claim("me", published=last >= 0, last=last)

    def take(self, batch: int) -> None:
        files = []
        for file in range(2):
            x = 10 * batch + file
            self.wanted[x] = 1 + x % 3
            files.append(self.root / f"{batch:012d}-1-{file:04d}.parquet")
            pq.write_table(pa.table({"x": [x] * self.wanted[x], "s": [str(x)] * self.wanted[x]}, SCHEMA), files[-1])
        self.sink.take(Results(batch, tuple(files), list, lambda: None))

    def found(self) -> Counter[int]:
        rows = duckdb.sql(f"SELECT x FROM read_parquet('{self.out}/*.parquet')").fetchall()
        return Counter(x for (x,) in rows)


def test_many_batches_make_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path, monkeypatch)
    most = 0
    for batch in range(300):
        folder.take(batch)
        most = max(most, len(list(folder.out.iterdir())))
    assert folder.found() == folder.wanted
    assert most < 50, "600 small files were placed"
    levels = {part.level for file in folder.out.iterdir() if (part := Part.of(file.name))}
    assert levels >= {0, 1, 2}
    folder.open(last=299)
    assert not list(tmp_path.glob(".out*"))


def test_large_files_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "LARGE", 10)
    folder = Folder(tmp_path, monkeypatch)
    for batch in range(20):
        folder.take(batch)
    assert len(list(folder.out.glob("0*.parquet"))) == 40


def test_a_reader_sees_whole_generations_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads all the time; a file that is gone lets it list again."""
    folder = Folder(tmp_path, monkeypatch)
    done = threading.Event()
    wrong: list[object] = []
    seen = threading.Semaphore(0)

    def read() -> None:
        while not done.is_set():
            before = dict(folder.wanted)
            try:
                files = sorted(folder.out.glob("0*.parquet"))
                rows = Counter(x for file in files for x in pq.read_table(file)["x"].to_pylist())
            except OSError:
                continue  # a file is gone: list again
            except Exception as error:  # noqa: BLE001 - told below
                wrong.append(error)
                continue
            seen.release()
            placed = {x: n for x, n in before.items() if x // 10 < max(before) // 10}
            if any(rows[x] != n for x, n in placed.items()) or any(n != 1 + x % 3 for x, n in rows.items()):
                wrong.append(rows)

    reader = threading.Thread(target=read)
    reader.start()
    for batch in range(200):
        folder.take(batch)
        if batch % 10 == 9:
            assert seen.acquire(timeout=60), "the reader finds a moment to read all"
    done.set()
    reader.join()
    assert not wrong, wrong[:1]
    assert folder.found() == folder.wanted


def test_a_folder_that_was_opened_before_a_merge_is_listed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, monkeypatch)
    for batch in range(4):
        folder.take(batch)
    there = {file.name for file in folder.out.iterdir()}
    opened = os.open(folder.out, os.O_RDONLY)
    for batch in range(4, 12):
        folder.take(batch)
    assert not there <= {file.name for file in folder.out.iterdir()}, "files were merged"
    assert there <= set(os.listdir(opened))
    os.close(opened)
    monkeypatch.setattr(merging, "RETIRED", 0.0)
    for batch in range(12, 24):
        folder.take(batch)
    assert len(list(tmp_path.glob(".out*/*"))) == 1, "earlier generations are removed"


def test_a_pattern_over_several_folders_finds_no_other_generation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's `*` finds hidden folders too."""
    folder = Folder(tmp_path, monkeypatch)
    for batch in range(20):
        folder.take(batch)
    assert list(tmp_path.glob(".out*/*")), "an earlier generation is still there"
    rows = duckdb.sql(f"SELECT x FROM read_parquet('{tmp_path}/*/*.parquet')").fetchall()
    assert Counter(x for (x,) in rows) == folder.wanted


@pytest.mark.parametrize("step", ["_write", "sync_folder", "_exchange before", "_exchange after"])
def test_a_run_that_dies_while_it_merges_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    folder = Folder(tmp_path, monkeypatch)
    name, _, when = step.partition(" ")
    real = getattr(merging, name)

    def die(*arguments: object) -> None:
        if when != "before":
            real(*arguments)
        raise KeyboardInterrupt

    for batch in range(4):
        folder.take(batch)
    with monkeypatch.context() as now:
        now.setattr(merging, name, die)
        now.setattr(merging.shutil, "rmtree", lambda *_args, **_more: None)  # a killed process cleans nothing
        with pytest.raises(KeyboardInterrupt):
            folder.take(4)
    assert {x: n for x, n in folder.wanted.items() if x < 40} == folder.found()
    folder.open(last=4)
    for batch in range(4, 30):
        folder.take(batch)
    assert folder.found() == folder.wanted
    folder.open(last=29)
    assert not list(tmp_path.glob(".out*"))


def test_where_folders_cannot_change_places_nothing_is_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path, monkeypatch)
    monkeypatch.setattr(merging, "_exchange", lambda *_: False)
    for batch in range(20):
        folder.take(batch)
    assert len(list(folder.out.glob("0*.parquet"))) == 40
    assert folder.found() == folder.wanted


def test_merging_can_be_switched_off_and_keeps_what_others_put_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, monkeypatch)
    (folder.out / "_notes.txt").write_text("mine")
    for batch in range(20):
        folder.take(batch)
    assert (folder.out / "_notes.txt").read_text() == "mine"
    kept = ParquetSink("p", SCHEMA, tmp_path / "kept", merge=False)
    kept.claim("me", published=False, last=-1)
    folder.sink, before = kept, len(folder.wanted)
    for batch in range(20, 40):
        folder.take(batch)
    assert len(list((tmp_path / "kept").glob("0*.parquet"))) == len(folder.wanted) - before == 40


def test_a_checkpoint_that_is_older_than_merged_results_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, monkeypatch)
    for batch in range(20):
        folder.take(batch)
    with pytest.raises(SinkError, match="that the checkpoint does not know") as error:
        folder.open(last=1)
    assert error.value.hint is not None
    assert "from the same backup" in error.value.hint


def test_a_stream_that_has_read_the_parts_of_a_merged_file_does_not_read_them_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, monkeypatch)
    for batch in range(2):
        folder.take(batch)
    log = FileLog(str(folder.out), str(tmp_path / "log"))
    assert log.discover() == 5, "with the empty one"
    for batch in range(2, 20):
        folder.take(batch)
    with pytest.raises(SourceError, match="holds rows that were read before") as error:
        log.discover()
    assert error.value.hint is not None
    assert "merge=False" in error.value.hint
    assert FileLog(str(folder.out), str(tmp_path / "another")).discover() > 0, "a stream that begins now reads all once"


def test_a_folder_that_is_gone_is_no_matter_of_merging(tmp_path: Path) -> None:
    assert not merging.merge_files(tmp_path / "gone", 5)
    assert not list(tmp_path.iterdir())
