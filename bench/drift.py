"""Scenarios in which streams change while a session runs; a second of event time is a batch.

orders   C46: every s finds many partners in r and none in t, where it was the other way round
tiny     C47: r is 1,000 times as fast as the others.  The join of s, t and u is large at first, and hardly any r finds
         an s, so r should ask s first.  Then all keys of r and s are few, and no s finds a t: the join of s, t and u is
         tiny and should be kept.  (Paper 002 leaves open how large that join was, so here a new row of s, t or u has
         about 1,000 results in it, and how many s an r finds then: here 25.  The old plan makes and keeps these pairs.
         With 10 there is half as much to gain; if it is few, asking s first costs nothing, and there is no gain.)
hot      a hot key appears after a third of the run, and moves twice
sizes    of two streams the small one becomes the large one
mix      ten queries over one chain.  First few s find a t, so that the join of s and t should be kept for all of them;
         then each s finds many t, but few find an r and few t a u, so that those joins should be kept
stable   nothing changes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

Random = np.random.Generator
Batch = dict[str, pa.Table]

CHAIN = """SELECT r.id AS ri, s.id AS si, t.id AS ti, u.id AS ui
           FROM s JOIN t ON s.b = t.b JOIN r ON r.a = s.a JOIN u ON t.c = u.c"""
PARTS = {
    "rs": "SELECT r.id AS ri, s.id AS si FROM r JOIN s ON r.a = s.a",
    "rst": "SELECT r.id AS ri, s.id AS si, t.id AS ti FROM s JOIN t ON s.b = t.b JOIN r ON r.a = s.a",
    "stu": "SELECT s.id AS si, t.id AS ti, u.id AS ui FROM s JOIN t ON s.b = t.b JOIN u ON t.c = u.c",
    "rstu": CHAIN,
}
KEYS = {"r": ("a",), "s": ("a", "b"), "t": ("b", "c"), "u": ("c",)}


@dataclass(frozen=True)
class Scenario:
    """Streams that change."""

    name: str
    queries: Mapping[str, str]
    window: int
    """Seconds."""
    phases: tuple[float, ...]
    """Where each phase begins, as a part of the run."""
    make: Callable[[Random, int, int, int], Batch]
    """Random source, second, phase and rows of a usual stream -> a batch."""

    def phase(self, at: int, batches: int) -> int:
        """The phase of a batch."""
        return sum(at >= begin * batches for begin in self.phases) - 1

    def batches(self, count: int, rows: int, seed: int = 1) -> list[Batch]:
        """The whole run."""
        random = np.random.default_rng(seed)
        return [self.make(random, at, self.phase(at, count), rows) for at in range(count)]


def chain(random: Random, at: int, rows: Mapping[str, int], values: Mapping[str, tuple[int, int]]) -> Batch:
    """A second of the chain; `values` says between which numbers the key of a stream lies."""
    made = {}
    for name, keys in KEYS.items():
        drawn = {key: random.integers(*values.get(f"{name}.{key}", values[key]), rows[name]) for key in keys}
        ids = at * 10_000_000 + np.arange(rows[name])
        made[name] = pa.table({**drawn, "id": ids, "ts": np.full(rows[name], at)})
    return made


def _orders(random: Random, at: int, phase: int, rows: int) -> Batch:
    wide, few = (0, rows * 10), (0, max(2, rows * 5 // 100))
    apart = (rows * 10, rows * 20)
    values = {"a": wide, "b": wide, "c": wide}
    if phase:
        values = {"a": few, "c": few, "b": wide, "t.b": apart}
    return chain(random, at, dict.fromkeys(KEYS, rows), values)


def _tiny(random: Random, at: int, phase: int, rows: int) -> Batch:
    slow = max(50, rows // 1000)
    counts = {"r": rows, "s": slow, "t": slow, "u": slow}
    some = (0, max(2, slow // 6))
    values = {"a": (0, rows * 10), "b": some, "c": some}
    if phase:
        values = {"a": (0, slow // 5), "b": some, "c": some, "s.b": (slow, slow * 2)}
    return chain(random, at, counts, values)


def _hot(random: Random, at: int, phase: int, rows: int) -> Batch:
    made = chain(random, at, dict.fromkeys(KEYS, rows), {"a": (0, rows * 5), "b": (0, rows * 5), "c": (0, rows * 5)})
    if phase:
        keys = made["r"].column("a").to_numpy().copy()
        keys[random.random(rows) < 0.5] = 17 * phase
        made["r"] = made["r"].set_column(0, "a", pa.array(keys))
    return {name: made[name] for name in ("r", "s")}


def _sizes(random: Random, at: int, phase: int, rows: int) -> Batch:
    counts = {"r": rows * 4, "s": rows // 8, "t": rows // 8, "u": 1}
    if phase:
        counts = {"r": rows // 8, "s": rows // 8, "t": rows * 4, "u": 1}
    made = chain(random, at, counts, {"a": (0, rows * 2), "b": (0, rows * 2), "c": (0, 10)})
    return {name: made[name] for name in ("r", "s", "t")}


def _mix(random: Random, at: int, phase: int, rows: int) -> Batch:
    count = rows // 5
    dense, rare = (0, max(2, count // 5)), (0, count * 2500)
    values = {"a": rare, "b": dense, "c": rare} if phase else {"a": dense, "b": rare, "c": dense}
    return chain(random, at, dict.fromkeys(KEYS, count), values)


def _stable(random: Random, at: int, _phase: int, rows: int) -> Batch:
    return chain(random, at, dict.fromkeys(KEYS, rows), dict.fromkeys("abc", (0, rows * 10)))


MIX = {
    f"{name}_{n}": f"{PARTS[name]} {chosen}".strip()
    for name, selections in {
        "rst": ("", "WHERE r.id >= 0", "WHERE t.id >= 0"),
        "stu": ("", "WHERE u.id >= 0", "WHERE s.id >= 0"),
        "rstu": ("", "WHERE r.id >= 0", "WHERE u.id >= 0", "WHERE r.id >= 0 AND u.id >= 0"),
    }.items()
    for n, chosen in enumerate(selections)
}
SCENARIOS = {
    made.name: made
    for made in (
        Scenario("orders", {"q": CHAIN}, 5, (0.0, 0.25), _orders),
        Scenario("tiny", {"q": CHAIN}, 5, (0.0, 0.25), _tiny),
        Scenario("hot", {"q": PARTS["rs"]}, 5, (0.0, 1 / 3, 0.55, 0.78), _hot),
        Scenario("sizes", {"q": PARTS["rst"]}, 5, (0.0, 0.4), _sizes),
        Scenario("mix", MIX, 5, (0.0, 0.4), _mix),
        Scenario("stable", {"q": CHAIN}, 5, (0.0,), _stable),
    )
}
