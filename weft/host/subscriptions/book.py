"""The subscriptions of a worker, ready to be asked: a page of bit sets for each segment of their store.

A segment never changes, so its page is made once in a process and used as long as the segment is live.  New
subscriptions come as a new segment: only their page is made.  A removal clears bits in the sets of those that are
there, and nothing else.

What must hold: a page has the bit of exactly the subscriptions of its segment that have not ended, given all segments
of the store that a batch can see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from weft.expr.evaluate import Functions
from weft.host.state.segment import Segment
from weft.host.subscriptions.ended import Removals, removing_rows
from weft.kernels.bitsets import BitSets
from weft.kernels.codes import Ints
from weft.query.model import BATCH
from weft.topology.dimensions import boxes
from weft.topology.matching import Dimension, Matching

MOST = 64
"""Books that a process keeps open."""


@dataclass(frozen=True, eq=False)
class Page:
    """The subscriptions of one segment."""

    segment: Segment
    sets: BitSets
    rows: Ints
    """Slot -> row of the segment."""
    slots: Ints
    """Row of the segment -> slot; -1 for a row that matches nothing."""
    newest: int
    """The last batch in which a row of the segment came."""

    @staticmethod
    def of(segment: Segment, dimensions: Sequence[Dimension], functions: Functions) -> Page:
        """Index a segment."""
        asked = boxes(segment.rows, dimensions, functions)
        there = np.flatnonzero(asked.valid & ~removing_rows(segment.rows))
        sets = BitSets(asked.low[there], asked.high[there], free=asked.free[there])
        rows = np.empty(len(there), dtype=np.int64)
        rows[sets.slots] = there
        slots = np.full(segment.rows.num_rows, -1, dtype=np.int64)
        slots[there] = sets.slots
        came = segment.rows.column(BATCH)
        return Page(segment, sets, rows, slots, int(pc.max(came).as_py() or 0))

    def end(self, removals: Removals) -> None:
        """Leave out exactly the subscriptions that have ended."""
        gone = self.slots[removals.ended(self.segment.rows)]
        self.sets.restore()
        self.sets.remove(gone[gone >= 0])


@dataclass(frozen=True, eq=False)
class Book:
    """All pages."""

    matching: Matching
    pages: tuple[Page, ...]


_books: dict[tuple[str, int], Book] = {}


def open_book(
    matching: Matching, key: Sequence[str], worker: int, segments: Sequence[Segment], functions: Functions
) -> Book:
    """The subscriptions in the segments of a store; what an earlier batch has made is used again."""
    known = _books.pop((matching.store, worker), None)
    if known is not None and known.matching != matching:
        known = None
    if known is None or not _has_exactly(known, segments):
        known = _write(matching, key, segments, () if known is None else known.pages, functions)
    _books[matching.store, worker] = known
    while len(_books) > MOST:
        del _books[next(iter(_books))]
    return known


def _has_exactly(book: Book, segments: Sequence[Segment]) -> bool:
    """Whether a book has these very segments."""
    same = (page.segment is segment for page, segment in zip(book.pages, segments, strict=False))
    return len(book.pages) == len(segments) and all(same)


def _write(
    matching: Matching, key: Sequence[str], segments: Sequence[Segment], known: Sequence[Page], functions: Functions
) -> Book:
    old = {id(page.segment): page for page in known}
    pages = tuple(old.get(id(s)) or Page.of(s, matching.dimensions, functions) for s in segments)
    removals = Removals([segment.rows for segment in segments], key)
    for page in pages:
        page.end(removals)
    return Book(matching, pages)
