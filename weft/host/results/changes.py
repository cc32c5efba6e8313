"""Changes of a view: one row for every group that changed, with what happened to it.

    insert, update   the row of the group now
    delete           the group has left the view; the row is that of the group as it is now
    final            the window of the group is closed: this is its last row

A change also holds the keys of its group, so that a later one replaces it even if the keys are not among the outputs.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from weft.query.grouping import Grouping
from weft.topology.model import OP

PLACE = "#n"


def present(changes: pa.Table, grouping: Grouping) -> pa.Table:
    """The view after some changes, given in their order."""
    return latest(changes, grouping).select([output.name for output in grouping.outputs])


def latest(changes: pa.Table, grouping: Grouping) -> pa.Table:
    """The last change of every group that is in the view."""
    seen = changes.filter(pc.not_equal(changes.column(OP), "final"))
    if grouping.keys:
        numbered = seen.select(list(grouping.keys)).append_column(PLACE, pa.array(range(seen.num_rows), pa.int64()))
        last = numbered.group_by(list(grouping.keys), use_threads=False).aggregate([(PLACE, "max")])
        seen = seen.take(last.column(f"{PLACE}_max"))
    else:
        seen = seen.slice(max(0, seen.num_rows - 1))
    return seen.filter(pc.not_equal(seen.column(OP), "delete"))
