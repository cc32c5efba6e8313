"""A disk that takes nothing any more is told in our own words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.errors import from_wire
from weft.host.spark.exchange import wire_errors
from weft.host.state.room import telling_room


def test_a_full_disk_is_no_bare_error_of_the_system() -> None:
    full = Path("/dev/full")  # every write to it finds no room
    with pytest.raises(weft.HostError, match="a disk takes nothing any more") as caught, telling_room():
        full.write_text("rows")
    assert "nothing is lost" in str(caught.value.hint)


def test_other_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), telling_room():
        (tmp_path / "nowhere" / "file").write_text("rows")


def test_a_worker_that_finds_no_room_says_so_without_a_traceback() -> None:
    @wire_errors
    def task() -> Iterator[int]:
        yield 1
        Path("/dev/full").write_text("rows")

    with pytest.raises(RuntimeError) as caught:
        list(task())
    told = from_wire(str(caught.value))
    assert told is not None
    assert told.message == "a disk takes nothing any more"
    assert "Traceback" not in str(told)
