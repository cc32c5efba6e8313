"""Places where a run can be made to die, by name, to prove that nothing is lost.

    wave N before / wave N after     on a worker, around one wave
    segment write                    on a worker, with half a segment on disk
    commit before / commit after     on the driver, around the rename that commits a batch
    publish                          on the driver, between two result files
    migrate before                   on the driver, before a migration reads anything
    migrate commit before / after    on the driver, around the rename that makes another plan valid

"raise" ends the batch with an error.  "hang" creates a file as a mark and waits to be killed from outside; if
the mark is removed, it goes on: what was killed was another process, and this one has to find out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal as OneOf

from weft.errors import HostError

_PAUSE = 0.02


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """Die at `name` in micro-batch `batch`."""

    name: str
    batch: int
    action: OneOf["raise", "hang"] = "raise"
    mark: str = ""
    """File to create when a hanging crash point is reached."""


def reach(crash: CrashPoint | None, name: str, batch: int) -> None:
    """Die here if this is the crash point that was asked for."""
    if crash is None or crash.name != name or crash.batch != batch:
        return
    if crash.action == "raise":
        raise HostError(f"crash point reached: {name}", detail=f"in batch {batch}, as requested by the test.")
    mark = Path(crash.mark)
    mark.touch()
    while mark.exists():
        time.sleep(_PAUSE)


def is_crash(error: Exception) -> bool:
    """Whether a crash point was reached."""
    return "crash point reached" in str(error)


def points(waves: int) -> tuple[str, ...]:
    """All crash points of a topology with this many waves."""
    around = [f"wave {wave} {side}" for wave in range(1, waves + 1) for side in ("before", "after")]
    return (*around, "segment write", "commit before", "commit after", "publish")
