"""Rows of streams that have come to a worker in a wave, until they are stored and start.

What must hold: the order of rows does not depend on the order in which envelopes come, so a batch that is run again
writes the same segments.
"""

from __future__ import annotations

from collections import defaultdict

from weft.host.envelope import Envelope, Frame, gather
from weft.host.state.compaction import MOST_BYTES
from weft.topology.model import Topology


class Arrived:
    """Rows by the edges that brought them."""

    def __init__(self, topology: Topology) -> None:
        self.edges = topology.edge_by_id
        self._rows: dict[str, list[tuple[int, Frame]]] = defaultdict(list)

    def take(self, envelope: Envelope, wave: int) -> bool:
        """Take an envelope if it brings rows that are stored in this wave."""
        edge = self.edges.get(envelope.edge)
        if edge is None or edge.wave != wave:
            return False
        self._rows[edge.id].append((envelope.seq, envelope.frame))
        return True

    def pop(self) -> dict[str, list[Frame]]:
        """All rows that have come, by edge."""
        rows, self._rows = self._rows, defaultdict(list)
        return {edge: gather(_sort(rows.pop(edge)), MOST_BYTES) for edge in sorted(rows)}


def _sort(found: list[tuple[int, Frame]]) -> list[Frame]:
    return [frame for _, frame in sorted(found, key=lambda entry: entry[0])]
