"""Joins probing tuples with the rows of some segments.

Input: a frame of tuples, the segments they may see, each with the index that `probe` names.
Output: frames of joined tuples, cut to the fields that later steps need.  A (tuple, row) pair comes out once iff the
index key matches and all residual predicates are TRUE.  Its weight is the product of their weights, and it is late for
a clock if either of them is.

Candidates come in chunks.  The fields that residuals read are fetched first; the others only for pairs that pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.expr.model import columns
from weft.host.envelope import Frame, join
from weft.host.groups.fold import fold, weighted, without_gone
from weft.host.groups.travel import Side, add_up_rows, can_add_up, join_measures, measured_rows
from weft.host.hidden import cut, hidden
from weft.host.limits import limit_codes
from weft.host.marks import join_marks
from weft.host.state.segment import Segment
from weft.host.weights import attach_weights, multiply, weight_of
from weft.kernels.codes import Bools, Ints, equality_codes
from weft.kernels.index import Index, Pairs, ends, probe
from weft.kernels.runs import runs
from weft.query.model import WEIGHT
from weft.topology.node import Bound, Probe
from weft.topology.store import Key, Store

CHUNK_PAIRS = 65_536
"""At most this many candidate pairs are made at a time."""
TUPLE = "#tuple"
"""Beside rows that were met: the place of the tuple that met them."""
CHUNK_BYTES = 64 << 20
"""At most about this many bytes of pairs are made at a time."""


def lookup(
    step: Probe, store: Store, frame: Frame, segments: Sequence[Segment], functions: Functions
) -> Iterator[Frame]:
    """All matches of the frame's tuples in the segments."""
    if not segments:
        return
    key = store.indexes[step.index]
    codes, low, high, valid = question = _question(step, key, frame, functions)
    own = _own_columns(step, store)
    width = frame.nbytes // max(1, frame.num_rows)
    waiting: list[Frame] = []
    rows = size = 0
    adds = _only_adds(step)
    for segment in segments:
        if adds and (found := _add_up(step, frame, segment, segment.indexes[key.name], question, functions)):
            if found[0].num_rows:
                yield found[0]
            continue
        index, chunk = segment.indexes[key.name], _pairs_per_chunk(width + segment.width)
        for pairs in probe(index, frame.num_rows, codes, low, high, valid, chunk):
            matches = _join_pairs(step, own, frame, segment.rows, pairs, functions)
            if matches.num_rows == 0:
                continue
            waiting.append(matches)
            rows, size = rows + matches.num_rows, size + matches.get_total_buffer_size()
            if rows >= CHUNK_PAIRS or size >= CHUNK_BYTES:
                yield join(waiting)
                waiting, rows, size = [], 0, 0
    if waiting:
        yield join(waiting)


def look_up(
    step: Probe, store: Store, frame: Frame, segments: Sequence[Segment], functions: Functions, owes: bool
) -> Iterator[Frame]:
    """The same for a table that changes: a row that was taken back is met by nobody.

    Rows of all segments are added up before anything is made of them, since a least value that was taken back could not
    be.  Rows that are owed, because they were taken back before they came, are met only if `owes` says so.
    """
    key = store.indexes[step.index]
    codes, low, high, valid = _question(step, key, frame, functions)
    own, met = _own_columns(step, store), list[Frame]()
    for segment in segments:
        for found_pairs in probe(segment.indexes[key.name], frame.num_rows, codes, low, high, valid, CHUNK_PAIRS):
            mine, rows = _passing(step, own, frame, segment.rows, found_pairs, functions)
            found = weighted(cut(segment.rows.take(pa.array(rows)), store.columns))
            met.append(found.append_column(TUPLE, pa.array(mine.astype(np.int64))))
    if not met:
        return
    every = without_gone(fold(met)) if any(map(_takes_back, met)) else join(met)
    if not owes and _takes_back(every):
        every = every.filter(pc.greater(every.column(WEIGHT), 0))
    rows = every.drop_columns([TUPLE])
    pairs = every.column(TUPLE).to_numpy(), np.arange(every.num_rows)
    matches = _join_pairs(replace(step, residual=()), own, frame, rows, pairs, functions)
    if matches.num_rows:
        yield matches


def _takes_back(rows: Frame) -> bool:
    return bool(pc.any(pc.less(rows.column(WEIGHT), 0)).as_py())


