"""The switch for everything that makes Spark start sooner; the head of :mod:`weft.launch` lists it."""

from __future__ import annotations

import os

SWITCH = "WEFT_PLAIN_START"


def is_plain() -> bool:
    """Whether the user wants Spark to be started as Spark itself does it."""
    return os.environ.get(SWITCH, "") not in ("", "0")
