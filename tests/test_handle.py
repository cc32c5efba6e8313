"""How a run has ended is told whenever it ends: also between two looks at it."""

from __future__ import annotations

from pathlib import Path

import pytest

import weft
from weft.observe.live import LiveLine
from weft.session.run import Journal, Watch


class Ending:
    """A run that fails right after it has said that it goes on."""

    def __init__(self, looks: int) -> None:
        self.looks, self.active = looks, True

    def start(self, every: float | None) -> None:
        """It has begun."""

    def wait(self, seconds: float) -> bool:
        """Whether it has ended."""
        if not self.active:
            self.stop()
        self.looks -= 1
        self.active = self.looks > 0
        return False

    def stop(self) -> None:
        """It has failed before."""
        self.active = False
        raise weft.HostError("the disk is full")


@pytest.mark.parametrize("looks", [1, 2, 3])
@pytest.mark.parametrize("seconds", [None, 0.0, 30.0])
def test_a_run_that_fails_between_two_looks_raises(tmp_path: Path, looks: int, seconds: float | None) -> None:
    s = weft.Session(tmp_path / "state", workers=1)
    journal = Journal(LiveLine(False), Watch(lambda: 1, lambda _workers, _load: None))
    handle = weft.Handle(s.checkpoint, Ending(looks), journal, None)  # type: ignore[arg-type]
    with pytest.raises(weft.HostError, match="the disk is full"):
        _wait(handle, seconds)
    assert not handle.active


def _wait(handle: weft.Handle, seconds: float | None) -> None:
    while not handle.wait(seconds):
        pass


def test_stop_raises_what_nobody_has_heard(tmp_path: Path) -> None:
    s = weft.Session(tmp_path / "state", workers=1)
    journal = Journal(LiveLine(False), Watch(lambda: 1, lambda _workers, _load: None))
    handle = weft.Handle(s.checkpoint, Ending(1), journal, None)  # type: ignore[arg-type]
    assert handle.wait(0.0) is None
    with pytest.raises(weft.HostError, match="the disk is full"):
        handle.stop()
