"""The scheme that would even out the load of a running plan, by what its streams have shown.

If there are frequent values and the hybrid cube makes their load even, that cube is the cure.  Where keys are even over
the whole run but workers are not, either rows come in the order of their keys, or the frequent values changed during
the run.  Then only a scheme that does not look at values helps (Squall 5).
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.optimizer.choose import Choice
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cubes.plan import CubeKeys
from weft.stats.model import Statistics

HYBRID, RANDOM = "hypercube:hybrid", "hypercube:random"


@dataclass(frozen=True, slots=True)
class Cure:
    """A strategy, and how even it is expected to be."""

    strategy: str
    skew_degree: float


def cure(choice: Choice, seen: Statistics, enough: float) -> Cure:
    """The strategy to change to; a skew degree of `enough` counts as even."""
    statistics = (choice.known.statistics or Statistics()).merge(seen)
    workers = choice.chosen.ways.workers
    keys = CubeKeys(
        choice.query, estimate(choice.query, statistics), statistics, choice.wishes.skewed, choice.known.prices
    )
    hybrid = keys.plan(HYBRID, workers)
    uneven = any(float(skew.slots(workers).max()) * workers > enough for skew in keys.skews.values())
    helps = uneven and hybrid.skew_degree <= enough and hybrid.spread != choice.chosen.layout.spread
    best = hybrid if helps else keys.plan(RANDOM, workers)
    return Cure(HYBRID if helps else RANDOM, best.skew_degree)
