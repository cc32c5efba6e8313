"""Crash points by name, for a session on Spark and for a trial of it in this process."""

from __future__ import annotations

import os
from typing import Literal as OneOf

from weft.errors import HostError
from weft.host.crash import CrashPoint, points
from weft.session import Session


def crash_points(session: Session) -> tuple[str, ...]:
    """Every place where a run of the session can be made to die."""
    return points(session.topology.waves)


def crash_at(
    session: Session,
    name: str,
    batch: int,
    action: OneOf["raise", "hang"] = "raise",
    mark: str | os.PathLike[str] = "",
) -> None:
    """Make the session's next run die at `name` in micro-batch `batch`.

    "raise" fails the batch.  "hang" creates the file `mark` and waits there to be killed.
    """
    known = crash_points(session)
    if name not in known:
        raise HostError(
            f'there is no crash point "{name}"', detail=f"known: {', '.join(known)}.", hint="use one of these."
        )
    if action == "hang" and not os.fspath(mark):
        raise HostError(
            "a hanging crash point needs a mark", hint="pass mark=path; the file appears when it is reached."
        )
    session.crash_point = CrashPoint(name, batch, action, os.fspath(mark))


def no_crash(session: Session) -> None:
    """Remove the crash point, so that the session runs to its end."""
    session.crash_point = None
