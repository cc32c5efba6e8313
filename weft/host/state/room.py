"""Whether there is room on disk for a batch, asked before it begins.

A batch that runs out of disk in its middle loses nothing, since it is not committed; but it fails with whatever the
file system or Spark says, and so does every attempt after it.  Asked before, the answer is one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from weft.errors import HostError

LEAST = 32 << 20
"""Bytes that must be free, whatever a batch writes."""
TIMES = 2
"""And so many times what the last batch wrote: files are written before those they replace are removed."""


def check_room(folders: Iterable[Path], written: int) -> None:
    """Refuse to begin a batch if one of the folders has too little room for what the last one wrote."""
    needed = LEAST + TIMES * written
    for folder in folders:
        free = _free(folder)
        if free < needed:
            raise HostError(
                f"the disk of {folder} is nearly full",
                detail=f"{free / 1e6:,.0f} MB are free, and the next batch may need {needed / 1e6:,.0f} MB.",
                hint="make room and run again; the batch has not begun, and nothing is lost.",
            )


@contextlib.contextmanager
def telling_room() -> Iterator[None]:
    """Say in our own words that a disk takes nothing any more: what is written before a batch asks for no room."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
            raise
        raise HostError(
            "a disk takes nothing any more", detail=f"{error}.", hint="make room and run again; nothing is lost."
        ) from error


def _free(folder: Path) -> int:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free
