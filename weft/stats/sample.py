"""Rows drawn from a stream, and the rate that their times show."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from weft.kernels.codes import Ints
from weft.query.model import TIME
from weft.stats.held import Held

EDGE = 100
"""Of the oldest and of the newest times, one in this many rows is left out of a rate: 1970 and 9999 are often no real
dates."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows drawn from a stream."""

    rows: pa.Table
    """The columns that queries read, and the event time in microseconds as `TIME` if the stream has one."""
    total: float | None
    """Rows of the whole stream; None is unknown."""
    read: float | None = None
    """Rows of the parts from which the sample was drawn, if these are not the whole stream."""
    parts: Ints | None = None
    """The part each row is from, if not drawn from the whole stream."""
    keys: dict[tuple[str, ...], Held] = field(default_factory=dict)
    """What was worked out of keys, for all aliases over these rows."""

    @cached_property
    def columns(self) -> dict[str, pa.Array]:
        """The columns, each in one piece, without the time."""
        return {name: _one_array(self.rows.column(name)) for name in self.rows.column_names if name != TIME}

    @property
    def times(self) -> pa.Array:
        """The event times, in one piece."""
        return _one_array(self.rows.column(TIME))

    @cached_property
    def ids(self) -> Ints:
        """Where each row stands."""
        return np.arange(self.rows.num_rows, dtype=np.int64)

    @property
    def whole(self) -> bool:
        """Whether the sample is the stream."""
        return self.total == self.rows.num_rows


def rate_of(sample: Sample) -> float | None:
    """Rows per second of event time; None without times, or if all are equal.

    Rows of the newest moment belong to the span that begins with it: where many have one time, they do not count.
    """
    if TIME not in sample.rows.column_names or sample.total is None:
        return None
    times = np.sort(sample.times.drop_null().to_numpy())
    cut = len(times) // EDGE
    if len(times) < 2 or times[-1 - cut] == times[cut]:
        return None
    first, last = int(times[cut]), int(times[-1 - cut])
    inner = float(np.searchsorted(times, last) - np.searchsorted(times, first)) / (len(times) - 1)
    timed = sample.total * len(times) / sample.rows.num_rows
    return timed * inner / (last - first) * 1e6


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
