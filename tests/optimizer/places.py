"""Routed rows as sets of workers."""

from __future__ import annotations

import numpy as np


def sets(routed: tuple[np.ndarray, np.ndarray], rows: int) -> list[set[int]]:
    """Row -> its workers; no row goes to a worker twice."""
    found: list[set[int]] = [set() for _ in range(rows)]
    for row, place in zip(*(array.tolist() for array in routed), strict=True):
        assert place not in found[row]
        found[row].add(place)
    return found
