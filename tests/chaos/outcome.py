"""What a story came to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Outcome:
    """Counts of a story, and what went wrong with it."""

    seed: int
    is_remote: bool = False
    """Whether the checkpoint was in an object store."""
    kills: Counter[str] = field(default_factory=Counter)
    """Processes that were killed, by kind."""
    harms: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    """Troubles that did not come about: there was no such process, or no such means on this machine."""
    failures: int = 0
    """Runs that said why they ended, and were started again."""
    lives: int = 0
    sinks: int = 0
    rows: int = 0
    """Rows compared."""
    seconds: float = 0.0
    difference: str | None = None
