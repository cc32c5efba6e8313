"""Samples of files: from all parts, at a bounded cost; files that cannot be read are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import weft
from tests.stats.kit import NUMBERS, q_error, session
from weft.errors import SourceError
from weft.host.sources import sampling


def write(folder: Path, kind: str, tables: list[pa.Table], **how: Any) -> Any:
    folder.mkdir()
    for number, table in enumerate(tables):
        path = folder / f"{number:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(table, path, **how)
        elif kind == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        else:
            pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="|" if kind == "bars" else ","))
    if kind == "bars":
        return weft.read.csv(folder, schema=tables[0].schema, delimiter="|")
    return getattr(weft.read, kind)(folder, schema=tables[0].schema)


@pytest.mark.parametrize("kind", ["parquet", "csv", "bars", "json"])
def test_small_files_are_read_through(kind: str, tmp_path: Path) -> None:
    tables = [pa.table({"k": np.arange(100) % 7, "s": ['é"x,'] * 100}) for _ in range(3)]
    s = session(tmp_path, t=write(tmp_path / "in", kind, tables))
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.s = b.s WHERE a.k < 3")
    found = s.analyze()
    assert (found.rows("t"), found.distinct("t", "k"), found.distinct("t", "s")) == (300, 7, 1)
    assert found.predicate("a.k < 3") == 132 / 300


@pytest.mark.parametrize("kind", ["parquet", "csv", "bars", "json"])
def test_of_many_files_some_rows_of_everywhere_are_taken(kind: str, tmp_path: Path) -> None:
    """The feed drifts: the first file alone would say that everything is 0."""
    tables = [pa.table({"part": [n] * 4000, "k": np.arange(n * 4000, n * 4000 + 4000)}) for n in range(25)]
    s = session(
        tmp_path, t=write(tmp_path / "in", kind, tables, **({"row_group_size": 100} if kind == "parquet" else {}))
    )
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.part = b.part WHERE a.part < 10")
    found = s.analyze(sample=500)
    assert q_error(found.rows("t"), 100_000) < (1 + 1e-9 if kind == "parquet" else 1.05)
    assert q_error(found.predicate("a.part < 10"), 0.4) < 1.3
    assert q_error(found.distinct("t", "k"), 100_000) < 1.3
    assert q_error(found.distinct("t", "part"), 25) < 1.5


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_no_more_is_read_than_the_sample_may_cost(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    for name in ("read_piece", "read_text"):
        original = getattr(sampling, name)

        def counting(*args: Any, original: Any = original) -> Any:
            for batch in original(*args):
                decoded.append(batch.num_rows)
                yield batch

        monkeypatch.setattr(sampling, name, counting)
    tables = [pa.table({"k": np.arange(200_000), "pad": ["x" * 8] * 200_000}) for _ in range(2)]
    s = session(
        tmp_path, t=write(tmp_path / "in", kind, tables, **({"row_group_size": 2000} if kind == "parquet" else {}))
    )
    s.query("q", "SELECT t.k, t.pad FROM t")
    found = s.analyze(sample=1000)
    assert 1000 <= sum(decoded) <= 17_000 * (1 if kind == "parquet" else 3)
    assert q_error(found.rows("t"), 400_000) < 1.05


def test_values_that_live_in_one_place_are_counted_beyond_the_places_read(tmp_path: Path) -> None:
    """An order's four lines stand together: rows of a part share orders, rows of two parts never do."""
    k = np.repeat(np.arange(100_000), 4)
    source = write(tmp_path / "in", "parquet", [pa.table({"k": k, "m": np.arange(len(k)) % 50})], row_group_size=4000)
    s = session(tmp_path, t=source)
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.m = b.m")
    found = s.analyze(sample=4000)
    assert q_error(found.distinct("t", "k"), 100_000) < 2
    assert q_error(found.distinct("t", "m"), 50) < 1.01


def test_values_that_are_anywhere_are_not_taken_for_local_ones(tmp_path: Path) -> None:
    """Each value stands in four places of the feed, of which a quarter is read and a sixty-fourth kept."""
    k = np.random.default_rng(6).permutation(np.repeat(np.arange(64_000), 4))
    s = session(tmp_path, t=write(tmp_path / "in", "parquet", [pa.table({"k": k})], row_group_size=1000))
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k")
    assert q_error(s.analyze(sample=4000).distinct("t", "k"), 64_000) < 1.6


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
@pytest.mark.parametrize("rows", [10, 300_000], ids=["small", "large"])
def test_bad_files_are_named(kind: str, rows: int, tmp_path: Path) -> None:
    good = pa.table({"k": np.arange(rows)})
    source = write(tmp_path / "in", kind, [good])
    (tmp_path / "in" / f"001.{kind}").write_text(
        '{"k": "seven"}\n' * rows if kind == "json" else "k\n" + "seven\n" * rows
    )
    s = session(tmp_path, t=source)
    s.query("q", "SELECT t.k FROM t")
    with pytest.raises(SourceError, match=rf"001\.{kind}") as error:
        s.analyze(sample=100)
    assert error.value.hint


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "parquet", [pa.table({"k": [1]}), pa.table({"l": [1]})])
    s = session(tmp_path, t=source)
    s.query("q", "SELECT t.k FROM t")
    with pytest.raises(SourceError, match=r'column "k" of stream "t" is missing in .*001'):
        s.analyze()


def test_a_folder_that_is_still_empty_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    s = session(tmp_path, t=weft.read.csv(tmp_path / "in", schema=NUMBERS.schema), u=NUMBERS)
    s.query("q", "SELECT t.k FROM t JOIN u ON t.k = u.k")
    assert s.analyze().rows("t") is None
