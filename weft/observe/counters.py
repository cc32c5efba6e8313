"""What a plan did, counted as the papers count it.

A node is an edge (rows of a stream), a probe, or a keep, by its id in the topology; `explain(analyze=True)` prints the
numbers where they belong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Counters:
    """Sums over batches and workers."""

    stored: Mapping[str, int] = field(default_factory=dict)
    """Store -> rows ever stored, expired ones too."""
    probed: Mapping[str, int] = field(default_factory=dict)
    """Probe -> tuples that came to look, copies counted: what the papers call tuples sent."""
    matched: Mapping[str, int] = field(default_factory=dict)
    """Probe -> matches it made."""
    sent: Mapping[str, int] = field(default_factory=dict)
    """Node -> tuples that went through the exchange to it, copies counted."""
    routed: Mapping[str, int] = field(default_factory=dict)
    """Node -> the same before copying."""
    messages: Mapping[str, int] = field(default_factory=dict)
    """Node -> payloads of many tuples that carried them."""
    load: Mapping[str, int] = field(default_factory=dict)
    """Worker -> rows it stored and tuples it answered; a worker without any is missing."""
    rows_in: Mapping[str, int] = field(default_factory=dict)
    """Stream -> rows read, before selections."""
    results: Mapping[str, int] = field(default_factory=dict)
    """Query -> results."""

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
        """Node -> copies of each tuple that were sent to it."""
        return {node: count / self.routed[node] for node, count in self.sent.items() if self.routed.get(node)}

    @property
    def replication_factor(self) -> float:
        """Rows that workers got from streams by rows that streams gave (Squall 6); 1 for no rows."""
        edges = [node for node in self.sent if ">" in node]
        given = sum(self.routed[node] for node in edges)
        return sum(self.sent[node] for node in edges) / given if given else 1.0

    def skew_degree(self, workers: int) -> float:
        """Load of the fullest worker by the average load (Squall 6); 1 for no load."""
        total = sum(self.load.values())
        return max(self.load.values()) * workers / total if total else 1.0

    @property
    def network_factor(self) -> float:
        """What went into and out of all workers by what went into and came out of the queries (Squall 6)."""
        onwards = sum(count for node, count in self.routed.items() if ">" not in node)
        results = sum(self.results.values())
        whole = sum(self.rows_in.values()) + results
        return (sum(self.sent.values()) + onwards + results) / whole if whole else 1.0

    @classmethod
    def of(cls, report: Any) -> Counters:
        """Counters out of anything that has these mappings, as attributes or by name."""
        named = report if isinstance(report, Mapping) else {f.name: getattr(report, f.name) for f in fields(cls)}
        return cls(**{f.name: dict(named.get(f.name, {})) for f in fields(cls)})

    @classmethod
    def total(cls, parts: Iterable[Counters]) -> Counters:
        """The sum of some counters."""
        sums: dict[str, dict[str, int]] = {f.name: {} for f in fields(cls)}
        for part in parts:
            for name, into in sums.items():
                for key, count in getattr(part, name).items():
                    into[key] = into.get(key, 0) + count
        return cls(**sums)
