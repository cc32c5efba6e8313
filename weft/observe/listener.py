"""Who hears what a run does: its history, its log, and whatever else follows it.

What must hold: a listener is quick, since the run waits for it, and it raises nothing.
"""

from __future__ import annotations

from typing import Protocol

from weft.observe.notice import Notice
from weft.observe.progress import Progress


class Listener(Protocol):
    """Follows a run."""

    def begin(self, every: float | None) -> None:
        """The run begins; if `every` is None it reads what is there now, and ends."""
        ...

    def note(self, progress: Progress) -> None:
        """A batch has ended."""
        ...

    def tell(self, notice: Notice) -> None:
        """There is a notice that belongs to no batch."""
        ...

    def end(self, how: str, why: str | None) -> None:
        """The run is "done", was "stopped", or has "failed"."""
        ...
