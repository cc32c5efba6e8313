"""What a measurement prints: what it does now, and tables under a title."""

from __future__ import annotations

import time
from collections.abc import Iterable


def block(title: str, lines: Iterable[str]) -> None:
    """A table under its title."""
    print(f"\n{title}")
    for line in lines:
        print(line)


def say(what: str) -> None:
    """What is being measured now."""
    print(f"  {time.strftime('%H:%M:%S')} {what} ...", flush=True)
