"""The numbers a plan was chosen by, and where each is from: given, measured in this checkpoint, sampled or assumed.

To find out, everything is estimated again with other defaults: an estimate that changes depends on a default.  One that
does not change with what was given alone is given; the same for what the checkpoint has measured.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.explain.pages.candidates import AskedNumbers, InputNumbers, PairNumbers
from weft.optimizer.choose import Choice
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.layout import names
from weft.stats.model import DEFAULTS, Defaults, Statistics

_OTHER_DEFAULTS = Defaults(
    rows=10_007.0, width=101.0, equality=0.0991, band=0.2411, inequality=0.3307, other=0.4903, selection=0.9973
)
"""Numbers that nobody would assume; their products differ from those of the real ones."""


ASSUMED = "assumed"


def inputs(choice: Choice) -> tuple[InputNumbers, ...]:
    """The sizes that were used for the aliases."""
    timed, found = choice.model.arrival == "window", _sources(choice, lambda graph: [r.size for r in graph.relations])
    return tuple(
        InputNumbers(
            relation.alias,
            relation.stream.name,
            base.size,
            base.rate if timed else None,
            source == ASSUMED,
            source,
        )
        for relation, base, source in zip(choice.query.relations, choice.model.graph.relations, found, strict=True)
    )


def pairs(choice: Choice) -> tuple[PairNumbers, ...]:
    """The selectivities that were used for the predicates between two aliases."""
    found = _sources(choice, lambda graph: [share for _, _, share in graph.edges])
    names, edges = choice.query.aliases, choice.model.graph.edges
    return tuple(
        PairNumbers((names[i], names[j]), share, source == ASSUMED, source)
        for (i, j, share), source in zip(edges, found, strict=True)
    )


def asked(choice: Choice) -> tuple[float | None, tuple[AskedNumbers, ...]]:
    """How many subscriptions there are, and what tuples leave of them."""
    known = choice.maker.asking
    if known is None:
        return None, ()
    query = choice.maker.query
    sets = sorted(known.wanted, key=lambda some: (some.bit_count(), some))
    return known.count, tuple(AskedNumbers(names(query, s), known.reach(s), known.matches(s)) for s in sets)


def _sources(choice: Choice, ask: Callable[[JoinGraph], list[float]]) -> list[str]:
    """Where each of some numbers is from."""
    known = choice.known
    ways = [("given", known.given), ("measured in this checkpoint", known.measured), ("sampled", known.statistics)]
    found = {said: _is_known(choice, statistics, ask) for said, statistics in ways if statistics is not None}
    count = len(ask(choice.model.graph))
    return [next((said for said, settled in found.items() if settled[i]), ASSUMED) for i in range(count)]


def _is_known(choice: Choice, statistics: Statistics, ask: Callable[[JoinGraph], list[float]]) -> list[bool]:
    """Which numbers do not depend on defaults, with some statistics alone."""
    one, other = (ask(estimate(choice.query, statistics, defaults=chosen)) for chosen in (DEFAULTS, _OTHER_DEFAULTS))
    return [a == b for a, b in zip(one, other, strict=True)]
