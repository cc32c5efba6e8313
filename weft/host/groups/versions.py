"""The versions of every key: what new rows of some keys change (`weft.query.versions`).

The store has the rows as they came, as a counted store.  Of the keys that a batch brings rows of, all rows are read;
their versions are worked out without and with what came, and the difference is what others see.

What must hold: the store has no row without a time or without a key, since nothing is ever compared with it.  Others
have seen the versions of the rows that the store has, no more and no less, also after some rows were forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.host.groups.fold import fold, group_rows, without_gone
from weft.host.groups.groups import Grouped
from weft.host.groups.known import Known
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.host.weights import attach_weights
from weft.kernels.codes import group_codes
from weft.query.grouping import FROM, TO, Comparison, Versions
from weft.query.model import HASH, WEIGHT
from weft.topology.store import Store

DAY = 24 * 60 * 60 * 1_000_000
Times = npt.NDArray[Any]


def add_versions(
    grouped: Grouped, store: Store, rows: Frame, segments: Sequence[Segment], mark: int | None = None
) -> tuple[Frame, Frame]:
    """What changes in the store and among versions, as rows with weights; `mark` is the watermark of the last batch."""
    how = grouped.groups.grouping.versions
    assert how is not None
    names = [*store.columns, WEIGHT]
    came = without_gone(fold([_comparable(rows, how).select(names)]))
    _, firsts = group_rows(came, how.keys)
    known = Known.of(came.take(pa.array(firsts)), HASH, store, segments, how.keys)
    before = [found.rows.select(names) for found in known]
    kept = without_gone(fold([*before, came]))
    if how.until is not None:
        kept = _needed(kept, how, mark)
        came = without_gone(fold([kept, *map(_negated, before)]))
    seen = [(kept, 1), *((rows, -1) for rows in ([fold(before)] if before else []))]
    return came, without_gone(fold([_weighted(_shown(versions(rows, how), how), weight) for rows, weight in seen]))


def _needed(rows: Frame, how: Versions, mark: int | None) -> Frame:
    """All rows of some keys but those that nobody can meet any more.

    Rows that come, or are taken back, are not earlier than the mark.  Those that look versions up are not earlier than
    the limit.  So if a partner is earlier, of each key the last row before the limit is needed, and what is later; if
    it is later, what is later alone.  Rows with equal times stay, since the one that counts may be taken back; of a
    log, where none is, only the last one does.
    """
    if how.order:
        rows = _in_order(rows, group_rows(rows, how.keys)[0], _numbers(rows.column(how.time)), how)[1]
    if mark is None or how.until is None:
        return rows
    limit = mark - how.until
    times = _numbers(rows.column(how.time)).astype(np.float64) * _step_size(rows.column(how.time).type, how)
    needed = times >= limit
    if how.comparison in (">=", ">"):
        ids, firsts = group_rows(rows, how.keys)
        there = pc.greater(rows.column(WEIGHT), 0).to_numpy(zero_copy_only=False)
        began = there & (times < limit)
        last = np.full(len(firsts), -np.inf)
        np.maximum.at(last, ids[began], times[began])
        needed |= there & (times >= last[ids])
        if how.gone is not None:  # the end of a version that nobody meets any more
            needed &= ~(rows.column(how.gone).to_numpy(zero_copy_only=False) & (times == last[ids]))
    return rows.filter(pa.array(needed))


def _step_size(kind: pa.DataType, how: Versions) -> int:
    """Microseconds in one step of a time."""
    return DAY if pt.is_date32(kind) else 1 if pt.is_timestamp(kind) else how.step


def _shown(found: Frame, how: Versions) -> Frame:
    """The versions that others see."""
    if how.gone is None:
        return found
    return found.filter(pc.invert(found.column(how.gone))).drop_columns([how.gone, *how.order])


def _negated(rows: Frame) -> Frame:
    return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(rows.column(WEIGHT)))


def _comparable(rows: Frame, how: Versions) -> Frame:
    """The rows that something can be compared with."""
    valid = reduce(pc.and_, (pc.is_valid(rows.column(name)) for name in (*how.keys, how.time)))
    if pt.is_floating(rows.column(how.time).type):
        valid = pc.and_(valid, pc.invert(pc.fill_null(pc.is_nan(rows.column(how.time)), True)))
    return rows.filter(valid)


def versions(rows: Frame, how: Versions) -> Frame:
    """The versions that some keys have, given all their rows: without weights, with the times of each."""
    rows = rows.filter(pc.greater(rows.column(WEIGHT), 0)).drop_columns([WEIGHT])
    ids, _ = group_rows(rows, how.keys)
    keys, rows = _in_order(rows, ids, _numbers(rows.column(how.time)), how)
    times = _numbers(rows.column(how.time))
    follows = np.append(keys[1:] == keys[:-1], False) if len(keys) else np.zeros(0, dtype=np.bool_)
    first, last, there = _bounds(times, follows, how.comparison)
    kind = rows.column(how.time).type
    for name, bound in ((FROM, first), (TO, last)):
        rows = rows.append_column(name, _array(bound, kind))
    return rows if there.all() else rows.filter(pa.array(there))


def _in_order(rows: Frame, ids: npt.NDArray[np.int32], times: Times, how: Versions) -> tuple[Times, Frame]:
    """One row for each key and time, by key and then by time."""
    order = np.lexsort((times, ids))
    mine, at = ids[order], times[order]
    same = np.append((mine[1:] == mine[:-1]) & (at[1:] == at[:-1]), False) if len(order) else np.zeros(0, np.bool_)
    if same.any():
        order = np.lexsort((_ranks(rows, how), times, ids))
    taken = order[~same]
    return ids[taken], rows.take(pa.array(taken))


def _ranks(rows: Frame, how: Versions) -> npt.NDArray[np.int64]:
    """Where rows stand among each other by their columns, in order; those that cannot be sorted go by a code."""
    if how.order:
        order = np.lexsort([rows.column(name).to_numpy(zero_copy_only=False) for name in reversed(how.order)])
        return _places(order)
    columns = {str(at): rows.column(name) for at, name in enumerate(rows.schema.names) if name not in (HASH, how.time)}
    told = {name: column for name, column in columns.items() if not pt.is_nested(column.type)}
    table = pa.table({**told, "code": pa.array(group_codes(list(columns.values()), rows.num_rows))})
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names])
    return _places(order.to_numpy())


def _places(order: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The place of every row in an order."""
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _bounds(times: Times, follows: npt.NDArray[np.bool_], comparison: Comparison) -> tuple[Times, Times, Times]:
    """The first and the last time at which each version is met, and whether there is any."""
    least, greatest = _limits(times)
    after = np.append(times[1:], greatest) if len(times) else times
    before = np.append(least, times[:-1]) if len(times) else times
    has_before = np.append(False, follows[:-1]) if len(times) else follows
    if comparison == ">=":
        return times, np.where(follows, _step(after, down=True), greatest), np.ones(len(times), np.bool_)
    if comparison == ">":
        return _step(times, down=False), np.where(follows, after, greatest), times != greatest
    if comparison == "<=":
        return np.where(has_before, _step(before, down=False), least), times, np.ones(len(times), np.bool_)
    return np.where(has_before, before, least), _step(times, down=True), times != least


