"""The numbers a plan was chosen by, and which of them are assumed.

To find out, everything is estimated again with other defaults: an estimate that changes depends on a default.
"""

from __future__ import annotations

from weft.explain.pages.candidates import InputNumbers, PairNumbers
from weft.optimizer.choose import Choice
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.graph.joingraph import JoinGraph
from weft.stats.model import Defaults, Statistics

_OTHER_DEFAULTS = Defaults(
    rows=10_007.0, width=101.0, equality=0.0991, band=0.2411, inequality=0.3307, other=0.4903, selection=0.9973
)
"""Numbers that nobody would assume; their products differ from those of the real ones."""


def inputs(choice: Choice) -> tuple[InputNumbers, ...]:
    """The sizes that were used for the aliases."""
    other = _with_other_defaults(choice)
    timed = choice.model.arrival == "window"
    return tuple(
        InputNumbers(
            relation.alias, relation.stream.name, base.size, base.rate if timed else None, base.size != changed.size
        )
        for relation, base, changed in zip(
            choice.query.relations, choice.model.graph.relations, other.relations, strict=True
        )
    )


def pairs(choice: Choice) -> tuple[PairNumbers, ...]:
    """The selectivities that were used for the predicates between two aliases."""
    other = _with_other_defaults(choice)
    found = zip(choice.model.graph.edges, other.edges, strict=True)
    names = choice.query.aliases
    return tuple(PairNumbers((names[i], names[j]), share, share != changed) for (i, j, share), (_, _, changed) in found)


def _with_other_defaults(choice: Choice) -> JoinGraph:
    return estimate(choice.query, choice.known.statistics or Statistics(), defaults=_OTHER_DEFAULTS)
