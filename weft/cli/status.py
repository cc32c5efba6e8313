"""`weft status`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import CHECKPOINT, JSON, OK, Command
from weft.cli.terminal import say_json


def status(checkpoint: Path, *, json: bool = False) -> int:
    """Show how far a checkpoint is and what it keeps; runs nothing and writes nothing."""
    from weft.session.status import read_status, show_status

    if json:
        say_json(read_status(checkpoint))
    else:
        print(show_status(checkpoint), end="")
    return OK


COMMAND = Command(status, (CHECKPOINT, JSON))
