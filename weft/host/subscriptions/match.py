"""Joined tuples meet subscriptions.

Tuples that were made from one arriving tuple agree in its dimensions, and follow each other.  So the subscriptions are
narrowed part by part, a part being the dimensions of one relation: for each run of tuples that agree in the first part
once, then for each run that also agrees in the second, and so on (the steps of PDFA, K-30).  The part with the fewest
runs comes first: it is that of the arriving tuple.  What is left at the end is compared with the values themselves.

Nothing is built for a tuple that no subscription is left for.  Memory is bounded: tuples are taken in steps, and the
pairs of tuples and subscriptions in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.expr.model import Expr, columns
from weft.host.envelope import Frame
from weft.host.subscriptions.book import Book, Page, points
from weft.host.weights import attach_weights, weight_of
from weft.kernels.bitsets import Left
from weft.kernels.codes import Bools, Ints
from weft.topology.matching import Dimension, Matching

STEP_BYTES = 16 << 20
"""What is left of the tuples of a step has at most about this many bytes."""
CHUNK_PAIRS = 65_536
"""Results are built for about this many pairs at a time."""
WORD = 12
"""Bytes of a word that is left."""


def match(book: Book, joined: Frame, functions: Functions) -> Iterator[Frame]:
    """The results of joined tuples."""
    matching = book.matching
    codes, valid = points(joined, matching.dimensions, functions)
    parts = split(matching.dimensions) if matching.shared else [[*range(codes.shape[1])]]
    for page in book.pages:
        step = max(64, STEP_BYTES // (WORD * len(page.sets.alive)))
        for start in range(0, joined.num_rows, step):
            some = slice(start, start + step)
            for owners, rows in _pairs(page, parts, codes[some], None if valid is None else valid[some]):
                made = _results(matching, joined, page.segment.rows, owners + start, rows, functions)
                if made.num_rows:
                    yield made


def split(dimensions: Sequence[Dimension]) -> list[list[int]]:
    """Dimensions by the relations that they are of."""
    parts: dict[tuple[str, ...], list[int]] = {}
    for place, dimension in enumerate(dimensions):
        parts.setdefault(dimension.members, []).append(place)
    return [*parts.values()] or [[0]]


def narrow(page: Page, parts: Sequence[list[int]], codes: Ints, valid: Bools | None) -> Left:
    """What is left for each tuple, narrowed part by part."""
    count = len(codes)
    changes = [_changes(codes[:, part], None if valid is None else valid[:, part]) for part in parts]
    order = sorted(range(len(parts)), key=lambda i: int(changes[i].sum()))
    left, which, new = None, np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    for number, i in enumerate(order):
        new = new | changes[i] if number < len(order) - 1 else np.ones(count, dtype=np.bool_)
        heads, part = np.flatnonzero(new), parts[i]
        asked = np.ascontiguousarray(codes[heads][:, part])
        known = None if valid is None else np.ascontiguousarray(valid[heads][:, part])
        left = page.sets.narrow(part, asked, known, None if left is None else (left, which[heads]))
        which = np.cumsum(new) - 1
    assert left is not None
    return left


def _changes(codes: Ints, valid: Bools | None) -> Bools:
    """Where a tuple differs from the one before it."""
    new = np.ones(len(codes), dtype=np.bool_)
    new[1:] = (codes[1:] != codes[:-1]).any(axis=1)
    if valid is not None:
        new[1:] |= (valid[1:] != valid[:-1]).any(axis=1)
    return new


def _pairs(page: Page, parts: Sequence[list[int]], codes: Ints, valid: Bools | None) -> Iterator[tuple[Ints, Ints]]:
    """Tuples and the rows of subscriptions that they lie in, in chunks."""
    left = narrow(page, parts, codes, valid)
    most = np.concatenate([[0], np.cumsum(np.bitwise_count(left.bits), dtype=np.int64)])[left.starts]
    start = 0
    while start < len(codes):
        end = max(start + 1, int(np.searchsorted(most, most[start] + CHUNK_PAIRS, side="right")) - 1)
        first, last = left.starts[start], left.starts[end]
        if last > first:
            some = Left(left.starts[start : end + 1] - first, left.words[first:last], left.bits[first:last])
            owners, slots = page.sets.matches(some, codes[start:end], None if valid is None else valid[start:end])
            if len(owners):
                yield owners + start, page.rows[slots]
        start = end


def _results(
    matching: Matching, joined: Frame, subscriptions: Frame, owners: Ints, rows: Ints, functions: Functions
) -> Frame:
    """The results of pairs that pass all checks."""
    mine, other = pa.array(owners), pa.array(rows)
    if matching.checks:
        met = _fetch(matching.checks, joined, subscriptions, mine, other)
        keep = filter_mask(matching.checks, met, functions)
        mine, other = mine.filter(keep), other.filter(keep)
    exprs = [output.expr for output in matching.outputs]
    met = _fetch(exprs, joined, subscriptions, mine, other)
    made = pa.RecordBatch.from_arrays(
        [evaluate(expr, met, functions) for expr in exprs], names=[output.name for output in matching.outputs]
    )
    weights = weight_of(joined)
    return attach_weights(made, None if weights is None else pc.take(weights, mine, boundscheck=False))


def _fetch(exprs: Sequence[Expr], joined: Frame, subscriptions: Frame, mine: pa.Array, other: pa.Array) -> Frame:
    """The columns that expressions read, for pairs of a joined tuple and a subscription."""
    names = sorted({column.name for expr in exprs for column in columns(expr)})
    own = set(joined.schema.names)
    arrays = [
        pc.take(joined.column(name), mine, boundscheck=False)
        if name in own
        else pc.take(subscriptions.column(name), other, boundscheck=False)
        for name in names
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)
