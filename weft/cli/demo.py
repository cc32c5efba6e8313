"""`weft demo`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import FAILED_CHECK, OK, Command, Option
from weft.launch.ahead import begin
from weft.signals import exit_code


def demo(
    *,
    orders: int = 30_000,
    seed: int = 1,
    keep: Path | None = None,
    workers: int | None = None,
    console: bool = False,
    port: int | None = None,
) -> int:
    """Run three joins over generated streams and check every row of the results.

    With --console, a steady job over five streams instead, in a browser, whose plan you choose while it runs.
    """
    begin()  # Spark starts while the streams are written
    if console:
        from weft.demo.live import run_live

        signalled = run_live(seed=seed, keep=keep, port=port)
        return OK if signalled is None else exit_code(signalled)
    from weft.demo import run_demo

    return OK if run_demo(orders=orders, seed=seed, keep=keep, workers=workers) else FAILED_CHECK


COMMAND = Command(
    demo,
    (
        Option("--orders", int, "how many orders to generate; other streams grow with them (default: 30000)"),
        Option("--seed", int, "seed of the generator; the same seed gives the same streams (default: 1)"),
        Option("--keep", Path, "a new folder for streams, state and results; else they are deleted", hint="folder"),
        Option("--workers", int, "partitions of the state; chosen by Weft if not given"),
        Option("--console", bool, "show a job that goes on in a browser; choose its plan there"),
        Option("--port", int, "the port of the console (default: 4747, or a free one)"),
    ),
)
