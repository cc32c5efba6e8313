"""Who follows every run: the history beside the checkpoint, and the log."""

from __future__ import annotations

from pathlib import Path

from weft.observe.history import History
from weft.observe.listener import Listener
from weft.observe.logs import Log


def listen(root: Path) -> tuple[Listener, ...]:
    """The listeners of a run on a checkpoint."""
    return History(root), Log(root)
