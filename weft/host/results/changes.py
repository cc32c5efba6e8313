"""Changes of a view: one row for every group that changed, with what happened to it.

    insert, update   the row of the group now
    delete           the group has left the view (HAVING); the row is that of the group as it is now
    final            the window of the group is closed: this is its last row

A change also holds the keys of its group, so that a later one replaces it even if the keys are not among the outputs.
The rows of a join over streams that change have no keys: an insert adds a row, a delete takes an equal one away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.model import Column
from weft.host.envelope import join
from weft.host.groups.fold import fold, last_rows
from weft.host.weights import attach_weights
from weft.query.grouping import OP, Grouping
from weft.query.model import WEIGHT, Query

BATCH = "#batch"
"""Name of the column that says in which batch a row of a view changed."""


@dataclass(frozen=True)
class Shape:
    """What the changes of a view look like."""

    schema: pa.Schema
    keys: tuple[str, ...]
    outputs: tuple[str, ...]
    can_leave: bool
    """Whether a group can leave the view."""
    closes: bool
    """Whether groups are windows of event time, which close."""
    multiset: bool = False
    """Whether rows have no keys: a change adds one row, or takes an equal one away."""
    names: tuple[str, ...] = ()
    """What people call the keys: the outputs that show them, where there are such."""

    @staticmethod
    def of(query: Query) -> Shape:
        """For an aggregate query."""
        assert query.grouping is not None
        return Shape.of_grouping(query.grouping, query.grouping.changes_schema(query.outputs))

    @staticmethod
    def of_grouping(grouping: Grouping, schema: pa.Schema) -> Shape:
        """For a grouping whose changes have a schema."""
        outputs = tuple(output.name for output in grouping.outputs)
        shown = {output.expr.name: output.name for output in grouping.outputs if isinstance(output.expr, Column)}
        names = tuple(shown.get(key, f"key{at}") for at, key in enumerate(grouping.named_by))
        closes = grouping.window is not None
        return Shape(schema, grouping.named_by, outputs, grouping.can_leave, closes, grouping.multiset, names)

    def view(self, changes: pa.Table) -> pa.Table:
        """The rows of the view after some changes, given in their order."""
        return self.latest(changes).select(list(self.outputs))

    def latest(self, changes: pa.Table) -> pa.Table:
        """The last change of every group that is in the view; of a multiset, every row that is left."""
        if self.multiset:
            return _left(changes, self.outputs)
        seen = changes.filter(pc.not_equal(changes.column(OP), "final"))
        if self.keys and seen.num_rows:
            seen = seen.take(pa.array(last_rows(join(seen.select(list(self.keys)).to_batches()), self.keys)))
        else:
            seen = seen.slice(max(0, seen.num_rows - 1))
        return seen.filter(pc.not_equal(seen.column(OP), "delete"))


def _left(changes: pa.Table, outputs: Sequence[str]) -> pa.Table:
    """The rows that were added and not taken away again."""
    if not changes.num_rows:
        return changes
    one = join(changes.to_batches())
    added = pc.equal(one.column(OP), "insert")
    weights = pc.if_else(added, pa.scalar(1, pa.int64()), pa.scalar(-1, pa.int64()))
    counted = fold([attach_weights(one.select(list(outputs)), weights)])
    times = np.maximum(counted.column(WEIGHT).to_numpy(zero_copy_only=False), 0)
    rows = counted.select(list(outputs)).take(pa.array(np.repeat(np.arange(counted.num_rows), times)))
    return pa.Table.from_batches([rows.append_column(OP, pa.repeat("insert", rows.num_rows))], schema=changes.schema)


def changed_rows(changes: pa.Table, columns: Sequence[str], batch: int) -> pa.Table:
    """The groups of a batch that changed: their rows, what happened, and the number of the batch."""
    is_open = pc.not_equal(changes.column(OP), "final")
    seen = (changes if pc.all(is_open).as_py() else changes.filter(is_open)).select([*columns, OP])
    return seen.append_column(BATCH, pa.repeat(pa.scalar(batch, pa.int64()), seen.num_rows))


def final_rows(changes: pa.Table, columns: Sequence[str], _batch: int) -> pa.Table:
    """The last rows of windows that were closed."""
    return changes.filter(pc.equal(changes.column(OP), "final")).select(list(columns))


CUTS: Mapping[str, Callable[[pa.Table, Sequence[str], int], pa.Table]] = {
    "changes": changed_rows,
    "final": final_rows,
}
"""Mode of a folder -> what it takes of the changes of a batch."""
EXTRA: Mapping[str, tuple[tuple[str, pa.DataType], ...]] = {
    "changes": ((OP, pa.string()), (BATCH, pa.int64())),
    "final": (),
}
"""Mode of a folder -> columns beside those of the view."""
