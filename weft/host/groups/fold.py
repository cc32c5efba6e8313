"""Rows with equal columns become one row: weights and sums are added up, least and greatest values are taken.

Hidden columns that hold measures are united; all others, marks of late rows too, tell rows apart.  NULL equals NULL
here, and NaN equals NaN.  Rows are grouped by a code of their columns.  If rows with equal codes turn out to differ,
which is rare, Arrow groups them instead, by their values.

What must hold: the sum over all rows of the weight, and of every measure, does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import HostError
from weft.expr.nested import is_nested, same_values
from weft.host.envelope import join
from weft.host.hidden import Frame
from weft.host.weights import attach_weights, repeat, weight_of
from weft.kernels.boxes import Places
from weft.kernels.codes import Ints, group_codes
from weft.kernels.grouping import add_floats, add_ints, extremes, group_ids
from weft.query.model import HASH, MEASURE, WEIGHT
from weft.topology.measures import united_by

LARGEST = 2**63 - 1
TOO_MANY = "a count of joined rows is too large"


def fold(frames: Sequence[Frame]) -> Frame:
    """One frame in which no two rows have equal columns."""
    frame = join([weighted(frame) for frame in frames])
    if frame.num_rows < 2:
        return frame
    keys = _keys(frame)
    ids, firsts = group_rows(frame, keys)
    if len(firsts) == frame.num_rows:
        return frame
    first = pa.array(firsts)
    made = [
        pc.take(frame.column(name), first, boundscheck=False)
        if name in keys
        else unite(name, frame.column(name), ids, len(firsts), partial(_largest, frame, keys, name, ids, firsts))
        for name in frame.schema.names
    ]
    return pa.RecordBatch.from_arrays(made, names=frame.schema.names)


def share_left(frames: Sequence[Frame]) -> float:
    """The share of the rows that folding would leave, estimated by the rows whose codes end in four zeros.

    Equal rows have equal codes, so these are all rows of about a sixteenth of the groups.
    """
    codes = [group_codes(_told(frame, _keys(frame)), frame.num_rows) for frame in frames]
    some = np.concatenate([found[found & 15 == 0] for found in codes])
    return 16 * len(group_ids(some)[1]) / max(1, sum(map(len, codes)))


def settle(frames: Sequence[Frame], schema: pa.Schema, query: str) -> pa.Table:
    """The rows of many frames, each as often as its weights add up to."""
    if any(weight_of(frame) is not None for frame in frames):
        frames = [repeat(fold(frames), query)]
    return pa.Table.from_batches(frames, schema=schema)


def last_rows(frame: Frame, keys: Sequence[str]) -> Places:
    """The last row of every group, in no order."""
    ids, firsts = group_rows(frame, keys)
    found = firsts.copy()
    np.maximum.at(found, ids, np.arange(frame.num_rows, dtype=np.int32))
    return found


def without_gone(frame: Frame) -> Frame:
    """A folded frame without the rows that count nothing and add nothing: all that came was taken back.

    Another row may have been taken back than came: then the count is 0, and a sum is not.
    """
    weights = weight_of(frame)
    if weights is None or not pc.any(pc.equal(weights, 0)).as_py():
        return frame
    sums = [n for n in frame.schema.names if n == WEIGHT or (n.startswith(MEASURE) and united_by(n) == "sum")]
    return frame.filter(reduce(pc.or_, (pc.not_equal(frame.column(name), 0) for name in sums)))


def weighted(frame: Frame) -> Frame:
    """The frame with a column of weights."""
    if weight_of(frame) is not None:
        return frame
    return attach_weights(frame, pa.array(np.ones(frame.num_rows, dtype=np.int64)))


def group_rows(frame: Frame, keys: Sequence[str]) -> tuple[Places, Places]:
    """The group of every row, and the first row of every group."""
    told = _told(frame, keys)
    ids, firsts = group_ids(group_codes(told, frame.num_rows))
    if len(told) == 1 and told[0].null_count == 0 and pt.is_integer(told[0].type):
        return ids, firsts  # codes of whole numbers are equal only if they are
    same = pa.array(firsts[ids])
    if len(firsts) == frame.num_rows or all(is_same(c, c.take(same)) for c in told):
        return ids, firsts
    return _group_by_values(told)


def _keys(frame: Frame) -> list[str]:
    """The columns that tell rows apart."""
    return [name for name in frame.schema.names if name != WEIGHT and not name.startswith(MEASURE)]


def _told(frame: Frame, keys: Sequence[str]) -> list[pa.Array]:
    return [frame.column(name) for name in keys if name != HASH]  # the hash is that of other columns


def is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns hold the same values, NULL and NaN being values like any other; -0.0 is 0.0."""
    if is_nested(one.type):
        return bool(same_values(one, other).all())
    if pt.is_floating(one.type):
        bits = pa.int64() if one.type.bit_width == 64 else pa.int32()
        one, other = (pc.add(c, pa.scalar(0.0, c.type)).view(bits) for c in (one, other))
    return bool(one.equals(other))


