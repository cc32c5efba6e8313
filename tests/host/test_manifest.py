"""Manifests: writing and reading, the manifest of the next batch, removal of old files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.errors import StateError
from weft.host.batch import Report
from weft.host.state.manifest import FileState, Ledger, Manifest
from weft.host.state.segment import SegmentRef
from weft.observe.counters import Counters
from weft.testing import Trial
from weft.topology.model import Epoch

REF = SegmentRef("store/0/a", "store", 0, 5, 100, 0, 1, 2, -5, 7, "00ff")


def test_a_manifest_comes_back(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    made = Manifest(7, (REF,), {"r": -(2**62)}, ({"query": "q", "file": "f", "rows": 3},), Counters(rows_in={"r": 5}))
    ledger.commit(made)
    assert Ledger(tmp_path).last() == made


def test_an_empty_folder_is_before_the_first_batch(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.last() == Manifest()
    ledger.check()
    ledger.collect()
    assert not ledger.has_committed()
    assert not ledger.staging_folder(0).exists()
    assert list(tmp_path.iterdir()) == [], "reading writes nothing"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"batch": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(tmp_path: Path, damage: bytes) -> None:
    ledger = Ledger(tmp_path)
    ledger.commit(Manifest(1, (REF,)))
    path = next((tmp_path / "manifests").glob("*.json"))
    path.write_bytes(damage)
    with pytest.raises(StateError, match="damaged") as error:
        ledger.last()
    assert str(path) in str(error.value)


def test_a_changed_digit_in_a_manifest_is_found(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.commit(Manifest(1, (REF,), {"r": 41}))
    path = next((tmp_path / "manifests").glob("*.json"))
    path.write_text(path.read_text().replace("41", "42"))
    with pytest.raises(StateError, match="checksum"):
        ledger.last()


def test_collect_keeps_what_the_two_newest_manifests_name(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.begin()
    names = [f"store/0/{i}" for i in range(5)]
    (tmp_path / "segments/store/0").mkdir(parents=True)
    for number, name in enumerate(names):
        (tmp_path / "segments" / name).write_bytes(b"x")
        ledger.commit(Manifest(number, (SegmentRef(**{**asdict(REF), "name": name}),)))
    (tmp_path / "segments/store/0/.left.tmp").write_bytes(b"x")
    state = FileState(str(ledger.segments), str(ledger.notes))
    state.note(3, 0, 1, [REF])
    state.note(9, 0, 1, [REF])
    ledger.collect()
    left = sorted(str(p.relative_to(tmp_path / "segments")) for p in (tmp_path / "segments").glob("*/*/*"))
    assert left == names[-2:]
    assert len(list((tmp_path / "manifests").iterdir())) == 2
    assert state.recall(9, 0, 1) == (REF,)
    with pytest.raises(StateError, match="missing"):
        state.recall(3, 0, 1)


def session() -> weft.Session:
    s = weft.Session("unused", workers=2)
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([schema.empty_table()]), event_time="t", lateness=5)
    s.query("q", "SELECT a.t AS x, b.t AS y FROM a, b WHERE a.k = b.k WITHIN INTERVAL '10' SECOND")
    return s


def test_after_a_batch_expired_segments_are_gone_and_the_newest_time_never_falls() -> None:
    topology = session().topology
    store = topology.stores[0]
    old = SegmentRef("old", store.id, 0, 1, 1, 0, 0, 0, 0, 1_000_000, "")
    added = SegmentRef("new", store.id, 1, 1, 1, 0, 1, 1, 30_000_000, 30_000_000, "")
    before = Manifest(0, (old,), {"a": 20_000_000, "b": 9_000_000})
    assert before.watermarks(topology) == {topology.clocks[0].id: 4_000_000}
    report = Report(newest={"a": 5_000_000, "b": 40_000_000}, added=[asdict(added)], rows_in={"a": 2})
    after = before.after(Epoch(0, topology), 1, report)
    assert after.newest == {"a": 20_000_000, "b": 40_000_000}
    assert after.segments == (added,)
    assert after.totals.rows_in == {"a": 2}
    assert after.after(Epoch(0, topology), 2, report).totals.rows_in == {"a": 4}


def test_a_trial_with_a_folder_goes_on_where_it_ended(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])

    def rows(*times: int) -> pa.Table:
        return pa.table({"k": [1] * len(times), "t": list(times)}, schema)

    first = Trial(session(), state=tmp_path)
    first.feed({"a": rows(1, 2)})
    second = Trial(session(), state=tmp_path)
    second.feed({"b": rows(3)})
    assert second.manifest.batch == 1
    assert sorted(row["x"] for row in second.table("q").to_pylist()) == [1, 2]
