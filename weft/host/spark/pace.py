"""What decides when a batch begins and which rows it has, and what it needs to know of the batches."""

from __future__ import annotations

from typing import Protocol

from weft.host.run import Run
from weft.host.sources.feeds import Offset
from weft.host.spark.reading import Reading
from weft.host.state.manifest import Ledger, Manifest


class Batches(Protocol):
    """The batches of a run: how far they are, and how the next one is done."""

    @property
    def ledger(self) -> Ledger:
        """The checkpoint."""
        ...

    @property
    def manifest(self) -> Manifest:
        """What the last batch has committed."""
        ...

    def work(self, rows: Reading, number: int, offsets: Offset) -> None:
        """Do batch `number`: read these rows, which are those up to `offsets`, join them, and commit."""
        ...


class Pace(Run, Protocol):
    """Hands over batches, one after the other."""

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing."""
        ...
