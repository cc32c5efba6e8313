"""What a sink of results is.

A sink says what it takes, and when it is called.  Before the commit it gets every batch at least once, with its number:
a batch that is run again is handed over again, with the same rows.  After the commit it gets the files of a batch that
is true, perhaps several times: to take them twice changes nothing.

A new sink is a module with a class that extends `Sink`, and a line in `weft.host.results.sinks`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol
from typing import Literal as OneOf

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Takes = OneOf["rows", "changes", "snapshots"]
"""Every result once; what is added and taken back; or all there is, again and again."""
When = OneOf["before commit", "after commit"]


@dataclass(frozen=True)
class Results:
    """What a batch has answered to one query."""

    batch: int
    files: tuple[Path, ...]
    """Parquet files with the rows; none if there are no rows."""
    load: Callable[[], DataFrame]
    """Makes a DataFrame of the rows."""
    placed: Callable[[], None]
    """To be called for each file that has been put in place: tests let a run die there."""


class Sink(Protocol):
    """Where the results of one query go."""

    takes: ClassVar[Takes] = "rows"
    when: ClassVar[When] = "after commit"

    def claim(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Make its place that of checkpoint `owner`, or refuse; a sink without a place has nothing to do.

        `published` says whether results have left the checkpoint before, `last` is its newest batch.
        """
        return

    @abstractmethod
    def take(self, results: Results) -> None:
        """Take the results of a batch."""
        ...

    def table(self) -> pa.Table | None:
        """All results so far, of a sink that keeps them in memory."""
        return None
