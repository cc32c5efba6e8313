"""`weft console`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import CHECKPOINT, OK, REACH, Command, Option
from weft.signals import exit_code


def console(
    checkpoint: Path, *, bind: str = "127.0.0.1", port: int | None = None, otel: bool = False, board: bool = False
) -> int:
    """Show a checkpoint in a browser, of a running session or a finished one; changes nothing, ends with Ctrl-C."""
    from weft.console.command import grafana_board, show_checkpoint

    if board:
        print(grafana_board(), end="")
        return OK
    return exit_code(show_checkpoint(checkpoint, bind, port, otel))


COMMAND = Command(console, (CHECKPOINT, *REACH, Option("--board", bool, "print a board for Grafana as JSON, and end")))
