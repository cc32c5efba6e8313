"""What the command line needs of the console, of logs and of metrics."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.console.picture import Picture
from weft.console.serve import Console, serve
from weft.errors import HostError, PlanError
from weft.observe.logs import FORMATS, show_logs
from weft.signals import noting

LOOK = 0.2
"""Seconds between two looks for a signal."""


def choose_console(wanted: bool, control: bool, bind: str, port: int | None) -> bool | Console:
    """The console that was asked for; False is none."""
    if control and not wanted:
        raise PlanError("--control without --console", hint="add --console, or leave --control out.")
    return Console(bind=bind, port=port, control=control) if wanted else False


def say_logs(form: str | None) -> None:
    """Write logs to stderr in a format; None writes none."""
    if form is None:
        return None
    for known in FORMATS:
        if form == known:
            return show_logs(known)
    raise PlanError(f'log format "{form}" is unknown', hint=f"use one of: {', '.join(FORMATS)}.")


def show_checkpoint(root: Path, bind: str, port: int | None, otel: bool) -> int:
    """Show a checkpoint until a signal comes; the signal."""
    Picture(root).check()
    with exporting(root, otel):
        served = serve(root, Console(bind=bind, port=port))
        sys.stderr.write(f"console: {served.url}\n")
        try:
            return stay("shown from the checkpoint alone")
        finally:
            served.close()


def stay(why: str) -> int:
    """Keep the console open until a signal comes; the signal."""
    sys.stderr.write(f"{why}; the console stays open, Ctrl-C closes it\n")
    sys.stderr.flush()
    with noting() as asked:
        while asked.signal is None:
            time.sleep(LOOK)
    return asked.signal


@contextmanager
def exporting(root: Path, wanted: bool) -> Iterator[None]:
    """Send metrics of a checkpoint to a collector meanwhile, if that is wanted."""
    if not wanted:
        yield
        return
    try:
        from weft.console.otel import Export
    except ImportError as error:
        hint = 'install it: pip install "weft[otel]".'
        raise HostError("OpenTelemetry is not installed", detail=f"{error}.", hint=hint) from error
    export = Export(root)
    try:
        yield
    finally:
        export.close()


def grafana_board() -> str:
    """A board for Grafana, as JSON."""
    return (Path(__file__).parent / "assets" / "grafana.json").read_text()
