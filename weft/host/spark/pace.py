"""Two interfaces: a pace decides when a batch begins and which rows it has; batches run it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from weft.host.run import Run
from weft.host.sources.feeds import Feeds, Offset
from weft.host.spark.reading import Reading
from weft.host.state.manifest import Ledger, Manifest
from weft.observe.notice import Notice
from weft.topology.model import Epoch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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

    @property
    def has_to_close(self) -> bool:
        """Whether a batch is needed although nothing new has come: windows have closed."""
        ...

    @property
    def has_to_go_on(self) -> bool:
        """Whether a batch is needed although nothing new has come: a stream that others waited for is idle now."""
        ...

    def open_feeds(self) -> Feeds:
        """The streams of the plan that are read at our own pace."""
        ...

    @property
    def epoch(self) -> Epoch:
        """The plan of the next batch."""
        ...

    def turn(self) -> None:
        """Change the plan between two batches, if that is wanted."""
        ...

    def end(self) -> None:
        """No batch will come any more."""
        ...

    def work(self, rows: Reading, number: int, offsets: Offset) -> None:
        """Run batch `number`: read the given rows, which end at `offsets`, join them, and commit."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """Why the last batch failed."""
        ...

    def forgive(self, notice: Notice) -> None:
        """The last batch failed and will be run again, as a notice says."""
        ...


class Pace(Run, Protocol):
    """Starts batches, one after the other."""

    @property
    def spark(self) -> SparkSession:
        """The session that jobs run in."""
        ...

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing."""
        ...
