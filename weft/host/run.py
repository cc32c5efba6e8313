"""What can be started, waited for and stopped: a run of a host, and the parts it is made of."""

from __future__ import annotations

from typing import Protocol


class Run(Protocol):
    """Work on batches that goes on in the background."""

    def start(self, every: float | None) -> None:
        """Begin.  If `every` is None, read what is there now and end; else go on, a batch every so many seconds."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so many seconds; return whether it has ended.  A failed run raises."""
        ...

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed raises."""
        ...

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        ...
