"""The notice of uneven load, for plans that have run and for those that are running.

A batch ends when its busiest worker ends.  The words and the limit are the same in both places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.explain.words import number
from weft.observe.counters import Counters
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.optimizer.cure import HYBRID, cure
from weft.stats.model import Statistics

UNEVEN = 1.5
"""The notice is given above this skew degree."""
FEW = 1000
"""With fewer tuples per worker than this no notice is given."""
_HELPS = {
    True: "spreads frequent values",
    False: "deals rows to workers in turn, whatever their values and order, and makes more copies",
}


def is_uneven(counters: Counters, workers: int) -> bool:
    """Whether the busiest worker has far more to do than the average one."""
    return counters.skew_degree(workers) > UNEVEN and sum(counters.load.values()) >= FEW * workers


def uneven_load(
    counters: Counters, workers: int, choices: Sequence[Choice], seen: Callable[[], Statistics]
) -> Notice | None:
    """The notice, if one is due, with the strategy that would even out the load of streams like those seen."""
    joins = [choice for choice in choices if len(choice.query.relations) > 1]
    if not joins or not is_uneven(counters, workers):
        return None
    busiest, total = max(counters.load, key=lambda w: (counters.load[w], w)), sum(counters.load.values())
    found = cure(joins[0], seen(), UNEVEN)
    hybrid = found.strategy == HYBRID
    given = ", statistics=s.observed()" if hybrid else ""
    return Notice(
        "uneven-load",
        f"worker {busiest} has {counters.skew_degree(workers):.1f} times the work of the average worker",
        f"it stored and answered {number(counters.load[busiest])} of {number(total)} tuples; "
        f'with strategy "{found.strategy}" the busiest is expected to have {found.skew_degree:.1f} times the average.',
        f"it {_HELPS[hybrid]}; the state moves to the new plan, also while the session runs.",
        f's.options(strategy="{found.strategy}"{given})',
    )
