"""Results of queries that are dropped or replaced, if a run died before it had published them.

Their batch is committed, so they belong to the answer of the query as it was.  They go to the folders that the
checkpoint has noted, before the queries of the session take these folders, and are then gone from the checkpoint: the
new query of the same name must not get them.  Doing it again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from weft.errors import StateError
from weft.host.results.parquet import MARKER, ParquetSink
from weft.host.results.partitioned import BY, PartitionedFolder
from weft.host.results.sink import Results
from weft.host.results.views import FolderOfChanges, Snapshot
from weft.host.state.manifest import Ledger


def publish_left(ledger: Ledger, folders: Mapping[str, Iterable[str]]) -> None:
    """Publish what is left of queries; `folders` says where their results went.  A folder that is gone is left out."""
    for query, places in folders.items():
        batch, files = _left(ledger, query)
        results = Results(batch, files, _no_frame, lambda: None)
        for place in places:
            if files and Path(place, MARKER).exists():
                _sink(query, place).take(results)
        if batch >= 0:
            ledger.discard(ledger.staged(ledger.last()) / query)


def refuse_unsent(ledger: Ledger, addresses: Mapping[str, Iterable[str]]) -> None:
    """Refuse to drop a query with results that only its own sink can send; `addresses` says where they went."""
    for query, places in addresses.items():
        batch, files = _left(ledger, query)
        for place in places if files else ():
            raise StateError(
                f'query "{query}" cannot be dropped or replaced yet',
                detail=f"the last run ended before results of batch {batch} were sent {place}.",
                hint="run the session once with the query as it was: s.run(). Then drop it.",
            )


def _left(ledger: Ledger, query: str) -> tuple[int, tuple[Path, ...]]:
    """The last batch, and the files of a query in it that may not have been published."""
    manifest = ledger.last()
    if manifest.batch < 0:
        return -1, ()
    staged = ledger.staged(manifest)
    paths = [staged / query / entry["file"] for entry in manifest.files if entry["query"] == query]
    return manifest.batch, tuple(path for path in paths if path.exists())


def _sink(query: str, place: str) -> ParquetSink:
    """The sink that the folder was made by."""
    marker = json.loads(Path(place, MARKER).read_text())
    mode, by = marker.get("mode"), marker.get(BY)
    if by is not None:
        return PartitionedFolder.again(query, place, by)
    if mode is None:
        return ParquetSink(query, pa.schema([]), place)
    return Snapshot.again(query, place) if mode == "snapshot" else FolderOfChanges.again(query, place, mode)


def _no_frame() -> None:
    raise AssertionError("a folder of files needs no DataFrame")
