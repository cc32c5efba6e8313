"""What is started, waited for and stopped: a run of a host, and the parts it is made of."""

from __future__ import annotations

from typing import Protocol


class Run(Protocol):
    """Work on batches that goes on in the background."""

    def start(self, every: float | None) -> None:
        """Begin: with what is there now (`every` None), or for ever with so many seconds between batches."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long; whether it has ended.  A failed run raises."""
        ...

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed raises."""
        ...

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        ...
