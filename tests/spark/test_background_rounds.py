"""State that is made ready in several rounds while batches go on and merge what the first round has taken."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from weft.host.migration import when
from weft.host.migration.migrate import Migration, Runner
from weft.host.migration.prepare import Preparation
from weft.host.spark import epochs as spark_epochs
from weft.host.state.manifest import Ledger, Manifest

pytestmark = pytest.mark.spark

ROWS = 20


def put(root: Path, number: int) -> None:
    """One more file in each stream."""
    for name, shift in (("a", 0), ("b", 3)):
        ids = [number * ROWS + i for i in range(ROWS)]
        table = pa.table({"id": ids, "k": [(i + shift) % 7 for i in ids], "m": [(i * shift + 1) % 5 for i in ids]})
        pq.write_table(table, root / f".{name}")
        (root / f".{name}").rename(root / name / f"{number:04d}.parquet")


def pairs(root: Path, key: str) -> Counter[tuple[int, int]]:
    rows = {name: pq.read_table(root / name).to_pylist() for name in ("a", "b")}
    return Counter((x["id"], y["id"]) for x in rows["a"] for y in rows["b"] if x[key] == y[key])


def found(handle: object) -> Counter[tuple[int, int]]:
    return Counter((row["x"], row["y"]) for row in handle.table().to_pylist())  # type: ignore[attr-defined]


def slow_in_the_background(state: Path) -> Callable[..., None]:
    """Catching up that begins when several more batches have been committed and old files were collected."""
    catch_up = Migration.catch_up

    def slow(self: Migration, manifest: Manifest, run: Runner) -> None:
        limit = time.monotonic() + 30
        while threading.current_thread().name == "weft-migration" and time.monotonic() < limit:
            if Ledger(state).last().batch >= manifest.batch + 4:
                break
            threading.Event().wait(0.05)
        catch_up(self, manifest, run)

    return slow


def test_what_an_earlier_round_took_is_kept_while_batches_merge_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(when, "AT_ONCE", 0)
    monkeypatch.setattr(spark_epochs, "ROUNDS", 3)
    monkeypatch.setattr(Preparation, "rows_behind", lambda *_: 1)  # all rounds, however little has come
    monkeypatch.setattr(Migration, "catch_up", slow_in_the_background(tmp_path / "state"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    for number in range(6):
        put(tmp_path, number)
    s = weft.Session(tmp_path / "state", spark, workers=2, progress=False)
    for name in ("a", "b"):
        s.stream(name, weft.read.parquet(tmp_path / name, max_files=1))
    text = "SELECT a.id AS x, b.id AS y FROM a JOIN b ON a.{0} = b.{0}"
    first = s.query("first", text.format("k"), strategy="flat").to_memory()
    s.query(
        "keeps_m", "SELECT a.m AS p, b.m AS q FROM a JOIN b ON a.k = b.k AND a.m < b.m", strategy="flat"
    ).to_memory()
    s.run()
    number = 6
    with s:
        handle = s.start(every=0.01)
        second = s.query("second", text.format("m"), strategy="flat", backfill=True).to_memory()
        limit = time.monotonic() + 180

        def has_read(files: int) -> bool:
            return min(handle.report().rows_in.get(name, 0) for name in "ab") >= files * ROWS

        while not handle.changes():
            assert second.error is None
            assert time.monotonic() < limit
            if has_read(number - 6):  # batches may be slow, and all that is put has to be read in the end
                put(tmp_path, number)
                number += 1
            handle.wait(0.05)
        put(tmp_path, number)
        while not has_read(number - 5):
            assert time.monotonic() < limit
            handle.wait(0.05)
    assert handle.changes()[-1].taken > 0
    assert found(first) == pairs(tmp_path, "k")
    assert found(second) == pairs(tmp_path, "m")
