"""Runs that crash at every named point, are killed, or find their state damaged, and are started again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

import weft
from tests.spark._kill import Job, check_prefix, committed, complete, grow, survivors
from tests.spark._kit import QUERIES, expected, found, listing, make_input, make_session
from weft.host.crash import CrashPoint, points

pytestmark = [pytest.mark.spark, pytest.mark.crash]


WAVES = 3


@pytest.mark.parametrize(("plans", "kept"), [("flat", 0), ("mixed", 0), ("kept", 3), ("left_deep", 2)])
def test_the_job_has_several_waves(tmp_path: Path, plans: str, kept: int) -> None:
    """Under "left_deep" two queries with different windows share a kept join."""
    make_input(tmp_path, 1, seed=1)
    topology = make_session(tmp_path, plans=plans).topology
    assert topology.waves == WAVES
    assert sum(bool(store.members) for store in topology.stores) == kept


@pytest.mark.parametrize("plans", ["flat", "kept", "mixed"])
def test_a_batch_abandoned_at_any_point_is_neither_lost_nor_doubled(tmp_path: Path, plans: str) -> None:
    names = points(WAVES)
    make_input(tmp_path, len(names) + 1, seed=2)
    for batch, point in enumerate(names, start=1):
        session = make_session(tmp_path, plans=plans)
        session.crash_point = CrashPoint(point, batch)
        with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
            session.run()
        assert committed(tmp_path) == (batch if point in ("commit after", "publish") else batch - 1)
        check_prefix(tmp_path)
    make_session(tmp_path, plans=plans).run()
    assert found(tmp_path) == expected(tmp_path)


NAMED = {
    "flat": (("wave 2 before", True), ("segment write", False), ("commit after", False)),
    "kept": (("wave 3 before", True), ("wave 2 after", False), ("commit before", False), ("publish", False)),
    "mixed": (("segment write", True), ("commit after", False)),
}
"""Plans -> crash points, and whether the driver is killed alone."""


@pytest.mark.parametrize("plans", ["flat", "kept", "mixed"])
def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path, plans: str) -> None:
    dice = random.Random(20260801)
    left_over: list[psutil.Process] = []
    # A driver that is killed alone leaves a JVM and workers behind for a while: they must do no harm.
    for seed, (point, only_driver) in enumerate(NAMED[plans]):
        grow(tmp_path, seed, ahead=2)
        with Job(tmp_path, crash=(point, committed(tmp_path) + 2), plans=plans) as job:
            assert job.until(job.marked), f"{point}: {job.log.read_text()}"
            left_over += psutil.Process(job.process.pid).children(recursive=True)
            job.kill(only_driver=only_driver)
        check_prefix(tmp_path)
    kills = 0
    for seed in range(15):  # a job that ends before its moment has come is no kill, and another one is started
        if kills == 3:
            break
        grow(tmp_path, 100 + seed, ahead=6)
        delay = dice.uniform(0, 4)
        with Job(tmp_path, plans=plans) as job:
            assert job.until(job.working), job.log.read_text()
            began = time.monotonic()
            if job.until(lambda began=began, delay=delay: time.monotonic() - began > delay):  # type: ignore[misc]
                job.kill()
                kills += 1
        check_prefix(tmp_path)
    assert kills == 3
    assert not survivors(left_over)
    complete(tmp_path, plans=plans)


# ------------------------------------------------------------------------------------ damaged state


def _flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x40
    path.write_bytes(content)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def test_damaged_state_is_named_and_nothing_is_joined(tmp_path: Path) -> None:
    make_input(tmp_path, 2, seed=7)
    make_session(tmp_path).run()
    before = {name: listing(tmp_path / "out" / name) for name in QUERIES}
    make_input(tmp_path, 1, seed=7, first=2)
    checkpoint = tmp_path / "checkpoint"
    segments = sorted(checkpoint.glob("segments/*/*/*.seg"))
    last = checkpoint / "manifests" / "000000000001.json"
    first = checkpoint / "manifests" / "000000000000.json"
    damages: list[tuple[Path, Callable[[Path], object]]] = [
        (segments[0], _flip_bit), (segments[-1], _cut), (segments[1], Path.unlink),
        (segments[2], lambda p: p.write_bytes(b"")),
        (last, _cut), (first, _cut), (last, lambda p: p.write_text("{}")),
        (last, lambda p: p.write_text("[1]")), (last, Path.unlink),
        (checkpoint / "session.json", _cut), (checkpoint / "session.json", lambda p: p.write_text("[]")),
        (checkpoint / "session.json", lambda p: p.write_text("{}")), (checkpoint / "session.json", Path.unlink),
        (checkpoint / "sources" / "s.files", _flip_bit), (checkpoint / "sources" / "s.files", _cut),
        (checkpoint / "sources" / "t.files", Path.unlink),
        (checkpoint / "sources" / "next.json", _flip_bit), (checkpoint / "sources" / "next.json", _cut),
    ]  # fmt: skip
    for path, damage in damages:
        whole = path.read_bytes()
        damage(path)
        with pytest.raises(weft.StateError) as caught:
            make_session(tmp_path).run()
        error = caught.value
        named = str(checkpoint) if path == last and not path.exists() else str(path)
        assert named in str(error), str(error)
        assert error.hint
        assert {name: listing(tmp_path / "out" / name) for name in QUERIES} == before
        path.write_bytes(whole)
    make_session(tmp_path).run()
    assert found(tmp_path) == expected(tmp_path)


def test_a_damaged_half_of_spark_is_named_and_nothing_is_joined(tmp_path: Path) -> None:
    make_input(tmp_path, 2, seed=7)
    make_session(tmp_path, plans="mixed").run()
    before = {name: listing(tmp_path / "out" / name) for name in QUERIES}
    make_input(tmp_path, 1, seed=7, first=2)
    checkpoint = tmp_path / "checkpoint"
    gone = {"spark/offsets/1": "spark/offsets/1", "manifests/000000000001.json": str(checkpoint)}
    for name, said in gone.items():
        whole = (checkpoint / name).read_bytes()
        (checkpoint / name).unlink()
        with pytest.raises(weft.StateError, match=said):
            make_session(tmp_path, plans="mixed").run()
        assert {name: listing(tmp_path / "out" / name) for name in QUERIES} == before
        (checkpoint / name).write_bytes(whole)
    for name in ("metadata", "offsets/1", "commits/1"):  # Spark's own half: it is Spark that notices
        path = checkpoint / "spark" / name
        whole = path.read_bytes()
        path.write_bytes(b"")
        with pytest.raises(weft.HostError, match="the Spark query failed") as failed:
            make_session(tmp_path, plans="mixed").run()
        assert failed.value.detail
        assert "Streaming Query ===" not in str(failed.value)
        assert "\tat " not in str(failed.value)
        assert {name: listing(tmp_path / "out" / name) for name in QUERIES} == before
        path.write_bytes(whole)
    make_session(tmp_path, plans="mixed").run()
    assert found(tmp_path) == expected(tmp_path)
