"""Files that are read again when they change: what happens to them while they are read ends no run."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.errors import SourceError, WeftError
from weft.host.sources import folders, refreshed
from weft.host.sources.folders import FolderNow
from weft.host.sources.refreshed import CHANGE, RefreshedSource
from weft.host.sources.source import Source

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def put(folder: Path, name: str, *values: int) -> Path:
    pq.write_table(pa.table({"k": values, "v": values}, SCHEMA), folder / f".{name}")
    return (folder / f".{name}").rename(folder / f"{name}.parquet")


class Files:
    """A folder of files, and a reader to whom something happens whenever it has looked."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = tmp_path / "in"
        self.folder.mkdir()
        monkeypatch.setattr(refreshed, "PAUSE", 0.0)
        look = FolderNow.look
        monkeypatch.setattr(FolderNow, "look", lambda folder: (look(folder), self._happen())[0])
        self.happens = list[object]()
        source = RefreshedSource(weft.read.parquet(self.folder, schema=SCHEMA))
        self.reader = source.open("t", str(tmp_path / "sources"))

    def _happen(self) -> None:
        if self.happens and callable(action := self.happens.pop(0)):
            action()

    def changes(self, start: int, end: object) -> list[tuple[int, int]]:
        """(Key, how often it is new) between two positions."""
        assert isinstance(end, int)
        names = [*SCHEMA.names, CHANGE]
        schema = SCHEMA.append(pa.field(CHANGE, pa.int64()))
        found = [b for p in self.reader.pieces(start, end) for b in self.reader.read(p, names, schema)]
        return sorted((row["k"], row[CHANGE]) for part in found for row in part.to_pylist())


def test_file_that_goes_while_files_are_read_is_left_for_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path, monkeypatch)
    put(files.folder, "a", 1)
    assert files.reader.discover() == 1
    other = put(files.folder, "b", 2)
    found = folders.list_files(str(files.folder))
    with monkeypatch.context() as patch:
        patch.setattr(folders, "list_files", lambda _path, _at=None, deep=False: found)
        files.happens = [lambda: os.remove(other)]
        assert files.reader.discover() == 1
    assert files.reader.discover() == 1
    put(files.folder, "c", 3)
    assert files.changes(1, files.reader.discover()) == [(3, 1)]


def test_file_that_is_half_written_is_left_for_the_next_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    whole = put(files.folder, "a", 1)
    assert files.reader.discover() == 1
    content = put(files.folder, "b", 2).read_bytes()
    whole.write_bytes(content[:50])
    (files.folder / "b.parquet").unlink()
    looks = iter(["one", "two"])
    with monkeypatch.context() as patch:
        patch.setattr(FolderNow, "look", lambda _folder: next(looks))
        assert files.reader.discover() == 1
    whole.write_bytes(content)
    assert files.changes(1, files.reader.discover()) == [(1, -1), (2, 1)]


def test_first_look_is_made_until_it_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    put(files.folder, "a", 1)
    files.happens = [lambda: put(files.folder, "a", 2), None, lambda: put(files.folder, "a", 2, 3)]
    assert files.changes(0, files.reader.discover()) == [(2, 1), (3, 1)]


def test_files_that_never_stay_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    put(files.folder, "a", 1)
    files.happens = [lambda n=n: put(files.folder, "a", *range(n)) for n in range(2, 2 + 2 * refreshed.TRIES)]
    with pytest.raises(SourceError, match="change all the time"):
        files.reader.discover()


def test_file_that_stays_bad_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    (files.folder / "a.parquet").write_bytes(b"no parquet")
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read"):
        files.reader.discover()


class Numbers(Source):
    """A source of one's own that can be read again as a whole."""

    def __init__(self, *numbers: int) -> None:
        self.numbers = numbers

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def whole(self) -> Numbers:
        return self

    def look(self) -> str:
        return str(self.numbers)

    def read(self) -> pa.Table:
        return pa.table({"k": self.numbers, "v": self.numbers}, SCHEMA)


def test_source_that_is_no_folder_is_read_again_if_it_can(tmp_path: Path) -> None:
    numbers, s = Numbers(1, 2), weft.Session("never-made")
    s.table("t", numbers, key="k", refresh=True)
    reader = s.sources["t"].open("t", str(tmp_path))
    found = list[tuple[int, int]]()
    for now in ((1, 2), (2, 3)):
        numbers.numbers, start = now, reader.beginning() if not found else 1
        [piece] = reader.pieces(start, reader.discover())
        [rows] = reader.read(piece, ["k", CHANGE], s.sources["t"].schema)
        found += sorted((row["k"], row[CHANGE]) for row in rows.to_pylist())
    assert found == [(1, 1), (2, 1), (1, -1), (3, 1)]


def test_source_whose_rows_are_read_once_is_refused() -> None:
    rows = weft.read.batches([pa.table({"k": [1], "v": [1]}, SCHEMA)])
    with pytest.raises(WeftError, match='table "t" cannot be read again'):
        weft.Session("never-made").table("t", rows, refresh=True)


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": [1], "v": [[1, 2]]}), tmp_path / "a.parquet")
    with pytest.raises(WeftError, match='column "v" of table "t" has type list') as caught:
        weft.Session("never-made").table("t", weft.read.parquet(tmp_path), refresh=True)
    assert caught.value.hint


