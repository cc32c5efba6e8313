"""The rows of groups with their numbers: what new rows, and rows that are taken back, change.

A store has the rows of every group, each as often as it counts.  Rows that come are added to those of their groups,
and the groups are numbered twice: as they were, and as they are.  The difference is what changes.  Where no row is ever
taken back, a row behind the last number that is read never comes forward: it is not kept.

What must hold: numbers depend on the rows of a group alone, not on the order in which they came.  So rows at the same
place are ordered by all their columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions
from weft.expr.nested import is_nested
from weft.host.groups.fold import fold, group_rows, without_gone
from weft.host.groups.groups import Grouped
from weft.host.groups.known import Known
from weft.host.groups.latest import shown
from weft.host.groups.measures import orderable
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.kernels.codes import Bools, Ints, group_codes
from weft.query.grouping import Ranking, RankKind, Sorted, value_field
from weft.query.model import HASH, WEIGHT
from weft.topology.store import Store

LAST = 2**62
"""Where NULL stands."""
_ASCENDING = Sorted("")


def settle_ranked(
    grouped: Grouped, store: Store, came: Sequence[Frame], segments: Sequence[Segment], functions: Functions
) -> tuple[Frame, Frame]:
    """What is added to the store, and what changes in the view, as rows with weights."""
    grouping = grouped.groups.grouping
    assert grouping.ranking is not None
    names = [*store.columns, WEIGHT]
    new = without_gone(fold([frame.select(names) for frame in came]))
    _, firsts = group_rows(new, grouping.keys)
    groups = new.take(pa.array(firsts))
    known = [one.rows.select(names) for one in Known.of(groups, HASH, store, segments, grouping.keys)]
    before = fold([new.slice(0, 0), *known])
    after = fold([before, new])
    was, now = (_Numbered.of(rows, grouping.keys, grouping.ranking) for rows in (before, after))
    changed = _difference(now.shown(), was.shown())
    kept = new if grouping.changing else _difference(now.kept(), before)
    return kept, shown(grouped, changed, functions)


@dataclass(frozen=True)
class _Numbered:
    """Rows of groups in their order: the first number of each, and how often it is there with a number that is read."""

    rows: Frame
    kind: RankKind
    numbers: Ints
    times: Ints

    @staticmethod
    def of(rows: Frame, keys: Sequence[str], ranking: Ranking) -> _Numbered:
        """The rows that are there; what is owed has no number."""
        rows = rows.filter(pc.greater(rows.column(WEIGHT), 0))
        ids = group_rows(rows, keys)[0] if keys else np.zeros(rows.num_rows, dtype=np.int32)
        places = [_codes(rows.column(key.column), key) for key in ranking.order]
        ties = [_codes(rows.column(name)) for name in rows.schema.names if name not in (*keys, HASH, WEIGHT)]
        order = np.lexsort([*reversed(ties), *reversed(places), ids])
        rows, ids, places = rows.take(pa.array(order)), ids[order], [codes[order] for codes in places]
        counts: Ints = rows.column(WEIGHT).to_numpy(zero_copy_only=False)
        numbers = _numbers(ranking.kind, counts, _begins([ids]), _begins([ids, *places]))
        return _Numbered(rows, ranking.kind, numbers, _times(ranking, counts, numbers))

    def kept(self) -> Frame:
        """The rows that have a number that is read, each as often as it has one."""
        read = self.times > 0
        return _weighted(self.rows.filter(pa.array(read)), self.times[read])

    def shown(self) -> Frame:
        """The same rows with their numbers; equal rows have one each, or the same."""
        if self.kind != "row_number":
            return self.kept().append_column(value_field(0), pa.array(self.numbers[self.times > 0]))
        found = np.repeat(np.arange(len(self.times)), self.times)
        further = np.arange(len(found)) - (np.cumsum(self.times) - self.times)[found]
        rows = _weighted(self.rows.take(pa.array(found)), np.ones(len(found), dtype=np.int64))
        return rows.append_column(value_field(0), pa.array(self.numbers[found] + further))


def _numbers(kind: RankKind, counts: Ints, groups: Bools, peers: Bools) -> Ints:
    """The first number of every row, given where groups begin, and rows at another place than the row before."""
    if not len(counts):
        return counts
    steps = peers.astype(np.int64) if kind == "dense_rank" else counts
    before = np.cumsum(steps) - steps
    before = before - before[_start(groups)]
    if kind == "dense_rank":
        return before + peers
    return (before if kind == "row_number" else before[_start(peers)]) + 1


def _times(ranking: Ranking, counts: Ints, numbers: Ints) -> Ints:
    """How often each row has a number that is read."""
    if ranking.most is None:
        return counts
    left = ranking.most + 1 - numbers
    return np.maximum(np.minimum(counts, left), 0) if ranking.kind == "row_number" else np.where(left > 0, counts, 0)


def _begins(columns: Sequence[npt.NDArray[Any]]) -> Bools:
    """Which rows differ from the row before them."""
    found = np.zeros(len(columns[0]), dtype=np.bool_)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def _start(begins: Bools) -> Ints:
    """The last row that begins something, for every row."""
    rows = np.arange(len(begins))
    return np.maximum.accumulate(np.where(begins, rows, 0))


def _codes(column: pa.Array, key: Sorted = _ASCENDING) -> Ints:
    """Whole numbers in the order of the values: NaN is the greatest, and NULL stands at an end."""
    if is_nested(column.type):
        return group_codes([column], len(column))  # any order that depends on the values alone
    ranks = pc.rank(orderable(column), tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    found: Ints = -ranks if key.descending else ranks
    if column.null_count:
        found[pc.is_null(column).to_numpy(zero_copy_only=False)] = -LAST if key.nulls_first else LAST
    return found


def _difference(now: Frame, was: Frame) -> Frame:
    """What must be added to get from some rows to others."""
    back = was.set_column(was.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(was.column(WEIGHT)))
    return without_gone(fold([now, back.select(now.schema.names)]))


def _weighted(rows: Frame, weights: Ints) -> Frame:
    return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, pa.array(weights))
