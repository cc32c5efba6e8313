"""Where results go.

A Parquet sink is a folder that holds exactly the committed results: files are put there by rename after the
manifest that names them, under names that a repeated publication replaces.  A folder belongs to one query of
one checkpoint; a marker file says to which.  An empty file with the schema makes the folder readable from the
start.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.state.durable import sync_folder, write_durably

MARKER = "_weft.json"


@dataclass
class MemorySink:
    """Keeps results of this run in memory."""

    schema: pa.Schema
    tables: dict[str, pa.Table] = field(default_factory=dict)

    def table(self) -> pa.Table:
        """All results so far."""
        return pa.concat_tables([self.schema.empty_table(), *self.tables.values()])

    def publish(self, staged: Sequence[Path], between: Callable[[], None]) -> None:
        """Take the results of a batch; doing it again changes nothing."""
        self.tables |= {path.name: pq.read_table(path, schema=self.schema) for path in staged}
        between()


@dataclass(frozen=True)
class ForeachSink:
    """Hands every batch to a function of the user before it is committed: at least once, with its number."""

    function: Callable[[Any, int], object]


@dataclass(frozen=True)
class ParquetSink:
    """A folder of Parquet files."""

    path: Path
    query: str
    schema: pa.Schema

    def claim(self, owner: str, *, published: bool, last: int) -> None:
        """Make the folder ours, or refuse if it holds anything else, or lacks what was committed before.

        `last` is the newest batch of the checkpoint: what is newer was written by a checkpoint that is no more.
        """
        mine = {"checkpoint": owner, "query": self.query}
        marker = self.path / MARKER
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            found = json.loads(marker.read_text()) if marker.exists() else None
        except (OSError, ValueError) as error:
            hint = f"choose a folder that can be written; remove {MARKER} if it is damaged."
            raise SinkError(f"folder {self.path} cannot be used for results", detail=f"{error}.", hint=hint) from error
        others = [entry.name for entry in self.path.iterdir() if not entry.name.startswith((".", "_"))]
        if found != mine and (found is not None or others):
            raise SinkError(
                f"folder {self.path} already holds other results",
                detail=f'it belongs to {_whose(found)}; this is query "{self.query}" of checkpoint {owner}.',
                hint="choose an empty folder, or remove this one.",
            )
        if found is None and published:
            raise SinkError(
                f"folder {self.path} lacks the results of earlier batches",
                detail=f'checkpoint {owner} has committed batches, and query "{self.query}" did not write them here.',
                hint="bring the folder back, or start again from an empty checkpoint.",
            )
        if newer := sorted(name for name in others if name[:12].isdigit() and int(name[:12]) > last):
            raise SinkError(
                f"folder {self.path} holds results of batches that the checkpoint does not know",
                detail=f"the checkpoint ends with batch {last}, as after a backup was restored; newer: {newer[0]}"
                + (f" and {len(newer) - 1} more." if newer[1:] else "."),
                hint="remove them: their batches will be worked out again. File names begin with the batch.",
            )
        for stale in self.path.glob(".*.tmp"):
            stale.unlink(missing_ok=True)
        # The marker comes first: a run that dies here must find the folder its own.
        if found is None:
            write_durably(marker, json.dumps(mine).encode())
        if not (self.path / "empty.parquet").exists():
            aside = self.path / ".empty.parquet.tmp"
            pq.write_table(self.schema.empty_table(), aside)
            aside.replace(self.path / "empty.parquet")

    def publish(self, staged: Sequence[Path], between: Callable[[], None]) -> None:
        """Put the files of a batch in place; doing it again changes nothing."""
        for source in staged:
            aside = self.path / f".{source.name}.tmp"
            try:
                self._place(source, aside)
            except OSError as error:
                raise SinkError(
                    f"results cannot be put into folder {self.path}",
                    detail=f"{error}.",
                    hint="they are safe in the checkpoint; repair the folder and run again.",
                ) from error
            between()
        sync_folder(self.path)  # the staged files go after this

    def _place(self, source: Path, aside: Path) -> None:
        aside.unlink(missing_ok=True)
        try:
            os.link(source, aside)
        except OSError:
            shutil.copyfile(source, aside)
            with open(aside, "rb") as copied:
                os.fsync(copied.fileno())
        os.replace(aside, self.path / source.name)
        aside.unlink(missing_ok=True)  # a rename onto a second name of the same file leaves both


def _whose(marker: Mapping[str, str] | None) -> str:
    if marker is None:
        return "somebody else"
    return f'query "{marker.get("query")}" of checkpoint {marker.get("checkpoint")}'


Sink = MemorySink | ForeachSink | ParquetSink


def publish(
    sinks: Mapping[str, Sequence[Sink]], folder: Path, files: Sequence[Mapping[str, Any]], between: Callable[[], None]
) -> None:
    """Give every sink the committed files of a batch; files published before are gone and are passed over."""
    for query, wanted in sinks.items():
        staged = [folder / query / entry["file"] for entry in files if entry["query"] == query]
        present = [path for path in staged if path.exists()]
        for sink in wanted:
            if present and not isinstance(sink, ForeachSink):
                sink.publish(present, between)
