"""All commands, in the order of the help page."""

from __future__ import annotations

import argparse

import weft
from weft.cli import bench, calibrate, completion, console, demo, doctor, explain, init, queries, run, status
from weft.cli.command import EXIT_CODES, Command

COMMANDS: tuple[Command, ...] = (
    init.COMMAND,
    demo.COMMAND,
    run.COMMAND,
    explain.COMMAND,
    queries.COMMAND,
    status.COMMAND,
    console.COMMAND,
    doctor.COMMAND,
    calibrate.COMMAND,
    bench.COMMAND,
    completion.COMMAND,
)


def parser() -> argparse.ArgumentParser:
    """What understands the arguments of all commands."""
    about = "Continuous multi-way stream joins on Apache Spark."
    codes = "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES)
    made = argparse.ArgumentParser(
        "weft",
        description=about,
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=weft.__version__)
    commands = made.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return made
