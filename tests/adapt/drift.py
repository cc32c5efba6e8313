"""Streams that drift: r(a), s(a, b), t(b, c), u(c), in which the selective side of the chain changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import weft
from weft.optimizer.cost.prices import Prices
from weft.testing import Trial

NAMES = ("r", "s", "t", "u")
COLUMNS = {"r": ("a",), "s": ("a", "b"), "t": ("b", "c"), "u": ("c",)}
CHAIN = """SELECT r.a, s.b, t.c, u.t AS ut FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b JOIN u ON t.c = u.c
           WITHIN INTERVAL '5' SECOND"""
EVEN: Mapping[str, int] = {"a": 3000, "b": 3000, "c": 3000}
DENSE_A: Mapping[str, int] = {"a": 30, "b": 3000, "c": 60_000}
"""Rows of r and s have many partners, those of t and u hardly any."""
DENSE_C: Mapping[str, int] = {"a": 60_000, "b": 3000, "c": 30}
"""The other way round."""


def rows(random: np.random.Generator, at: int, count: int, values: Mapping[str, int]) -> dict[str, pa.Table]:
    """A second of all streams; `values` says how many values each key has."""
    return {
        name: pa.table({**{key: random.integers(0, values[key], count) for key in keys}, "t": np.full(count, at)})
        for name, keys in COLUMNS.items()
    }


def declare(root: Path, first: Mapping[str, pa.Table], *, epoch: str = "1 batches", **options: Any) -> weft.Session:
    """A session over the streams, planned by their first rows."""
    s = weft.Session(root, workers=2)
    s._roster.prices = Prices(wave=1e-4, batch=1e-3)  # in this process
    for name in NAMES:
        s.stream(name, weft.read.batches([first[name]]), event_time="t")
    s.options(epoch=epoch, **options)
    s.query("q", CHAIN)
    return s


def feed(trial: Trial, batches: Iterable[Mapping[str, pa.Table]]) -> list[int]:
    """Feed batches; return the number of the plan after each."""
    found = []
    for batch in batches:
        trial.feed(batch)
        found.append(trial.running.epoch.number)
    return found
