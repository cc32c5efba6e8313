"""Files in an object store: found, read and sampled like those of a folder; a store that fails is no bad file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.objectstore import Store
from weft.host import url
from weft.host.sources.folders import FileSource
from weft.host.state.depot import Depot

ROWS = pa.table({"k": [1, 2, 3], "t": ["a", "b", "c"]})
CSV, JSON = b"k,t\n1,a\n2,b\n3,c\n", b'{"k":1,"t":"a"}\n{"k":2,"t":"b"}\n{"k":3,"t":"c"}\n'


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store().running() as running:
        yield running


def parquet_bytes(rows: pa.Table, group: int = 2) -> bytes:
    file = pa.BufferOutputStream()
    pq.write_table(rows, file, row_group_size=group)
    content: bytes = file.getvalue().to_pybytes()
    return content


def read_all(source: FileSource, notes: Path) -> list[dict[str, object]]:
    """All rows, in the order of the files."""
    reader = source.open("s", str(notes))
    found = reader.pieces(0, reader.discover())
    return [row for piece in found for rows in reader.read(piece, ["k", "t"], ROWS.schema) for row in rows.to_pylist()]


def test_files_of_every_format_are_found_and_read(tmp_path: Path, store: Store) -> None:
    files = {"parquet": parquet_bytes(ROWS), "csv": CSV, "json": JSON}
    for kind, content in files.items():
        depot = Depot(store.url(f"in/{kind}"))
        depot.put_bytes(f"b.{kind}", content)
        depot.put_bytes(f"a.{kind}", content)
        depot.put_bytes(f"_hidden.{kind}", b"?")
        depot.put_bytes(f"deeper/c.{kind}", content)
        if kind != "parquet":
            depot.put_bytes(f"c.{kind}.gz", gzip.compress(content))
        source = getattr(weft.read, kind)(store.url(f"in/{kind}"))
        assert source.schema == ROWS.schema
        assert source.describe() == f"{kind} s3://bucket/in/{kind}"
        assert read_all(source, tmp_path / kind) == ROWS.to_pylist() * (2 if kind == "parquet" else 3)
        some = getattr(weft.read, kind)(store.url(f"in/{kind}/*/*.{kind}"))
        assert some.at.list() == [f"s3://bucket/in/{kind}/deeper/c.{kind}"]
        one = getattr(weft.read, kind)(store.url(f"in/{kind}/a.{kind}"))
        assert one.at.list() == [f"s3://bucket/in/{kind}/a.{kind}"]
        assert one.size() == len(content)
    names = (tmp_path / "parquet" / "s.files").read_text()
    assert "s3://bucket/in/parquet/a.parquet" in names
    assert "secret" not in names + repr(source)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_sample_is_that_of_the_same_files_in_a_folder(kind: str, tmp_path: Path, store: Store) -> None:
    numbers = list(range(5_000))
    rows = pa.table({"k": numbers, "t": [f"{number}" for number in numbers]})
    content = (
        parquet_bytes(rows, 500) if kind == "parquet" else b"k,t\n" + b"".join(b"%d,%d\n" % (n, n) for n in numbers)
    )
    Depot(store.url(f"sample/{kind}")).put_bytes(f"a.{kind}", content)
    (tmp_path / f"a.{kind}").write_bytes(content)
    stream = weft.Stream("s", rows.schema)
    read = getattr(weft.read, kind)
    there, here = (
        read(place, schema=rows.schema).sample(stream, ["k", "t"], 50, 3)
        for place in (store.url(f"sample/{kind}"), tmp_path)
    )
    assert there.rows.equals(here.rows)
    assert there.total == here.total


def test_a_store_that_fails_now_and_then_costs_time_only(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url.time, "sleep", lambda _seconds: None)
    Depot(store.url("now")).put_bytes("a.parquet", parquet_bytes(ROWS))
    store.failing = 0.2
    try:
        assert read_all(weft.read.parquet(store.url("now")), tmp_path) == ROWS.to_pylist()
    finally:
        store.failing = 0.0


def test_a_store_that_is_gone_is_no_bad_file(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad files may be left out for ever; a file that could not be fetched must not be."""
    monkeypatch.setattr(url.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(url, "TRIES", 1)
    Depot(store.url("gone")).put_bytes("a.parquet", parquet_bytes(ROWS))
    Depot(store.url("gone")).put_bytes("b.parquet", b"no Parquet file, but long enough to have a footer")
    source = weft.read.parquet(store.url("gone")).skip_bad_files()
    reader = source.open("s", str(tmp_path))
    end = reader.discover()
    store.failing = 1.0
    try:
        with pytest.raises(weft.SourceError, match=r"^s3://bucket/gone cannot be reached") as caught:
            reader.pieces(0, end)
    finally:
        store.failing = 0.0
    assert "secret" not in str(caught.value)
    assert reader.skip(caught.value, 0, end) is None
    with pytest.raises(weft.SourceError, match=r"b\.parquet cannot be read") as bad:
        reader.pieces(0, end)
    assert reader.skip(bad.value, 0, end) == "s3://bucket/gone/b.parquet"


def test_a_url_that_cannot_be_opened_says_which_can() -> None:
    with pytest.raises(weft.SourceError, match="nonsense://bucket/path cannot be used") as caught:
        _ = weft.read.csv("nonsense://me:secret@bucket/path?key=alsosecret").schema
    assert "s3://" in str(caught.value)
    assert "secret" not in str(caught.value)
