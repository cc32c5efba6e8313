"""What may be written where: a terminal gets colours, a pipe and a file get plain text.

NO_COLOR (any value) and TERM=dumb mean no colours on a terminal either; FORCE_COLOR means colours everywhere.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any, TextIO

_STYLES = {"red": "31", "green": "32", "yellow": "33", "bold": "1", "dim": "2"}


def has_colours(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether a stream shows colours, and its reader wants them."""
    if environ.get("NO_COLOR"):
        return False
    return bool(environ.get("FORCE_COLOR")) or (stream.isatty() and environ.get("TERM") != "dumb")


def paint(text: str, style: str, stream: TextIO) -> str:
    """A text in a style, where that is wanted."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if has_colours(stream) else text


def width(most: int = 120) -> int:
    """How many columns may be written: those of the terminal, COLUMNS, or 80."""
    return min(most, shutil.get_terminal_size().columns)


def say(line: str) -> None:
    """A line of the answer."""
    print(line, flush=True)


def tell(line: str) -> None:
    """A line beside the answer: what is being done, and what is wrong."""
    print(line, file=sys.stderr, flush=True)


def step(what: str = "") -> None:
    """What is being done, on the last line of a terminal; the next step takes its place, and "" clears the line."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what} ..." if what else "\r\x1b[K")
        sys.stderr.flush()


def say_json(data: Any) -> None:
    """The answer, for programs."""
    print(json.dumps(data, indent=2, default=str))
