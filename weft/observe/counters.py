"""Counters: the one place where the numbers of a plan are named, added up, written and read.

A worker adds to them, the driver adds up those of all workers, a batch shows its own (`Progress`), a run the sum of its
batches (`RunReport`), a checkpoint keeps the sum of all (`Manifest.totals`), and explain puts that beside estimates.
All of these hold `Counters` or ask them; none has a list of counters of its own.  To add one: a line in `Counters`.

What must hold: every counter is a sum, so that parts can be added in any order.  Workers load this module, so it needs
the standard library only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

Counts = dict[str, int]
"""What is counted by -> how many."""

GONE, GONE_EDGES = "gone", "gone>"
"""What is counted for stores and nodes, and for edges, of plans that are gone."""


def bump(counter: Counts, key: str, by: int) -> None:
    """Add to a counter."""
    counter[key] = counter.get(key, 0) + by


@dataclass(frozen=True, slots=True)
class Counters:
    """What a plan did, counted as the papers count it.

    Stores and nodes (edges, probes, keeps) are named by their ids in the topology.  A key that is missing counts 0.
    `by` says what the keys of a counter name.
    """

    rows_in: Counts = field(default_factory=dict, metadata={"by": "stream"})
    """Rows read, before selections."""
    unreadable: Counts = field(default_factory=dict, metadata={"by": "stream"})
    """Records left out because they cannot be read as declared."""
    lost: Counts = field(default_factory=dict, metadata={"by": "stream"})
    """Records that were deleted before they were read."""
    untimed: Counts = field(default_factory=dict, metadata={"by": "stream"})
    """Rows dropped because their event time is NULL."""
    late: Counts = field(default_factory=dict, metadata={"by": "stream"})
    """Rows dropped because they were below the watermark."""
    stored: Counts = field(default_factory=dict, metadata={"by": "store"})
    """Rows ever stored, expired ones too."""
    probed: Counts = field(default_factory=dict, metadata={"by": "node"})
    """Tuples that came to a probe, copies counted: what the papers call tuples sent."""
    matched: Counts = field(default_factory=dict, metadata={"by": "node"})
    """Matches that a probe made."""
    sent: Counts = field(default_factory=dict, metadata={"by": "node"})
    """Tuples that went through the exchange to a node, copies counted."""
    routed: Counts = field(default_factory=dict, metadata={"by": "node"})
    """The same before copying."""
    messages: Counts = field(default_factory=dict, metadata={"by": "node"})
    """Messages that carried these tuples, many in each."""
    load: Counts = field(default_factory=dict, metadata={"by": "worker"})
    """Rows that a worker stored and tuples that it answered."""
    fetched: Counts = field(default_factory=dict, metadata={"by": "worker"})
    """Segments that a worker got from the depot, since its machine had no copy."""
    results: Counts = field(default_factory=dict, metadata={"by": "query"})
    """Results."""
    seconds: dict[str, float] = field(default_factory=dict, metadata={"by": "wave"})
    """Time that workers spent, added up over all of them; wave 0 reads the input."""

    # ------------------------------------------------------------------------------------ adding up

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add counters that come as plain data; other keys in it are ignored."""
        for name in COUNTERS:
            mine = getattr(self, name)
            for key, count in other.get(name, {}).items():
                mine[key] = mine.get(key, 0) + count

    def plain(self) -> dict[str, Any]:
        """The counters that are not empty, as JSON-able data."""
        return {name: counts for name in COUNTERS if (counts := getattr(self, name))}

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Counters:
        """Counters out of plain data."""
        read = Counters()
        read.merge(plain)
        return read

    @classmethod
    def total(cls, parts: Iterable[Counters]) -> Counters:
        """The sum of some counters."""
        whole = Counters()
        for part in parts:
            whole.merge(part.plain())
        return whole

    def fold(self, live: Collection[str]) -> Counters:
        """The same sums where stores and nodes that are not among the live ones are counted as one.

        A session whose plan changes every hour has thousands of nodes after a year, and few at a time.
        """
        whole = Counters()
        for name, by in COUNTERS.items():
            for key, count in getattr(self, name).items():
                gone = by in ("store", "node") and key not in live
                bump(getattr(whole, name), (GONE_EDGES if ">" in key else GONE) if gone else key, count)
        return whole

    # ----------------------------------------------------------------------------------- derived numbers

    @property
    def tuples_stored(self) -> int:
        """All rows ever stored: SCost, if nothing expires."""
        return sum(self.stored.values())

    @property
    def tuples_sent(self) -> int:
        """All probing tuples, copies counted: PCost."""
        return sum(self.probed.values())

    @property
    def replication(self) -> dict[str, float]:
        """Node -> ratio of sent to routed tuples: copies made of each."""
        return {node: count / self.routed[node] for node, count in self.sent.items() if self.routed.get(node)}

    @property
    def replication_factor(self) -> float:
        """Ratio of rows that workers got from streams to rows that streams gave (Squall 6); 1 for no rows."""
        edges = [node for node in self.sent if ">" in node]
        given = sum(self.routed[node] for node in edges)
        return sum(self.sent[node] for node in edges) / given if given else 1.0

    def skew_degree(self, workers: int) -> float:
        """Ratio of the load of the busiest worker to the average load (Squall 6); 1 for no load."""
        total = sum(self.load.values())
        return max(self.load.values()) * workers / total if total else 1.0

    @property
    def network_factor(self) -> float:
        """Ratio of tuples into and out of all workers to tuples into and out of the queries (Squall 6)."""
        onwards = sum(count for node, count in self.routed.items() if ">" not in node)
        results = sum(self.results.values())
        whole = sum(self.rows_in.values()) + results
        return (sum(self.sent.values()) + onwards + results) / whole if whole else 1.0


COUNTERS: Mapping[str, str] = {counter.name: counter.metadata["by"] for counter in fields(Counters)}
"""Name of every counter -> what it is counted by."""
