"""What a counted store has of some groups: looked up by a code, told apart by their keys, added up.

A segment has the sums of its own batches, so what a group is worth is the sum over all segments.  A code may be the
same by chance: then the keys differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.model import Column
from weft.expr.nested import is_nested, same_values
from weft.host.groups.fold import too_large, unite
from weft.host.hidden import Frame, cut
from weft.host.state.segment import Segment
from weft.kernels.codes import Ints
from weft.kernels.index import probe
from weft.query.model import HASH, MEASURE, TIME, WEIGHT
from weft.topology.store import Key, Store

WAS = "#was"
"""How often a group counted before."""
CHUNK = 1 << 20


@dataclass(frozen=True)
class Known:
    """What earlier batches have of the groups of some parts: rows of segments, and the parts that they belong to."""

    rows: Frame
    parts: Ints

    @staticmethod
    def of(
        parts: Frame, code: str, store: Store, segments: Sequence[Segment], keys: Sequence[str] | None = None
    ) -> list[Known]:
        """From each segment that has any: rows with the same code, and with the same keys, or else with all columns."""
        codes: Ints = parts.column(code).to_numpy(zero_copy_only=False)
        if keys is None:
            keys = [name for name in store.columns if name not in (code, HASH, TIME)]
        name = Key((Column("", code, pa.int64()),)).name
        found = []
        for segment in segments:
            index = segment.indexes[name]
            for mine, rows in probe(index, len(codes), codes, None, None, None, CHUNK):
                met = cut(segment.rows.take(pa.array(rows)), store.columns)
                same = same_rows(parts.select(list(keys)).take(pa.array(mine)), met)
                found.append(Known(met.filter(pa.array(same)), mine[same].astype(np.int64)))
        return [known for known in found if len(known.parts)]


def same_rows(parts: Frame, rows: Frame) -> npt.NDArray[np.bool_]:
    """Which rows are equal to the parts beside them, in all columns of the parts: a hash may be the same by chance."""
    same = np.ones(parts.num_rows, dtype=np.bool_)
    for name in parts.schema.names:
        one, other = parts.column(name), rows.column(name)
        if is_nested(one.type):
            same &= same_values(one, other)
            continue
        if pa.types.is_floating(one.type):
            one, other = (c.view(pa.int64() if c.type.bit_width == 64 else pa.int32()) for c in (one, other))
        equal = pc.fill_null(pc.equal(one, other), False)
        if one.null_count or other.null_count:
            equal = pc.or_(equal, pc.and_(pc.is_null(one), pc.is_null(other)))
        same &= equal.to_numpy(zero_copy_only=False)
    return same


def add_up(known: Sequence[Known], parts: Frame) -> Frame:
    """The parts with all that earlier batches have of their groups; and how often the groups counted then."""
    ids = np.concatenate([np.arange(parts.num_rows), *(found.parts for found in known)]).astype(np.int32)
    made, was = [], _zeros(parts)
    for name in parts.schema.names:
        column = parts.column(name)
        if known and (name == WEIGHT or name.startswith(MEASURE)):
            every = pa.concat_arrays([column, *(found.rows.column(name) for found in known)])
            column = unite(name, every, ids, parts.num_rows, partial(_largest, parts, name, ids, every))
        made.append(column)
    if known:
        before = pa.concat_arrays([_zeros(parts), *(found.rows.column(WEIGHT) for found in known)])
        was = unite(WEIGHT, before, ids, parts.num_rows)
    return pa.RecordBatch.from_arrays([*made, was], names=[*parts.schema.names, WAS])


def _largest(parts: Frame, name: str, ids: npt.NDArray[np.int32], numbers: pa.Array) -> str:
    """Names the group whose sum is the largest."""
    sizes = np.bincount(ids, np.abs(numbers.to_numpy(zero_copy_only=False).astype(np.float64)))
    return too_large(parts.slice(int(sizes.argmax()), 1), name)


def _zeros(frame: Frame) -> pa.Array:
    return pa.array(np.zeros(frame.num_rows, dtype=np.int64))
