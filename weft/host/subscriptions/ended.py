"""Which subscriptions have ended: a row that is marked as removed ends all earlier rows of its key.

Inside a batch "earlier" is the order of rows.  So that the order need not be kept, a batch is settled before it is
stored: rows that end in the batch in which they came are left out.  After that a removing row of batch n ends exactly
the rows of its key that came in batches before n, wherever they lie.

A removing row goes when its store is merged and nothing older than the merged rows is left.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.host.envelope import Frame
from weft.kernels.codes import Bools, Ints, equality_codes
from weft.query.model import BATCH
from weft.query.parameters import REMOVED


def settle(rows: Frame, key: Sequence[str]) -> Frame:
    """New rows without those that end in the same batch; `rows` are in the order in which they came."""
    removing = removing_rows(rows)
    if not removing.any():
        return rows
    return rows.filter(pa.array(~_ended(rows, key, removing, np.arange(rows.num_rows, dtype=np.int64))))


def purge(rows: Frame, key: Sequence[str], *, is_oldest: bool) -> Frame:
    """Rows of many batches without those that have ended; if nothing is older, without removing rows too."""
    removing = removing_rows(rows)
    if not removing.any():
        return rows
    gone = _ended(rows, key, removing, _numbers(rows))
    return rows.filter(pa.array(~(gone | removing) if is_oldest else ~gone))


class Removals:
    """All removing rows of a store."""

    def __init__(self, frames: Sequence[Frame], key: Sequence[str]) -> None:
        self.key, self._last, codes = key, dict[tuple[object, ...], int](), [np.empty(0, dtype=np.int64)]
        for frame in frames:
            rows = frame.filter(pa.array(removing_rows(frame)))
            if rows.num_rows:
                codes.append(_codes(rows, key))
                for name, number in zip(_names(rows, key), _numbers(rows).tolist(), strict=True):
                    self._last[name] = max(number, self._last.get(name, number))
        self._codes = np.unique(np.concatenate(codes))

    def ended(self, rows: Frame) -> Bools:
        """Which rows have ended."""
        gone = np.zeros(rows.num_rows, dtype=np.bool_)
        maybe = np.flatnonzero(np.isin(_codes(rows, self.key), self._codes)) if len(self._codes) else ()
        if len(maybe):
            some = rows.take(pa.array(maybe))
            last = [self._last.get(name, -1) for name in _names(some, self.key)]
            gone[maybe] = np.array(last, dtype=np.int64) > _numbers(some)
        return gone


def removing_rows(rows: Frame) -> Bools:
    """Which rows end others."""
    found: Bools = pc.fill_null(rows.column(REMOVED), False).to_numpy(zero_copy_only=False)
    return found


def _ended(rows: Frame, key: Sequence[str], removing: Bools, order: Ints) -> Bools:
    """Rows after which a removing row of their key comes."""
    codes = _codes(rows, key)
    maybe = np.flatnonzero(np.isin(codes, codes[removing]))
    names = _names(rows.take(pa.array(maybe)), key)
    last: dict[tuple[object, ...], int] = {}
    for name, at in zip(names, maybe.tolist(), strict=True):
        if removing[at]:
            last[name] = max(int(order[at]), last.get(name, -1))
    gone = np.zeros(rows.num_rows, dtype=np.bool_)
    gone[maybe] = [
        not removing[at] and last.get(name, -1) > order[at] for name, at in zip(names, maybe.tolist(), strict=True)
    ]
    return gone


def _codes(rows: Frame, key: Sequence[str]) -> Ints:
    return equality_codes([rows.column(name) for name in key]).values


def _names(rows: Frame, key: Sequence[str]) -> list[tuple[object, ...]]:
    return list(zip(*(rows.column(name).to_pylist() for name in key), strict=True))


def _numbers(rows: Frame) -> Ints:
    found: Ints = rows.column(BATCH).to_numpy()
    return found
