"""Sinks of queries whose rows change: in memory, as folders of changes or of final rows, as one file of now.

A sink that shows the whole view is given it when a run begins (`restore`), so it is right on a checkpoint of any age.
After that it takes changes.  What must hold: to hand over the changes of a batch again changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.results.changes import CUTS, EXTRA, Shape
from weft.host.results.parquet import EMPTY, ParquetSink
from weft.host.results.sink import Results, Sink, Takes
from weft.query.grouping import OP

AT_A_TIME = 2
"""Files of changes that are in memory at the same time."""
VIEW, KNOWN = "view.parquet", "_weft.view"
"""What readers see, and what the next batch needs; some readers find hidden files with `*.parquet`."""
DONE = b"weft.batch"
"""Metadata of the file: the last batch whose changes it holds."""
KEYS = b"weft.keys"
"""Metadata of the file: the columns that name a group; null if rows are counted instead."""


class MemoryView(Sink):
    """Keeps a view in memory."""

    takes: ClassVar[Takes] = "changes"

    def __init__(self, query: str, shape: Shape) -> None:
        self.query, self.shape = query, shape
        self._known = shape.schema.empty_table()
        self._taken: list[pa.Table] = []
        self._is_restored = False
        self._seen: tuple[int, frozenset[str]] = (-1, frozenset())
        """The last batch, and which of its files were taken: a run may hand them over again."""

    def restore(self, view: Callable[[], pa.Table]) -> None:
        """Begin with what the state says, once."""
        if not self._is_restored:
            self._known, self._taken, self._is_restored = view(), [], True

    def take(self, results: Results) -> None:
        """Take the changes of a batch."""
        seen = self._seen[1] if self._seen[0] == results.batch else frozenset()
        new = [path for path in results.files if path.name not in seen]
        self._taken += [pq.read_table(path, schema=self.shape.schema) for path in new]
        self._seen = (results.batch, seen | {path.name for path in new})
        results.on_placed()
        if sum(table.num_rows for table in self._taken) > 65_536 + self._known.num_rows:
            self._settle()

    def _settle(self) -> None:
        self._known, self._taken = self.shape.latest(pa.concat_tables([self._known, *self._taken])), []

    def table(self) -> pa.Table:
        """The view as it is now."""
        self._settle()
        return self._known.select(list(self.shape.outputs))


class FolderOfChanges(ParquetSink):
    """A folder of Parquet files, with the changes of every batch or with the final rows of windows."""

    takes: ClassVar[Takes] = "changes"

    def __init__(
        self, query: str, shape: Shape, path: str | os.PathLike[str], mode: str = "changes", *, merge: bool = True
    ) -> None:
        names = [*((name, shape.schema.field(name).type) for name in shape.outputs), *EXTRA[mode]]
        super().__init__(query, pa.schema(names), path, merge)
        self.mode, self.columns = mode, shape.outputs

    @staticmethod
    def again(query: str, path: str, mode: str) -> FolderOfChanges:
        """The sink of a folder that exists."""
        schema = pq.read_schema(Path(path, EMPTY))
        outputs = tuple(name for name in schema.names if name not in {name for name, _ in EXTRA[mode]})
        return FolderOfChanges(query, Shape(schema, (), outputs, False, False), path, mode)

    def _mark(self, owner: str) -> dict[str, str]:
        return {**super()._mark(owner), "mode": self.mode}

    def _place_all(self, sources: Sequence[Path]) -> Iterator[None]:
        """Files are read and written again, which takes a while: two at a time, since the workers wait meanwhile."""
        if len(sources) < 2:
            yield from map(self._place, sources)
            return
        with ThreadPoolExecutor(AT_A_TIME, "weft-place") as pool:
            yield from pool.map(self._place, sources)

    def _place(self, source: Path) -> None:
        with pq.ParquetFile(source) as file:  # `read_table` would look for a data set
            found = file.read([*self.columns, OP], use_threads=False)
        rows = CUTS[self.mode](found, self.columns, int(source.name[:12]))
        if rows.num_rows:
            self.target.write(source.name, rows.cast(self.schema))


class Snapshot(ParquetSink):
    """A folder with one file, which is replaced at once: a reader sees the view of the last commit, whole."""

    takes: ClassVar[Takes] = "changes"

    def __init__(self, query: str, shape: Shape, path: str | os.PathLike[str]) -> None:
        super().__init__(query, pa.schema([shape.schema.field(name) for name in shape.outputs]), path, False)
        self.shape = shape

    @staticmethod
    def again(query: str, path: str) -> Snapshot:
        """The sink of a folder that exists."""
        schema, outputs = pq.read_schema(Path(path, KNOWN)), pq.read_schema(Path(path, VIEW)).names
        keys = json.loads((schema.metadata or {})[KEYS])
        shape = Shape(schema.remove_metadata(), tuple(keys or ()), tuple(outputs), True, False, keys is None)
        return Snapshot(query, shape, path)

    def _mark(self, owner: str) -> dict[str, str]:
        return {**super()._mark(owner), "mode": "snapshot"}

    def check(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Refuse if the folder holds anything else; what it lacks is restored."""
        super().check(owner, published=False, last=last)

    def claim(self, owner: str, *, published: bool, last: int) -> None:
        """Make the folder ours; it has a file from the start."""
        super().claim(owner, published=published, last=last)
        if VIEW not in self._files():
            self.target.write(VIEW, self.schema.empty_table())
        self.target.remove(EMPTY)
        if self._done() > last:  # the checkpoint is a backup: the view is made anew from its state
            self.target.remove(KNOWN)

    def _done(self) -> int:
        """The last batch whose changes the folder holds."""
        known = self.target.read(KNOWN)
        return -1 if known is None else _done(pq.read_schema(known))

    def restore(self, view: Callable[[], pa.Table]) -> None:
        """Begin with what the state says, if the folder has nothing."""
        if self.target.read(KNOWN) is None:
            self._show(view(), -1)

    def take(self, results: Results) -> None:
        """Show the view after a batch; doing it again changes nothing."""
        try:
            found = self.target.read(KNOWN)
            known = self.shape.schema.empty_table() if found is None else pq.read_table(found)
            if _done(known.schema) < results.batch:
                changes = [pq.read_table(path, schema=self.shape.schema) for path in results.files]
                known = self.shape.latest(pa.concat_tables([known.cast(self.shape.schema), *changes]))
            self._show(known, results.batch)
        except OSError as error:
            raise SinkError(
                f"the view cannot be put into folder {self.target}",
                detail=f"{error}.",
                hint="its changes are safe in the checkpoint; repair the folder and run again.",
            ) from error
        results.on_placed()

    def _keys(self) -> str:
        return json.dumps(None if self.shape.multiset else self.shape.keys)

    def _show(self, known: pa.Table, batch: int) -> None:
        marked = known.replace_schema_metadata({DONE: str(batch), KEYS: self._keys()})
        shown = known.select(list(self.shape.outputs)).replace_schema_metadata(None)
        for table, name in ((marked, KNOWN), (shown, VIEW)):
            self.target.write(name, table)
        self.target.sync()


def _done(schema: pa.Schema) -> int:
    return int((schema.metadata or {}).get(DONE, b"-1"))


MODES = ("changes", "final", "snapshot")


def folder_of_view(
    query: str, shape: Shape, path: str | os.PathLike[str], merge: bool = True, mode: str | None = None
) -> Sink:
    """The sink of a mode."""
    if mode not in (None, *MODES):
        raise SinkError(
            f"mode {mode!r} is unknown", detail=f"modes of a view are: {', '.join(MODES)}.", hint='use mode="changes".'
        )
    if mode == "final" and not shape.closes:
        raise SinkError(
            f'query "{query}" has no final rows',
            detail="its groups may change as long as rows come; only windows of event time close.",
            hint='group by window(...), or use mode="changes" or mode="snapshot".',
        )
    return (
        Snapshot(query, shape, path)
        if mode == "snapshot"
        else FolderOfChanges(query, shape, path, mode or "changes", merge=merge)
    )
