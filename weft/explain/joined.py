"""Which estimates of joins a run has put to the test.

A result is made by the last of its rows.  So the matches of one probe depend on the order in which the streams came: if
all orders came before all lines, a probe of lines by orders has found nothing, and no estimate is wrong.  Two things do
not depend on that order: the results of a query, and how many combinations of some of its aliases were made, where
each of these aliases looks for the others first.  They are compared, and only if all streams of the query have come.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.explain.expected import is_mixed
from weft.explain.figures import Figures
from weft.explain.pages.figure import Figure
from weft.explain.words import join_names
from weft.optimizer.choose import Choice
from weft.topology.node import Probe

MOST_OF_IT = 0.5
"""A stream has come if this share of its expected rows has."""


def has_come(choice: Choice, figures: Figures) -> bool:
    """Whether all streams of a query have come as far as the estimates say, or as far as each other."""
    known, measured = choice.known.statistics, figures.measured
    if known is None or measured is None:
        return False
    timed = choice.model.arrival == "window"
    ask = known.rate if timed else known.rows
    streams = {relation.stream.name for relation in choice.query.relations if not (timed and relation.stream.table)}
    shares = [
        measured.counters.rows_in.get(name, 0) / expected if (expected := ask(name)) else 0.0
        for name in sorted(streams)
    ]
    return min(shares) > 0 and min(shares) >= MOST_OF_IT * (max(shares) if timed else 1.0)


def joined(choice: Choice, figures: Figures) -> Iterator[tuple[str, Figure]]:
    """The combinations of aliases that every one of them leads to: expected and made, over all of them."""
    aliases = choice.query.aliases
    if len(aliases) < 2:
        return
    if is_mixed(choice):
        yield f"of {choice.name}", figures.results(choice)
        return
    for members, (starts, parts) in _reached(choice, figures).items():
        if starts == members:
            estimates = [part.estimated for part in parts if part.estimated is not None]
            counts = [part.measured for part in parts if part.measured is not None]
            if len(estimates) == len(counts) == len(parts):
                names = join_names([alias for alias in aliases if alias in members])
                yield f"of {names} in {choice.name}", Figure("matches", sum(estimates), sum(counts))


def _reached(choice: Choice, figures: Figures) -> dict[frozenset[str], tuple[frozenset[str], list[Figure]]]:
    """Aliases that were joined -> the aliases whose rows began that, and the matches of the probes that ended it."""
    called = figures.topology.aliases_of(choice.name)
    found: dict[frozenset[str], tuple[frozenset[str], list[Figure]]] = {}
    seen: set[tuple[str, str]] = set()
    for alias in choice.query.aliases:
        for way in figures.ways(choice, alias):
            reached = frozenset({alias})
            for probe in (node for node in way if isinstance(node, Probe)):
                reached |= {called[label] for label in probe.members}
                if (alias, probe.id) not in seen:
                    seen.add((alias, probe.id))
                    starts, parts = found.get(reached, (frozenset(), []))
                    found[reached] = starts | {alias}, [*parts, figures.matches(choice, probe)]
    return found
