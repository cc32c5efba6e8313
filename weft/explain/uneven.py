"""The notice of uneven load, for plans that have run and for those that are running.

A batch is done when the fullest worker is.  What is said, and from where on, is the same in both places.
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
"""From which skew degree on it is told; the fullest worker of so many decides how long a batch takes."""
FEW = 1000
"""Tuples a worker, below which nothing is said of their spread."""
_HELPS = {
    True: "spreads frequent values",
    False: "deals rows in turn, whatever their values and their order, and copies more",
}


def is_uneven(counters: Counters, workers: int) -> bool:
    """Whether the fullest worker has far more to do than the average one."""
    return counters.skew_degree(workers) > UNEVEN and sum(counters.load.values()) >= FEW * workers


def uneven_load(
    counters: Counters, workers: int, choices: Sequence[Choice], seen: Callable[[], Statistics]
) -> Notice | None:
    """What to say of the load, with the scheme that would even it out by what was seen of the streams."""
    joins = [choice for choice in choices if len(choice.query.relations) > 1]
    if not joins or not is_uneven(counters, workers):
        return None
    fullest, total = max(counters.load, key=lambda w: (counters.load[w], w)), sum(counters.load.values())
    found = cure(joins[0], seen(), UNEVEN)
    hybrid = found.strategy == HYBRID
    given = ", statistics=s.observed()" if hybrid else ""
    return Notice(
        "uneven-load",
        f"worker {fullest} has {counters.skew_degree(workers):.1f} times the work of the average worker",
        f"it stored and answered {number(counters.load[fullest])} of {number(total)} tuples; "
        f'with strategy "{found.strategy}" the fullest is expected to have {found.skew_degree:.1f} times the average.',
        f"it {_HELPS[hybrid]}; start from an empty checkpoint, which lets the strategy change.",
        f's.query("{joins[0].name}", sql, strategy="{found.strategy}"{given})',
    )