def _pairs_per_chunk(width: int) -> int:
    """How many pairs of `width` bytes to make at a time."""
    return int(max(16, min(CHUNK_PAIRS, CHUNK_BYTES // max(1, width))))


def _question(step: Probe, key: Key, frame: Frame, functions: Functions) -> Question:
    """What each tuple asks the index for: equality code, lowest and highest order codes, and whether it can match."""
    masks: list[Bools] = []
    codes = None
    if key.equal:
        found = equality_codes([evaluate(expr, frame, functions) for expr in step.equal])
        codes = found.values
        masks += [found.valid] if found.valid is not None else []
    low = _limits(step.low, len(key.ranges), frame, functions, masks, upper=False)
    high = _limits(step.high, len(key.ranges), frame, functions, masks, upper=True)
    return codes, low, high, np.logical_and.reduce(masks) if masks else None


def _limits(
    bounds: Sequence[Bound], dimensions: int, frame: Frame, functions: Functions, masks: list[Bools], *, upper: bool
) -> Ints | None:
    """The tightest of several bounds of each dimension as inclusive order codes."""
    limits: list[Ints | None] = [None] * dimensions
    for bound in bounds:
        values, known = limit_codes(bound, frame, functions, upper=upper)
        masks += known
        tightest = limits[bound.dimension]
        limits[bound.dimension] = (
            values if tightest is None else (np.minimum if upper else np.maximum)(tightest, values)
        )
    return ends(limits, frame.num_rows, upper=upper)


Question = tuple[Ints | None, Ints | None, Ints | None, Bools | None]
"""Equality codes, lowest and highest order codes, and which tuples can match."""


def _only_adds(step: Probe) -> bool:
    """Whether of the rows that match nothing is wanted but how many they are, and sums of what they carry.

    The index alone must decide which rows match.
    """
    found = {column.split(".", 1)[0] for column in step.carry} & set(step.members)
    return step.folds and not step.residual and not found


def _add_up(
    step: Probe, frame: Frame, segment: Segment, index: Index, asked: Question, functions: Functions
) -> tuple[Frame] | None:
    """The tuples, each once for all rows of the segment that it matches; None if rows must be met one by one."""
    if index.dimensions > 1 or not can_add_up(segment.rows):
        return None
    begin, end = runs(index, frame.num_rows, *asked)
    rows: Frame | None = segment.rows
    if step.measures:
        # New measures are worked out for all rows of the segment, which pays if more rows than that are met.
        many = int((end - begin).sum()) > segment.rows.num_rows
        rows = measured_rows(segment.rows, step.members[0], step.measures, functions) if many else None
    if rows is None:
        return None
    some = np.flatnonzero(end > begin)
    met = frame.select([*step.carry, *hidden(frame)]).take(pa.array(some))
    return (add_up_rows(met, rows, index.rows, begin[some], end[some]),)


def _own_columns(step: Probe, store: Store) -> dict[str, str]:
    """Field of the tuple -> column of the store it is found in."""
    if store.members:
        return {column: column for column in store.columns}
    return {f"{step.members[0]}.{column}": column for column in store.columns}


def _join_pairs(
    step: Probe, own: Mapping[str, str], frame: Frame, rows: Frame, pairs: Pairs, functions: Functions
) -> Frame:
    """The pairs that pass the residuals, as tuples."""
    pairs = _passing(step, own, frame, rows, pairs, functions)
    joined = _fetch(own, frame, rows, pairs, step.carry)
    if not step.measures and not hidden(frame) and not hidden(rows):
        return joined
    read = sorted({c.field for measure in step.measures for c in columns(measure.expr)})
    found = _fetch(own, frame, rows, pairs, read) if read else joined
    return _hide(joined, Side(frame, pa.array(pairs[0])), Side(rows, pa.array(pairs[1])), step, found, functions)


def _passing(
    step: Probe, own: Mapping[str, str], frame: Frame, rows: Frame, pairs: Pairs, functions: Functions
) -> Pairs:
    """The pairs that pass the residuals."""
    if not step.residual:
        return pairs
    reads = sorted({c.field for expr in step.residual for c in columns(expr)})
    asked = _fetch(own, frame, rows, pairs, reads) if reads else _nothing(len(pairs[0]))
    keep = filter_mask(step.residual, asked, functions).to_numpy(zero_copy_only=False)
    return pairs if keep.all() else (pairs[0][keep], pairs[1][keep])


def _nothing(rows: int) -> Frame:
    """Rows for predicates that read no column: a batch without columns would have no rows."""
    return pa.RecordBatch.from_arrays([pa.nulls(rows)], names=["#"])


def _hide(joined: Frame, mine: Side, other: Side, step: Probe, found: Frame, functions: Functions) -> Frame:
    """The joined tuples with their hidden columns; `found` has what new measures are worked out of."""
    weights = multiply(weight_of(mine.frame), mine.rows, weight_of(other.frame), other.rows)
    made = join_measures(attach_weights(joined, weights), mine, other, step.measures, found, functions)
    return join_marks(made, mine.frame, mine.rows, other.frame, other.rows)


def _fetch(own: Mapping[str, str], frame: Frame, rows: Frame, pairs: Pairs, fields: Sequence[str]) -> Frame:
    probes, found = pa.array(pairs[0]), pa.array(pairs[1])
    arrays = [
        _take(rows.column(own[name]), found) if name in own else _take(frame.column(name), probes) for name in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def _take(column: pa.Array, places: pa.Array) -> pa.Array:
    return pc.take(column, places, boundscheck=False)
