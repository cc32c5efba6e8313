"""What the sources of a session say before a run: how much there is, and statistics of samples.

What must hold: what was given by hand wins.  A source that cannot be sampled, as a Spark DataFrame, stays unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import WeftError
from weft.expr.evaluate import Functions
from weft.host.sources.source import Source
from weft.query.model import Query, Stream
from weft.stats.analyze import Sample, analyze
from weft.stats.model import Statistics
from weft.stats.wanted import needed_columns

GLANCE = 20_000
"""Rows of each stream that are looked at when a plan is chosen and nobody has given or measured statistics."""


@dataclass(frozen=True)
class Inputs:
    """Streams with their sources, and the functions that queries may call on their rows."""

    streams: Mapping[str, Stream]
    sources: Mapping[str, Source]
    functions: Functions

    def sizes(self) -> dict[str, float]:
        """How much lies there now of each stream, as far as sources can tell."""
        found = {name: source.size() for name, source in self.sources.items()}
        return {name: size for name, size in found.items() if size is not None}

    def measure(self, queries: Sequence[Query], given: Statistics, sample: int, seed: int = 0) -> Statistics:
        """Statistics for queries, from at most `sample` rows of each stream."""
        drawn = {name: self._sample(name, queries, sample, seed) for name in self.sources}
        samples = {name: found for name, found in drawn.items() if found is not None}
        return analyze(self.streams, samples, queries, self.functions, given, seed).merge(given)

    def glance(self, queries: Sequence[Query], given: Statistics) -> Statistics | None:
        """A quick look for queries whose plan has to be chosen without statistics.

        A stream that cannot be read yet, or holds nothing, says nothing; then nothing is assumed of any.
        """
        try:
            found = self.measure(queries, given, GLANCE)
        except WeftError:
            return None  # the run will say what is wrong
        streams = {relation.stream.name for query in queries for relation in query.relations}
        return found if all(found.rows(name) for name in streams) else None

    def _sample(self, name: str, queries: Sequence[Query], most: int, seed: int) -> Sample | None:
        stream = self.streams[name]
        return self.sources[name].sample(stream, needed_columns(stream, queries), most, seed)
