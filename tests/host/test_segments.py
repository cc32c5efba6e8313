"""Segment files come back as they were written, and damage anywhere is an error that names the file."""

from __future__ import annotations

import datetime as dt
import os
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from weft.errors import StateError
from weft.expr.model import Column
from weft.host.state.segment import Segment, SegmentFiles, SegmentRef
from weft.host.state.stores import index_rows
from weft.kernels.checksum import checksum
from weft.kernels.index import probe
from weft.topology.store import Key

ROWS = pa.RecordBatch.from_pydict(
    {
        "k": pa.array([3, None, 1, 3], pa.int64()),
        "i": pa.array([1, 2, None, 4], pa.int8()),
        "f": pa.array([1.5, float("nan"), None, -0.0]),
        "g": pa.array([1.5, None, 2.5, 0.0], pa.float32()),
        "s": pa.array(["", None, "é", "abcdefghijk"]),
        "x": pa.array([b"", None, b"\0\xff", b"abc"]),
        "b": pa.array([True, None, False, True]),
        "d": pa.array([Decimal("1.25"), None, Decimal(-3), Decimal(0)], pa.decimal128(20, 2)),
        "day": pa.array([dt.date(2020, 1, 1), None, dt.date(1969, 1, 1), dt.date(9999, 1, 1)]),
        "ts": pa.array([0, None, -5, 10**15], pa.timestamp("us")),
        "tz": pa.array([0, None, -5, 10**15], pa.timestamp("us", "UTC")),
        "span": pa.array([0, None, -5, 10], pa.duration("us")),
    }
)
KEYS = (
    Key((Column("", "k", pa.int64()),), Column("", "ts", pa.timestamp("us"))),
    Key((Column("", "s", pa.string()), Column("", "d", pa.decimal128(20, 2)))),
    Key((), Column("", "f", pa.float64())),
    Key((), Column("", "f", pa.float64()), (Column("", "ts", pa.timestamp("us")), Column("", "k", pa.int64()))),
    Key((Column("", "k", pa.int64()),), Column("", "d", pa.decimal128(20, 2)), (Column("", "s", pa.string()),)),
    Key(),
)


def nothing() -> None:
    pass


def write_segment(
    root: Path, rows: pa.RecordBatch = ROWS, keys: tuple[Key, ...] = KEYS
) -> tuple[SegmentFiles, SegmentRef, Path]:
    files = SegmentFiles(str(root))
    segment = Segment.of(rows, {key.name: index_rows(rows, key, {}) for key in keys})
    size, checksum = files.write("store/0/seg", segment, nothing)
    ref = SegmentRef("store/0/seg", "store", 0, rows.num_rows, size, 0, 0, 0, None, None, checksum)
    return files, ref, root / "store/0/seg"


def test_rows_and_indexes_come_back(tmp_path: Path) -> None:
    files, ref, path = write_segment(tmp_path)
    found = files.open(ref)
    assert found.rows.equals(ROWS, check_metadata=True) or str(found.rows.to_pydict()) == str(ROWS.to_pydict())
    assert found.rows.schema == ROWS.schema
    for key, index in zip(KEYS, found.indexes.values(), strict=True):
        fresh = index_rows(ROWS, key, {})
        for name, array in fresh.arrays.items():
            assert np.array_equal(array, index.arrays[name])
            assert array.dtype == index.arrays[name].dtype
        assert (fresh.has_codes, fresh.dimensions) == (index.has_codes, index.dimensions)
    assert os.path.getsize(path) == ref.bytes
    [(_, rows)] = list(probe(next(iter(found.indexes.values())), 1, np.array([3]), None, None, None, 10))
    assert sorted(rows.tolist()) == [0, 3]


@pytest.mark.parametrize("start", [0, 1, 3])
def test_a_slice_is_written_as_its_own_rows(tmp_path: Path, start: int) -> None:
    rows = ROWS.slice(start, 1)
    files, ref, _ = write_segment(tmp_path, rows)
    assert str(files.open(ref).rows.to_pydict()) == str(rows.to_pydict())


def test_no_rows_at_all(tmp_path: Path) -> None:
    files, ref, _ = write_segment(tmp_path, ROWS.slice(0, 0))
    found = files.open(ref)
    assert found.rows.num_rows == 0
    assert list(probe(next(iter(found.indexes.values())), 1, np.array([3]), None, None, None, 10)) == []


def test_any_flipped_byte_is_noticed(tmp_path: Path) -> None:
    files, ref, path = write_segment(tmp_path)
    content = path.read_bytes()
    rng = random.Random(1)
    places = {0, len(content) - 1, len(content) - 9, len(content) - 17, *rng.sample(range(len(content)), 150)}
    for at in sorted(places):
        damaged = bytearray(content)
        damaged[at] ^= 1 << rng.randrange(8)
        path.unlink()  # an open file is mapped and keeps its old content
        path.write_bytes(bytes(damaged))
        with pytest.raises(StateError, match="is damaged") as error:
            files.open(ref)
        assert str(path) in str(error.value)


@pytest.mark.parametrize("keep", [0, 1, 8, 100, -1, -16])
def test_a_cut_file_is_noticed(tmp_path: Path, keep: int) -> None:
    files, ref, path = write_segment(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:keep])
    with pytest.raises(StateError, match="is damaged") as error:
        files.open(ref)
    assert str(path) in str(error.value)


def test_a_longer_file_is_noticed(tmp_path: Path) -> None:
    files, ref, path = write_segment(tmp_path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(StateError, match="is damaged"):
        files.open(ref)


def test_a_missing_file_is_noticed_by_the_next_task(tmp_path: Path) -> None:
    files, ref, path = write_segment(tmp_path)
    files.open(ref)
    path.unlink()
    with pytest.raises(StateError, match="missing") as error:
        SegmentFiles(str(tmp_path)).open(ref)
    assert str(path) in str(error.value)


def test_damage_after_the_file_was_opened_is_noticed_by_the_next_task(tmp_path: Path) -> None:
    files, ref, path = write_segment(tmp_path)
    files.open(ref)
    content = bytearray(path.read_bytes())
    content[200] ^= 1
    path.unlink()
    path.write_bytes(bytes(content))
    with pytest.raises(StateError, match="is damaged"):
        SegmentFiles(str(tmp_path)).open(ref)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    _, ref, path = write_segment(tmp_path)
    older = path.read_bytes()[:-1] + b"1"
    path.write_bytes(older)
    ref = replace(ref, checksum=checksum(pa.py_buffer(older)))
    with pytest.raises(StateError, match="has another layout") as error:
        SegmentFiles(str(tmp_path)).open(ref)
    assert "WEFTSEG1" in str(error.value)


def test_the_same_rows_make_the_same_bytes(tmp_path: Path) -> None:
    _, a, path_a = write_segment(tmp_path / "a")
    _, b, path_b = write_segment(tmp_path / "b")
    assert path_a.read_bytes() == path_b.read_bytes()
    assert a.checksum == b.checksum


def test_a_write_that_dies_halfway_leaves_no_segment(tmp_path: Path) -> None:
    def die() -> None:
        raise RuntimeError("power cut")

    files = SegmentFiles(str(tmp_path))
    with pytest.raises(RuntimeError):
        files.write("store/0/seg", Segment.of(ROWS, {}), die)
    assert not (tmp_path / "store/0/seg").exists()
