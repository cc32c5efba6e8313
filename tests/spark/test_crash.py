"""Runs that die at every named point, are killed, find their state damaged, and are taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from tests.spark._kit import expected, found, make_input, make_session
from weft.host.crash import CrashPoint, points

pytestmark = [pytest.mark.spark, pytest.mark.crash]

WAVES = 3


def test_the_job_has_several_waves(tmp_path: Path) -> None:
    make_input(tmp_path, 1, seed=1)
    assert make_session(tmp_path).topology.waves == WAVES


@pytest.mark.parametrize("point", points(WAVES))
def test_an_abandoned_batch_is_neither_lost_nor_doubled(tmp_path: Path, point: str) -> None:
    make_input(tmp_path, 4, seed=2)
    session = make_session(tmp_path)
    session._crash = CrashPoint(point, 1)
    with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
        session.run()
    report = make_session(tmp_path).run()
    assert len(report.batches) == (2 if point in ("commit after", "publish") else 3)
    assert found(tmp_path) == expected(tmp_path)