def _group_by_values(columns: Sequence[pa.Array]) -> tuple[Places, Places]:
    count = len(columns[0])
    names = [str(place) for place in range(len(columns))]
    table = pa.table([*map(_plain, columns), pa.array(np.arange(count))], names=[*names, "row"])
    found = table.group_by(names, use_threads=False).aggregate([("row", "min"), ("row", "list")])
    firsts = found.column("row_min").combine_chunks().to_numpy().astype(np.int32)
    lists = found.column("row_list").combine_chunks()
    ids = np.empty(count, dtype=np.int32)
    ids[lists.flatten().to_numpy()] = np.repeat(np.arange(len(firsts)), lists.value_lengths().to_numpy())
    return ids, firsts


def _plain(column: pa.Array) -> pa.Array:
    """Values that Arrow can group: structs and lists as texts that are equal if these are; one zero."""
    if is_nested(column.type):
        return pa.array([None if value is None else repr(value) for value in column.to_pylist()], pa.string())
    return pc.add(column, pa.scalar(0.0, column.type)) if pt.is_floating(column.type) else column


def unite(
    name: str, column: pa.Array, ids: Places, groups: int, what: Callable[[], str] = lambda: TOO_MANY
) -> pa.Array:
    """The weight or a measure of every group; `what` names the group of a sum that is too large."""
    kind = united_by(name)
    if kind == "sum":
        values = column.to_numpy(zero_copy_only=False)
        if values.dtype == np.float64:
            return pa.array(add_floats(ids, values, groups))
        sums = add_ints(ids, values, groups)
        if sums is None:
            raise _overflow(what())
        return pa.array(sums)
    if (codes := _as_ints(column)) is not None:
        valid = None if column.null_count == 0 else pc.is_valid(column).to_numpy(zero_copy_only=False)
        found, known = extremes(ids, codes, valid, groups, greatest=kind == "max")
        plain = pa.array(found, mask=~known)
        return plain.cast(pa.int32()).view(column.type) if column.type.bit_width == 32 else plain.view(column.type)
    table = pa.table({"id": ids, "x": column}).group_by("id", use_threads=False).aggregate([("x", kind)])
    return table.column(f"x_{kind}").combine_chunks().take(pc.sort_indices(table.column("id").combine_chunks()))


def _as_ints(column: pa.Array) -> Ints | None:
    """The column as whole numbers in the same order; None if they are not that wide."""
    kind = column.type
    if pt.is_timestamp(kind) or pt.is_duration(kind) or kind == pa.int64():
        return pc.fill_null(column.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if pt.is_date32(kind) or kind == pa.int32():
        narrow = pc.fill_null(column.view(pa.int32()), 0)
        return narrow.to_numpy(zero_copy_only=False).astype(np.int64)
    return None


def refuse_overflow(column: pa.Array) -> None:
    """Refuse prefix sums of a column that may not fit into 64 bits."""
    if not pt.is_integer(column.type) or len(column) == 0:
        return
    limits = pc.min_max(column).as_py()
    if max(abs(limits["min"] or 0), abs(limits["max"] or 0)) * len(column) > LARGEST:
        values = column.to_numpy(zero_copy_only=False).astype(np.float64)
        if np.abs(values).sum() >= LARGEST:
            raise _overflow()


def _overflow(what: str = TOO_MANY) -> HostError:
    return HostError(
        what,
        detail="numbers that are added up exceed 64 bits.",
        hint="select fewer rows, join fewer, or cast the argument of SUM to DOUBLE.",
    )


def _largest(frame: Frame, keys: Sequence[str], name: str, ids: Places, firsts: Places) -> str:
    """Names the rows whose sum is the largest."""
    sizes = pc.fill_null(pc.abs(frame.column(name).cast(pa.float64(), safe=False)), 0).to_numpy()
    worst = firsts[np.argmax(np.bincount(ids, sizes))]
    return too_large(frame.slice(worst, 1).select(list(keys)), name)


def too_large(group: pa.RecordBatch | pa.Table, name: str) -> str:
    """Says which sum of a group does not fit; the group is a row with its keys, and perhaps with hidden columns."""
    what = "the number of joined rows" if name == WEIGHT else "a sum"
    keys = [key for key in group.schema.names if not key.startswith("#") or key.startswith("#k")]
    shown = ", ".join(str(group.column(key)[0].as_py()) for key in keys)
    return f"{what} is too large in " + (f"group ({shown})" if keys else "the only group")
