"""How the rows of a source change a stream: a row is there, is taken back, or replaces another one.

    changes="op"              a column says what happens to its row
    key=["id"]                the last row of a key counts; a tombstone takes it away
    format="debezium"         the row before and the row after, and what happened

What must hold: a deletion takes back a row that is equal in all columns.  Then every result that the row had a part in
is taken back too, however the query is planned: weights are multiplied, and those of equal rows add up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa

Format = OneOf["rows", "debezium"]
FORMATS: tuple[Format, ...] = ("rows", "debezium")

ORDER = "#order"
"""Name of the hidden column that says where in the order of its stream a row stands."""
GONE = "#gone"
"""Name of the hidden column that says that the key of a row is gone."""

BEFORE, AFTER, OP, PAYLOAD = "before", "after", "op", "payload"
"""Columns of Debezium's envelope; all may be fields of one, the last."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a stream knows about its changes.  With nothing said, rows come with weights already."""

    op: str | None = None
    """Column of the source that says what happens to a row; it is no column of the stream."""
    source: pa.Schema | None = None
    """The columns of the source, where they are not those of the stream."""
    key: tuple[str, ...] = ()
    """Columns that name a row; a new row with the same key replaces it."""
    format: Format = "rows"

    @property
    def is_log(self) -> bool:
        """Whether rows are upserts: not yet what they change."""
        return bool(self.key)

    def __str__(self) -> str:
        said = [f"column {self.op}"] if self.op is not None and self.format == "rows" else []
        said += [f"format {self.format}"] if self.format != "rows" else []
        said += [f"key {', '.join(self.key)}"] if self.key else []
        return "; ".join(said) or "weights"
