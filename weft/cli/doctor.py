"""`weft doctor`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from weft.cli.command import FAILED_CHECK, JSON, OK, Command, Option
from weft.cli.terminal import paint, say, say_json, tell

_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(*, checkpoint: Path | None = None, spark: bool = True, prepare: bool = False, json: bool = False) -> int:
    """Check whether Weft can run on this machine."""
    from weft.doctor import Finding, examine

    found: list[Finding] = []
    for finding in examine(
        checkpoint=checkpoint, spark=spark, prepare=prepare, announce=lambda what: tell(f"...   {what}")
    ):
        found.append(finding)
        if not json:
            level = paint(f"{finding.level:<5}", _STYLES.get(finding.level, "bold"), sys.stdout)
            say(f"{level} {finding.name:<12} {finding.seen}")
            if finding.hint:
                say(f"{'':<18} hint: {finding.hint}")
    if json:
        say_json([asdict(finding) for finding in found])
    return FAILED_CHECK if any(finding.level == "fail" for finding in found) else OK


COMMAND = Command(
    doctor,
    (
        Option("--checkpoint", Path, "a checkpoint folder to check as well", hint="folder"),
        Option("--spark", bool, "run a small join on Spark at the end (default: yes)"),
        Option("--prepare", bool, "also save Spark's classes, so that sessions start faster; takes a minute or two"),
        JSON,
    ),
)