# ------------------------------------------------------------------------------------------- bad files


class Skipping(Files):
    """The same where files that cannot be read may be left out."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(tmp_path, monkeypatch)
        source = RefreshedSource(weft.read.parquet(self.folder, schema=SCHEMA).skip_bad_files())
        self.reader = source.open("t", str(tmp_path / "sources"))

    def spoil(self, name: str) -> None:
        (self.folder / f".{name}").write_bytes(b"garbage")
        (self.folder / f".{name}").rename(self.folder / f"{name}.parquet")

    def said(self) -> list[str]:
        return [notice.message for notice in self.reader.notices()]


def test_file_that_could_never_be_read_is_left_out_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Skipping(tmp_path, monkeypatch)
    put(files.folder, "a", 1)
    files.spoil("b")
    assert files.reader.discover() == 1
    assert files.changes(0, 1) == [(1, 1)]
    assert files.said() == [f'1 file of table "t" left out, the last one {files.folder / "b.parquet"}']
    assert files.reader.discover() == 1
    assert files.said() == []
    put(files.folder, "c", 3)
    assert files.changes(1, files.reader.discover()) == [(3, 1)]
    put(files.folder, "b", 2)
    assert files.changes(2, files.reader.discover()) == [(2, 1)]


def test_file_that_cannot_be_read_any_more_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Skipping(tmp_path, monkeypatch)
    put(files.folder, "a", 1, 2)
    put(files.folder, "b", 3)
    assert files.reader.discover() == 1
    files.spoil("a")
    put(files.folder, "c", 4)
    assert files.reader.discover() == 1
    (said,) = files.said()
    assert said.startswith(f'table "t" stays as it was: {files.folder / "a.parquet"} could be read before')
    put(files.folder, "a", 1)
    assert files.changes(1, files.reader.discover()) == [(2, -1), (4, 1)]
    assert files.said() == []
    files.spoil("a")
    assert files.reader.discover() == 2
    (files.folder / "a.parquet").unlink()
    assert files.changes(2, files.reader.discover()) == [(1, -1)]


def test_which_files_were_good_is_known_after_a_restart_also_where_they_have_no_new_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Skipping(tmp_path, monkeypatch)
    a = put(files.folder, "a", 1)
    files.reader.discover()
    a.rename(files.folder / "c.parquet")
    files.reader.discover()
    files.spoil("c")
    again = Skipping.__new__(Skipping)
    again.folder = files.folder
    source = RefreshedSource(weft.read.parquet(files.folder, schema=SCHEMA).skip_bad_files())
    again.reader = source.open("t", str(tmp_path / "sources"))
    assert again.changes(0, again.reader.discover()) == [(1, 1)]
    assert "stays as it was" in again.said()[0]


def test_bad_file_ends_the_run_unless_it_may_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    put(files.folder, "a", 1)
    files.reader.discover()
    (files.folder / "a.parquet").write_bytes(b"garbage")
    with pytest.raises(SourceError, match=r"a\.parquet cannot be read") as caught:
        files.reader.discover()
    assert 'bad_files="skip"' in str(caught.value.hint)


def test_rows_stay_when_the_cure_for_a_bad_file_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = Files(tmp_path, monkeypatch)
    put(files.folder, "a", 1, 2)
    assert files.changes(0, files.reader.discover()) == [(1, 1), (2, 1)]
    (files.folder / "a.parquet").write_bytes(b"garbage")
    with pytest.raises(SourceError):
        files.reader.discover()
    source = RefreshedSource(weft.read.parquet(files.folder, schema=SCHEMA).skip_bad_files())
    files.reader = source.open("t", str(tmp_path / "sources"))
    assert files.changes(0, files.reader.discover()) == [(1, 1), (2, 1)]


@pytest.mark.parametrize("values", range(20))
def test_table_is_always_what_its_good_files_said_at_some_look(
    values: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are written, spoiled and removed; the model keeps the rows of the last look without a spoiled file."""
    chance = np.random.default_rng(values)
    files = Skipping(tmp_path, monkeypatch)
    there: dict[str, list[int] | None] = {"a": [1]}
    put(files.folder, "a", 1)
    kept: dict[str, list[int]] = {}
    for _ in range(12):
        at = files.reader.discover()
        if not any(rows is None and name in kept for name, rows in there.items()) and there:
            kept = {name: rows for name, rows in there.items() if rows is not None}
        found = Counter[int]()
        for key, count in files.changes(0, at):
            found[key] += count
        assert +found == Counter(value for rows in kept.values() for value in rows)
        name = "abc"[chance.integers(3)]
        what = chance.integers(3)
        if what == 0 and len(there) > 1 and name in there:
            (files.folder / f"{name}.parquet").unlink()
            del there[name]
        elif what == 1:
            files.spoil(name)
            there[name] = None
        else:
            there[name] = chance.integers(5, size=2).tolist()
            put(files.folder, name, *there[name])
