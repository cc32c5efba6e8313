"""The switch that turns off everything that makes Spark start sooner; :mod:`weft.launch` lists it."""

from __future__ import annotations

import os

SWITCH = "WEFT_PLAIN_START"


def is_plain() -> bool:
    """Whether the user wants Spark to start in the usual way."""
    return os.environ.get(SWITCH, "") not in ("", "0")
