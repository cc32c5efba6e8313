"""`weft queries`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import CHECKPOINT, JSON, OK, Command
from weft.cli.terminal import say_json


def queries(checkpoint: Path, *, json: bool = False) -> int:
    """List the queries of a checkpoint; runs nothing and writes nothing."""
    from weft.session.status import read_queries, show_queries

    if json:
        say_json(read_queries(checkpoint))
    else:
        print(show_queries(checkpoint), end="")
    return OK


COMMAND = Command(queries, (CHECKPOINT, JSON))
