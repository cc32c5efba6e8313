"""Joined tuples meet subscriptions.

Tuples that were made from one arriving tuple agree in its dimensions, and follow each other.  So the subscriptions are
narrowed part by part, a part being the dimensions of one relation: for each run of tuples that agree in the first part
once, then for each run that also agrees in the second, and so on (the steps of PDFA, K-30).  The part with the fewest
runs comes first: it is that of the arriving tuple.  What is left at the end is compared with the values themselves.

Nothing is built for a tuple that no subscription is left for.  Memory is bounded: pairs of tuples and subscriptions
come in chunks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.expr.model import Call, Column, Expr, columns
from weft.host.envelope import Frame
from weft.host.subscriptions.book import Book, Page
from weft.host.weights import attach_weights, weight_of
from weft.kernels.codes import Bools, Ints
from weft.query.model import BATCH
from weft.topology.dimensions import points, side_by_side, value_codes
from weft.topology.matching import Dimension, Matching

LONG = 5
"""From this many tuples a run on, a part is narrowed once for all of them; a single tuple is looked up in all
dimensions at once, since their second levels together exclude nearly all words."""
CHUNK_PAIRS = 65_536
"""Results are built for about this many pairs at a time."""


def match(book: Book, joined: Frame, functions: Functions) -> Iterator[Frame]:
    """The results of joined tuples."""
    matching = book.matching
    codes, valid = points(joined, matching.dimensions, functions)
    parts, levels = _steps(matching, codes, valid)
    for page in book.pages:
        checks = [check for check in matching.checks if not _holds(check, joined, page)]
        for owners, slots in page.sets.find(parts, codes, levels, valid, CHUNK_PAIRS):
            made = _results(matching, checks, joined, page.segment.rows, owners, page.rows[slots], functions)
            if made.num_rows:
                yield made


def is_wanted(book: Book, known: Sequence[int], values: Sequence[pa.Array]) -> Bools:
    """For which tuples a subscription may be left, by some dimensions and the values of tuples there."""
    dimensions = book.matching.dimensions
    found = [value_codes(column, dimensions[place]) for place, column in zip(known, values, strict=True)]
    codes, valid = side_by_side(found, len(values[0]))
    wanted = np.zeros(len(codes), dtype=np.bool_)
    for page in book.pages:
        wanted |= page.sets.has_any(known, codes, valid)
    return wanted


def _steps(matching: Matching, codes: Ints, valid: Bools | None) -> tuple[list[list[int]], Ints]:
    """Dimensions by the relations that they are of, those with the fewest runs first; and for each tuple the first part
    in which it differs from the tuple before it."""
    if not matching.shared:
        return [[*range(codes.shape[1])]], np.zeros(len(codes), dtype=np.int64)
    parts = split(matching.dimensions)
    found = [(part, _changes(codes[:, part], None if valid is None else valid[:, part])) for part in parts]
    found.sort(key=lambda one: int(one[1].sum()))
    if int(found[0][1].sum()) * LONG > len(codes):
        return [[*range(codes.shape[1])]], np.zeros(len(codes), dtype=np.int64)
    levels = np.full(len(codes), len(parts), dtype=np.int64)
    for level in range(len(found) - 1, -1, -1):
        levels[found[level][1]] = level
    return [part for part, _ in found], levels


def split(dimensions: Sequence[Dimension]) -> list[list[int]]:
    """Dimensions by the relations that they are of."""
    parts: dict[tuple[str, ...], list[int]] = {}
    for place, dimension in enumerate(dimensions):
        parts.setdefault(dimension.members, []).append(place)
    return [*parts.values()] or [[0]]


def _changes(codes: Ints, valid: Bools | None) -> Bools:
    """Where a tuple differs from the one before it."""
    new = np.ones(len(codes), dtype=np.bool_)
    new[1:] = (codes[1:] != codes[:-1]).any(axis=1)
    if valid is not None:
        new[1:] |= (valid[1:] != valid[:-1]).any(axis=1)
    return new


def _holds(check: Expr, joined: Frame, page: Page) -> bool:
    """Whether a check says that rows came since subscriptions did, and all of them have."""
    match check:
        case Call(op=">=", args=(Column(name=came), Column(name=began))) if began == BATCH and joined.num_rows:
            least = pc.min(joined.column(came), skip_nulls=False).as_py()
            return least is not None and least >= page.newest
    return False


def _results(
    matching: Matching,
    checks: Sequence[Expr],
    joined: Frame,
    subscriptions: Frame,
    owners: Ints,
    rows: Ints,
    functions: Functions,
) -> Frame:
    """The results of pairs that pass all checks."""
    mine, other = pa.array(owners), pa.array(rows)
    if checks:
        met = _fetch(checks, joined, subscriptions, mine, other)
        keep = filter_mask(checks, met, functions)
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
