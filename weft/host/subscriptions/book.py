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
import pyarrow as pa

from weft.expr.evaluate import Functions, evaluate
from weft.host.envelope import Frame
from weft.host.state.segment import Segment
from weft.host.subscriptions.ended import Removals, removing_rows
from weft.kernels.bitsets import BitSets
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints, end_codes, equality_codes, order_codes
from weft.topology.matching import Dimension, End, Matching

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

    @staticmethod
    def of(segment: Segment, dimensions: Sequence[Dimension], functions: Functions) -> Page:
        """Index a segment."""
        low, high, valid = boxes(segment.rows, dimensions, functions)
        there = np.flatnonzero(valid & ~removing_rows(segment.rows))
        sets = BitSets(low[there], high[there])
        rows = np.empty(len(there), dtype=np.int64)
        rows[sets.slots] = there
        slots = np.full(segment.rows.num_rows, -1, dtype=np.int64)
        slots[there] = sets.slots
        return Page(segment, sets, rows, slots)

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


# ---------------------------------------------------------------------------------------------------- codes


def boxes(rows: Frame, dimensions: Sequence[Dimension], functions: Functions) -> tuple[Ints, Ints, Bools]:
    """The lowest and highest codes that each subscription admits, and which subscriptions can match at all.

    Without a dimension there is one that admits everything.
    """
    shape = rows.num_rows, max(1, len(dimensions))
    low, high = np.full(shape, LOWEST, dtype=np.int64), np.full(shape, HIGHEST, dtype=np.int64)
    valid = np.ones(rows.num_rows, dtype=np.bool_)
    for place, dimension in enumerate(dimensions):
        for end in dimension.low:
            codes, known = _end(rows, dimension, end, functions, upper=False)
            low[:, place] = np.maximum(low[:, place], codes)
            valid &= known
        for end in dimension.high:
            codes, known = _end(rows, dimension, end, functions, upper=True)
            high[:, place] = np.minimum(high[:, place], codes)
            valid &= known
    return low, high, valid


def _end(rows: Frame, dimension: Dimension, end: End, functions: Functions, *, upper: bool) -> tuple[Ints, Bools]:
    column = evaluate(end.expr, rows, functions)
    if dimension.equal:
        found = equality_codes([column])
        missing = column.is_null().to_numpy(zero_copy_only=False)
        known = np.ones(len(column), dtype=np.bool_) if found.valid is None else found.valid | missing
        return np.where(missing, HIGHEST if upper else LOWEST, found.values), known
    codes = end_codes(column, upper=upper, strict=end.strict)
    return codes.values, np.ones(len(column), dtype=np.bool_) if codes.valid is None else codes.valid


def points(frame: Frame, dimensions: Sequence[Dimension], functions: Functions) -> tuple[Ints, Bools | None]:
    """The codes of tuples in all dimensions, and where they have one; None if everywhere."""
    if not dimensions:
        return np.zeros((frame.num_rows, 1), dtype=np.int64), None
    found = [value_codes(evaluate(d.value, frame, functions), d) for d in dimensions]
    return side_by_side(found, frame.num_rows)


def side_by_side(found: Sequence[tuple[Ints, Bools | None]], count: int) -> tuple[Ints, Bools | None]:
    """Codes of several dimensions, a column each."""
    codes = np.stack([values for values, _ in found], axis=1)
    if all(valid is None for _, valid in found):
        return codes, None
    known = [np.ones(count, dtype=np.bool_) if valid is None else valid for _, valid in found]
    return codes, np.stack(known, axis=1)


def value_codes(column: pa.Array, dimension: Dimension) -> tuple[Ints, Bools | None]:
    """The codes of values of a dimension, and which values have one."""
    found = equality_codes([column]) if dimension.equal else order_codes(column)
    return found.values, found.valid
