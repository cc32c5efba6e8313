"""Hands the results of batches to sinks: to some before the commit of a batch, to the others after it.

What must hold: a sink called before the commit sees a batch again if the batch is run again, with the same rows.  A
sink called after the commit gets all that was committed; files that it took before are gone from the checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from weft.host.crash import reach
from weft.host.groups.view import read_view
from weft.host.results.sink import Results
from weft.host.spark.ground import Ground
from weft.host.spark.sources import quote_columns
from weft.host.state.durable import published
from weft.host.state.manifest import Manifest
from weft.host.work import Work
from weft.query.grouping import OP, Grouping

Files = Sequence[Mapping[str, Any]]
"""Result files as a manifest names them."""


class Delivery:
    """The results of one checkpoint on their way to sinks."""

    def __init__(self, ground: Ground) -> None:
        self.spark, self.ledger, self.place = ground.spark, ground.ledger, ground.place
        self.run, self.crash = ground.run, ground.crash

    def hand_over(self, work: Work, number: int, epoch: int, files: Files, only: Sequence[str] | None = None) -> None:
        """Call the sinks that see a batch before its commit.  They are called even if it has no rows."""
        folder = self.ledger.staging_folder(number, epoch)
        self.ledger.fetch(folder, files, whole=True)
        for query, sinks in work.sinks.items():
            for sink in sinks:
                if sink.when == "before commit" and (only is None or query in only):
                    sink.take(self._results(work, query, number, folder, files))

    def publish(self, work: Work, manifest: Manifest) -> None:
        """Call the sinks that get committed results.  Files that were published before are gone, and are skipped."""
        if manifest.batch < 0:
            return
        staged = self.ledger.staged(manifest)
        self.ledger.fetch(staged, manifest.files)
        left = [entry for entry in manifest.files if (staged / entry["query"] / entry["file"]).exists()]
        for query, sinks in work.sinks.items():
            names = tuple(entry["file"] for entry in manifest.files if entry["query"] == query)
            results = replace(self._results(work, query, manifest.batch, staged, left), names=names)
            for sink in sinks:
                if results.files and sink.when == "after commit":
                    sink.take(results)
        self.ledger.discard(staged)

    def restore(self, work: Work, manifest: Manifest) -> None:
        """Let sinks that show a whole view begin with it."""
        for query, sinks in work.sinks.items():
            emit = work.topology.emit_of.get(query)
            for sink in sinks if emit is not None and emit.groups is not None else ():
                sink.restore(partial(self._view, work, query, manifest))

    def stage_views(self, work: Work, manifest: Manifest) -> Iterator[Mapping[str, Any]]:
        """Write the views of queries that begin with old rows: a migration made their groups, in several jobs."""
        for query in work.backfill:
            if work.topology.emit_of[query].groups is None:
                continue
            rows = self._view(work, query, manifest)
            name = Path(self.run.strip("-"), f"{manifest.batch:012d}-e{manifest.epoch}.parquet")
            place = self.ledger.staging_folder(manifest.batch, manifest.epoch) / query / name
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "wb") as file:
                pq.write_table(rows, file)
                file.flush()
                os.fsync(file.fileno())
            published(place)
            yield {"query": query, "file": str(name), "rows": rows.num_rows}

    def _results(self, work: Work, query: str, number: int, staged: Path, found: Files) -> Results:
        files = tuple(staged / query / entry["file"] for entry in found if entry["query"] == query)
        load, on_placed = partial(self._load, work, query, files), partial(reach, self.crash, "publish", number)
        return Results(number, files, load, on_placed)

    def _load(self, work: Work, query: str, files: Sequence[Path]) -> DataFrame:
        emit = work.topology.emit_of[query]
        schema = from_arrow_schema(emit.schema)
        if not files:
            found = self.spark.createDataFrame([], schema)
        elif self.place.depot is not None:  # workers on other machines cannot see the driver's files
            found = self.spark.createDataFrame(pa.concat_tables(map(pq.read_table, files)), schema)
        else:
            found = self.spark.read.schema(schema).parquet(*(_PATTERN.sub(r"\\\g<0>", str(file)) for file in files))
        return found if emit.groups is None else _changed(found, emit.groups.grouping)

    def _view(self, work: Work, query: str, manifest: Manifest) -> pa.Table:
        """The view of an aggregate query, from the state that a manifest names."""
        emit = work.topology.emit_of[query]
        return read_view(emit, work.topology, work.functions, manifest.segments, self.place.state())


def _changed(changes: DataFrame, grouping: Grouping) -> DataFrame:
    """What a batch changed in a view, for functions of the user; where groups can leave it, with what happened."""
    if grouping.is_distinct:
        return changes
    extra = [OP] if grouping.can_leave else []
    seen = changes.where(changes[f"`{OP}`"] != "final")
    return seen.select(*quote_columns([*(output.name for output in grouping.outputs), *extra]))


_PATTERN = re.compile(r"[*?\[\]{}\\]")
"""Characters that Spark takes for patterns in the names of files."""
