"""Whether another plan pays: both are priced by the same statistics, and the switch by what it has to move.

    gain     the part of the work that the other plan is predicted to save
    cost     seconds to read, send and store what the other plan cannot take over
    switch   if the plan differs, gain > threshold (K-15), and what is saved in the coming epochs exceeds the cost

Statistics come from samples, so a gain has an error of its own.  It is found by leaving out each quarter of the samples
in turn and looking how much the gain moves (the delete-a-group jackknife):

    error^2 = (G - 1) / G * sum of (gain without group i - their mean)^2,   G groups
    switch only if   gain - 2 error > threshold

So that plans do not flap, another switch within ten epochs must save a quarter of the work by the statistics of
each of the last three.  If streams are as they never were in the epochs before the last switch, they have not gone back
to what they were but have changed once more: then half of the work, by the newest statistics, is enough.
A plan that spreads values which are frequent no more costs as much as one that does not.  The simpler one is taken, if
that is so by the statistics of ten epochs, and to move costs less than a tenth of their work.
State that has outgrown the budget is different: then the plan that fits is taken at once, whatever it costs.

What must hold: what a user asked for is kept.  A plan by hand is never changed, and one by the name of a strategy only
within it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.adapt.gathering import Gathering
from weft.errors import PlanError, WeftError
from weft.optimizer.choose import Choice
from weft.optimizer.joint.together import price_together
from weft.optimizer.plan import Sharing, choices
from weft.optimizer.written.plan import Plan, write
from weft.query.derived import is_hidden
from weft.stats.drawn import Part
from weft.stats.model import Statistics
from weft.topology.model import Topology
from weft.topology.spread import Cube

FEW = 1000
"""With fewer rows in an epoch than this nothing is decided."""
COMING = 10
"""So many epochs are taken to be like the last one."""
PATIENCE = 3
"""By the statistics of so many epochs a plan must pay if the last change is less than `COMING` epochs ago."""


MUCH = 0.25
"""And it must save so much by each of them."""
LARGE = 0.5
"""So much is enough at once, if streams are not again as they were before the last change."""
SAME = 0.1
"""Plans whose prices differ by less are taken to cost the same, if one of them is simpler."""
GROUPS = 4
"""Parts of samples that are left out in turn."""
SURE = 2.0
"""By so many errors a gain must exceed the threshold."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided, and why."""

    why: str
    gain: float | None = None
    """The part of the work that the best plan saves; None if there is no other."""
    cost: float | None = None
    """Seconds of the switch, as predicted."""
    plans: int = 0
    """How many plans were weighed."""
    saves: float = 0.0
    """The part of the time of a batch that the best plan saves: there is time in which no worker works."""
    pays: bool = False
    forced: bool = False
    simpler: bool = False
    """Whether the other plan is taken though it saves nothing, since it does the same with less."""
    at_once: bool = False
    """However short a while ago the plan was changed."""
    stays: bool = False
    """Whether the plan that runs is the best one, or hardly any other is better."""
    found: tuple[Choice, ...] | None = None
    """The plan to switch to, if that pays."""


@dataclass(frozen=True)
class Asked:
    """What a plan must save."""

    threshold: float
    squeeze: float = 1.0
    """The part of the budget that plans may be estimated to fill, where estimates were too low before."""
    earlier: Sequence[Statistics] = ()
    """By these statistics of earlier epochs it must save much, too."""
    calm: Sequence[Statistics] = ()
    """Those of the last ten epochs, if the plan did not change in them."""
    quick: bool = False
    """If it saves a large part, the earlier epochs do not count."""


@dataclass(frozen=True)
class Situation:
    """What runs now."""

    chosen: tuple[Choice, ...]
    plan: Topology
    workers: int
    sharing: Sharing
    assemble: Callable[[tuple[Choice, ...]], Topology]
    """The plan that other choices make."""
    cost: Callable[[Topology], float]
    """Seconds that a switch to a plan takes."""


