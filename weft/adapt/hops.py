"""What probes really did: the share of pairs that join, for pairs of aliases that today's plan asks about.

A probe that many tuples made says exactly how many partners they have.  Where the tuples so far and the rows of the
store are connected by the predicates of one pair of aliases, that is the share of the pair:

    share = matches / (tuples * rows that could match)

Of the rows of its own batch, a tuple meets those that came before it: half of them, on average.

A probe that rows make first says it of all rows.  Tuples that have found partners before say it of rows that have such
partners: other rows may have more or fewer, and other plans ask them too.  So both are told apart.

What must hold: nothing is said where the numbers mean something else: in cubes, where a tuple is on several workers,
in stores that hold counts instead of rows, and in queries in which only some aliases have windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from weft.adapt.gathering import Gathering
from weft.optimizer.cost.estimate import estimate
from weft.query.model import Query
from weft.stats.given import Pair
from weft.stats.model import Statistics
from weft.stats.names import Names, between
from weft.topology.model import Topology
from weft.topology.node import Probe

FEW = 1000.0
"""With fewer pairs than this nothing is said."""


_Sum = tuple[float, float]
"""Matches, and pairs that were compared."""


class Hops(NamedTuple):
    """Shares of pairs."""

    first: Mapping[Pair, float]
    """By probes that all rows make."""
    later: Mapping[Pair, float]
    """By probes that only tuples make which have found other partners."""


class _Hop(NamedTuple):
    """What a probe did."""

    pair: Pair
    matched: float
    pairs: float
    """That were compared."""
    first: bool
    """Whether all rows of both aliases took part."""


def measure_hops(
    plan: Topology,
    queries: Mapping[str, Query],
    names: Names,
    known: Statistics,
    gathered: Gathering,
) -> Hops:
    """The shares of pairs, from what probes did; `known` says how many rows the windows hold."""
    first: dict[Pair, _Sum] = {}
    later: dict[Pair, _Sum] = {}
    for name, query in queries.items():
        if name in plan.emit_of and _is_plain(query):
            for hop in _hops(plan, name, query, known, gathered):
                if names.is_one_pair(query, *hop.pair):
                    sums = first if hop.first else later
                    before = sums.get(hop.pair, (0.0, 0.0))
                    sums[hop.pair] = before[0] + hop.matched, before[1] + hop.pairs
    return Hops(_shares(first), {pair: share for pair, share in _shares(later).items() if pair not in first})


def _shares(sums: Mapping[Pair, _Sum]) -> dict[Pair, float]:
    # What was never found among many pairs is rare, not impossible: streams go on.
    return {pair: min(1.0, max(0.5, found) / pairs) for pair, (found, pairs) in sums.items() if pairs >= FEW}


def _is_plain(query: Query) -> bool:
    windowed = {r.window is not None for r in query.relations if not r.stream.table}
    return len(query.relations) > 1 and len(windowed) == 1


def _hops(plan: Topology, name: str, query: Query, known: Statistics, gathered: Gathering) -> Iterator[_Hop]:
    """Each probe that decides about one pair."""
    alias, sizes = plan.aliases_of(name), estimate(query, known)
    for probe, covered in _walk(plan, name):
        store, counters = plan.store(probe.store), gathered.counters
        if store.counted or store.spread is not None or probe.folds:
            continue
        ends = _ends(query, [alias[label] for label in covered], [alias[label] for label in probe.members])
        if ends is None:
            continue
        copies = probe.tasks if probe.route == "broadcast" else 1
        tuples, held = counters.probed.get(probe.id, 0) / copies, gathered.held(probe.store)
        if len(probe.members) == 1:
            held = min(held, sizes.relations[query.position(ends[1])].size)
        earlier = held - gathered.stored(probe.store) / 2
        pair, matched = (min(ends), max(ends)), counters.matched.get(probe.id, 0)
        yield _Hop(pair, matched, tuples * max(0.0, earlier), len(covered) + len(probe.members) == 2)


def _ends(query: Query, here: Sequence[str], there: Sequence[str]) -> tuple[str, str] | None:
    """The one pair of aliases whose predicates connect two sides; None if there are several, or none."""
    found = [(a, b) for a in here for b in there if between(query, a, b)]
    return found[0] if len(found) == 1 else None


def _walk(plan: Topology, query: str) -> Iterator[tuple[Probe, tuple[str, ...]]]:
    """The probes of a query, each with the labels of the tuples that come to it; not of tuples that are copied."""
    probes = {probe.id: probe for probe in plan.probes if query in probe.users}
    copied = {name for edge in plan.edges if edge.route in ("spread", "broadcast") for name in edge.starts}
    for start in (start for start in plan.starts if start.id not in copied):
        waiting: list[tuple[str, tuple[str, ...]]] = [(name, (start.label,)) for name in start.then]
        while waiting:
            name, covered = waiting.pop()
            if (probe := probes.get(name)) is not None:
                yield probe, covered
                waiting += [(then, (*covered, *probe.members)) for then in probe.then]
