"""Two interfaces: a pace decides when a batch begins and which rows it has; batches run it."""

from __future__ import annotations

from typing import Protocol

from weft.host.run import Run
from weft.host.sources.feeds import Offset
from weft.host.spark.reading import Reading
from weft.host.state.manifest import Ledger, Manifest


class Batches(Protocol):
    """The batches of a run: how far they are, and how the next one is run."""

    @property
    def ledger(self) -> Ledger:
        """The checkpoint."""
        ...

    @property
    def manifest(self) -> Manifest:
        """The manifest of the last committed batch."""
        ...

    def work(self, rows: Reading, number: int, offsets: Offset) -> None:
        """Run batch `number`: read the given rows, which end at `offsets`, join them, and commit."""
        ...


class Pace(Run, Protocol):
    """Starts batches, one after the other."""

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing."""
        ...