def decide(
    now: Situation,
    known: Statistics,
    gathered: Gathering,
    asked: Asked,
    without: Callable[[Part], Statistics] | None = None,
) -> Verdict:
    """Whether another plan pays, by the statistics of an epoch, and by those of some earlier ones.

    `without` gives the statistics of the epoch without a part of its samples.
    """
    if gathered.rows < FEW:
        return Verdict(f"{gathered.rows:,} rows are too few to tell")
    if all(isinstance(choice.wishes.strategy, Plan) for choice in now.chosen):
        return Verdict("all plans are by hand")
    over = overfull(now.chosen, gathered)
    try:
        kept = choose_again(now, known, gathered, made=True)
        found = choose_again(now, known, gathered, budget=min(over, asked.squeeze))
    except PlanError:
        found = choose_again(now, known, gathered, strategy="flat")  # the inputs alone exceed the budget
    except WeftError as error:
        return Verdict(f"no plan was found: {error.message}")
    verdict = _weigh(now, kept, found, gathered, asked.threshold, forced=over < 1.0)
    if not verdict.pays or verdict.forced or verdict.gain is None:
        return verdict
    rival = _Rival(now, found, gathered)
    if verdict.simpler:
        calm = len(asked.calm) >= COMING and all(rival.gain(known) >= -SAME for known in asked.calm)
        return verdict if calm else replace(verdict, pays=False, found=None, why=f"{verdict.why}, if they stay so")
    doubt = 0.0 if without is None else SURE * rival.error(without)
    if verdict.gain - doubt <= asked.threshold:
        return replace(verdict, pays=False, found=None, why=f"{verdict.why}, give or take {doubt:.0%} by chance")
    if asked.quick and verdict.gain - doubt > LARGE:
        return replace(verdict, at_once=True)
    if any(rival.gain(known) <= max(asked.threshold, MUCH) for known in asked.earlier):
        return replace(verdict, pays=False, found=None, why=f"{verdict.why}, but not in the epochs before")
    return verdict


@dataclass(frozen=True)
class _Rival:
    """Plans that may replace those that run now."""

    now: Situation
    found: tuple[Choice, ...]
    gathered: Gathering

    def gain(self, known: Statistics) -> float:
        """The part of the work that they save by some statistics."""
        then = replace(self.now, chosen=self.found)
        before, after = (price(choose_again(which, known, self.gathered, made=True)) for which in (self.now, then))
        return 1 - after / before if before else 0.0

    def error(self, without: Callable[[Part], Statistics]) -> float:
        """The standard error of the gain, as far as it comes from samples."""
        gains = [self.gain(without((group, GROUPS))) for group in range(GROUPS)]
        return math.sqrt((GROUPS - 1) * statistics.pvariance(gains))


def _weigh(
    now: Situation,
    kept: tuple[Choice, ...],
    found: tuple[Choice, ...],
    gathered: Gathering,
    threshold: float,
    *,
    forced: bool,
) -> Verdict:
    plans = sum(len(choice.candidates) for choice in found)
    plan = now.assemble(found)
    if plan == now.plan:
        return Verdict(
            "the plan is the best one" + (" that fits the budget" if forced else ""), plans=plans, stays=not forced
        )
    before, after = price(kept), price(found)
    gain, cost = 1 - after / before if before else 0.0, now.cost(plan)
    busiest = _busiest(gathered, now.workers)
    saves = max(0.0, gain) * min(1.0, busiest / gathered.seconds) if gathered.seconds else 0.0
    made = Verdict("", gain, cost, plans, saves, found=found)
    if forced:
        return replace(
            made, why="state has outgrown its budget: joins are given up", pays=True, forced=True, at_once=True
        )
    if -SAME <= gain <= threshold and _spread_values(plan) < _spread_values(now.plan):
        return _unite(made, COMING * SAME * busiest)
    if gain <= threshold:
        why = f"the best other plan saves {gain:.0%}, not more than {threshold:.0%}"
        return replace(made, why=why, stays=gain <= threshold / 2, found=None)
    saved = COMING * max(gain * busiest, (before - after) * _spans(kept, gathered))
    if saved <= cost:
        said = f"another plan saves {saved:.2f} s in {COMING} epochs; to switch costs {cost:.2f} s"
        return replace(made, why=said, found=None)
    return replace(made, why=f"another plan saves {gain:.0%}, to switch costs {cost:.2f} s", pays=True)