def _limits(times: Times) -> tuple[Any, Any]:
    kind = times.dtype.type
    if times.dtype.kind == "f":
        return kind(-np.inf), kind(np.inf)
    limits = np.iinfo(times.dtype)
    return kind(limits.min), kind(limits.max)


def _step(times: Times, *, down: bool) -> Times:
    """The next time before or after each; that of the last one there is goes round, and is not used."""
    if times.dtype.kind == "f":
        return np.nextafter(times, times.dtype.type(-np.inf if down else np.inf))
    one = times.dtype.type(1)
    return times - one if down else times + one


def _numbers(times: pa.Array) -> Times:
    """Times as numbers in the same order."""
    if pt.is_date32(times.type) or pt.is_time32(times.type):
        return times.view(pa.int32()).to_numpy(zero_copy_only=False)
    if pt.is_temporal(times.type):
        return times.view(pa.int64()).to_numpy(zero_copy_only=False)
    return times.to_numpy(zero_copy_only=False)


def _array(numbers: Times, kind: pa.DataType) -> pa.Array:
    plain = pa.array(numbers)
    return plain if plain.type == kind else plain.view(kind)


def _weighted(rows: Frame, weight: int) -> Frame:
    return attach_weights(rows, pa.array(np.full(rows.num_rows, weight, dtype=np.int64)))
