"""What a sink of results is.

A sink says what it takes, and when it is called.  A sink called before the commit gets every batch at least once, with
its number: a batch that is run again is handed over again, with the same rows.  A sink called after the commit gets
the files of a committed batch, perhaps several times: taking them twice must change nothing.

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

Takes = OneOf["rows", "changes", "any"]
"""Every result once; or what changes in a view; or either."""
When = OneOf["before commit", "after commit"]


@dataclass(frozen=True)
class Results:
    """The results of one query in one batch."""

    batch: int
    files: tuple[Path, ...]
    """Parquet files with the rows; none if there are no rows."""
    load: Callable[[], DataFrame]
    """Makes a DataFrame of the rows."""
    on_placed: Callable[[], None]
    """The sink calls it after each file that it has put in place: tests let a run die there."""
    names: tuple[str, ...] = ()
    """All files that the batch was committed with, also those that were published before and are gone."""


class Sink(Protocol):
    """Where the results of one query go."""

    takes: ClassVar[Takes] = "rows"
    when: ClassVar[When] = "after commit"

    folder: Path | None = None
    """The folder that committed files are moved into, if it is that kind of sink."""
    address: str | None = None
    """Where committed rows are sent, if only this sink can send them: nothing else knows how to get there."""

    def check(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Refuse what :meth:`claim` would refuse, without changing anything."""
        return

    def claim(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Reserve the place of the results for checkpoint `owner`, or refuse.  A sink without a place does nothing.

        `published` says whether results have left the checkpoint before, `last` is its newest batch.
        """
        return

    def restore(self, view: Callable[[], pa.Table]) -> None:  # noqa: ARG002
        """Begin a run: `view` gives the present rows of a view.  A sink that does not show the whole needs nothing."""
        return

    def holds_results(self) -> bool:
        """Whether its place holds results already."""
        return False

    @abstractmethod
    def take(self, results: Results) -> None:
        """Take the results of a batch."""
        ...

    def __str__(self) -> str:
        """Where results go, for people."""
        return f"into {self.folder}" if self.folder is not None else f"to a {type(self).__name__}"

    def table(self) -> pa.Table | None:
        """All results so far, if the sink keeps them in memory; else None."""
        return None