def _unite(made: Verdict, worth: float) -> Verdict:
    """Values that are frequent no more are treated like all others again, if that costs little."""
    why = "values that were frequent are so no more: they are united"
    if made.cost is not None and made.cost > worth:
        return replace(made, why=f"{why} when it costs less than {made.cost:.2f} s", found=None)
    return replace(made, why=why, pays=True, simpler=True)


def _spread_values(plan: Topology) -> int:
    """How many frequent values a plan spreads."""
    cubes = (store.spread for store in plan.stores if isinstance(store.spread, Cube))
    return sum(len(axis.heavy) for cube in cubes for axis in cube.axes)


def _busiest(gathered: Gathering, workers: int) -> float:
    """Seconds that the busiest worker worked in an epoch: batches wait for it."""
    return gathered.work / workers * gathered.counters.skew_degree(workers)


def _spans(chosen: Sequence[Choice], gathered: Gathering) -> float:
    """How often an epoch has the span that plans are priced for: a second of events, or all rows so far."""
    if all(choice.model.arrival == "window" for choice in chosen):
        return gathered.events / 1e6
    total = 0 if gathered.last is None else sum(gathered.last.total.values())
    return gathered.rows / total if total else 0.0


def patience(epoch: int, switched: int | None) -> int:
    """By the statistics of how many epochs a plan must pay, if the plan was last changed in some epoch."""
    return 1 if switched is None or epoch - switched >= COMING else PATIENCE


def price(chosen: Sequence[Choice]) -> float:
    """Predicted seconds of plans."""
    return price_together(chosen)


def choose_again(
    now: Situation,
    known: Statistics,
    gathered: Gathering,
    *,
    made: bool = False,
    budget: float = 1.0,
    strategy: str | None = None,
) -> tuple[Choice, ...]:
    """The best plans by new statistics, or those that run now with the prices that these give them."""
    rows = max(1.0, gathered.rows / max(1, gathered.batches))
    facts = {
        choice.name: replace(
            choice.known,
            statistics=known,
            batch_rows=rows,
            measured=known,
            made=write(choice.query, choice.chosen.layout) if made else None,
        )
        for choice in now.chosen
    }
    asked = {choice.name: choice.wishes for choice in now.chosen}
    wishes = {name: replace(wish, budget=wish.budget * budget) for name, wish in asked.items()}
    if strategy is not None:
        wishes = {name: replace(wish, strategy=strategy, budget=math.inf) for name, wish in asked.items()}
    queries = {choice.name: choice.query for choice in now.chosen}
    found = choices(queries, now.workers, wishes, facts, now.sharing)
    return tuple(replace(choice, wishes=asked[choice.name]) for choice in found)


def overfull(chosen: Sequence[Choice], gathered: Gathering) -> float:
    """By what the budget has to be multiplied so that a plan which is estimated to fit does fit; 1 if state fits.

    A budget is for each query; state is shared, so all of it is compared with all budgets together.
    """
    asked = [choice for choice in chosen if not is_hidden(choice.name)]
    if gathered.last is None or any(math.isinf(choice.wishes.budget) for choice in asked):
        return 1.0
    budget = sum(choice.wishes.budget for choice in asked)
    held = gathered.last.bytes if asked[0].wishes.unit == "bytes" else sum(gathered.last.held.values())
    if held <= budget:
        return 1.0
    expected = sum(choice.maker.storage(choice.chosen) for choice in chosen)
    return max(1e-3, min(0.99, expected / held))
