"""Runs that die at every named point, are killed, find their state damaged, and are taken up again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

import weft
from tests.spark._kill import Job, check_prefix, committed, complete, grow, survivors
from tests.spark._kit import expected, found, make_input, make_session
from weft.host.crash import CrashPoint, points

pytestmark = [pytest.mark.spark, pytest.mark.crash]

WAVES = 3


def test_the_job_has_several_waves(tmp_path: Path) -> None:
    make_input(tmp_path, 1, seed=1)
    assert make_session(tmp_path).topology.waves == WAVES


def test_a_batch_abandoned_at_any_point_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    make_input(tmp_path, len(points(WAVES)) + 1, seed=2)
    for batch, point in enumerate(points(WAVES), start=1):
        session = make_session(tmp_path)
        session._crash = CrashPoint(point, batch)
        with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
            session.run()
        assert committed(tmp_path) == (batch if point in ("commit after", "publish") else batch - 1)
        check_prefix(tmp_path)
    make_session(tmp_path).run()
    assert found(tmp_path) == expected(tmp_path)


NAMED = ("wave 1 after", "segment write", "commit before", "commit after", "publish")


def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    dice = random.Random(20260801)
    for seed, point in enumerate(NAMED):
        grow(tmp_path, seed, ahead=2)
        with Job(tmp_path, crash=(point, committed(tmp_path) + 2)) as job:
            assert job.until(job.marked), f"{point}: {job.log.read_text()}"
            job.kill()
        check_prefix(tmp_path)
    for seed in range(5):
        grow(tmp_path, 100 + seed, ahead=4)
        delay = dice.uniform(0, 7)
        with Job(tmp_path) as job:
            assert job.until(job.working), job.log.read_text()
            began = time.monotonic()
            if job.until(lambda began=began, delay=delay: time.monotonic() - began > delay):  # type: ignore[misc]
                job.kill()
        check_prefix(tmp_path)
    complete(tmp_path)


def test_workers_of_a_killed_driver_do_no_harm(tmp_path: Path) -> None:
    make_input(tmp_path, 3, seed=5)
    with Job(tmp_path, crash=("wave 2 before", 1)) as job:
        assert job.until(job.marked), job.log.read_text()
        family = psutil.Process(job.process.pid).children(recursive=True)
        job.kill(only_driver=True)
    complete(tmp_path)
    assert not survivors(family), "the JVM and its workers outlive their driver"
