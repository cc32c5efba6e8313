"""What it costs to ask subscriptions, and how many tuples that ends.

    question   before a hop: is a subscription left by the dimensions that the tuple knows?  It ends at the first one.
    search     at the end: which subscriptions does a joined tuple meet?

Both go through sets of subscriptions (`weft.kernels.bitsets`): a bit of the upper level stands for a word of 64, so one
step in one dimension passes over a group of 4,096.  Prices are in terms of those of the host, so that a slower machine
is slower in everything: `probed` for what a tuple needs whatever there is, `checked` times a number for each step.
These numbers were fitted to the kernel with 10,000 to 500,000 subscriptions and 2 to 10 dimensions.

How many tuples a question ends, and how many subscriptions are left, comes from statistics (`weft.stats.subscribed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.optimizer.cost.prices import Prices
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.stats.subscribed import left_text, wanted_text
from weft.topology.dimensions import divide

GROUP = 4096.0
"""Subscriptions that one step of the upper level passes over."""
STEP = 0.5
"""Such a step in one dimension, in terms of the price of a pair that is checked."""
WORD = 0.6
"""A word that is not 0, in one dimension."""
ALIKE = 8.0
"""Subscriptions in such a word: those that are alike are neighbours."""
FOUND = 3.0
"""A subscription that is found, in one dimension: its word, words beside it that are 0 at last, and its ends."""
LONG = 5
"""From this many join results a tuple on, the dimensions of the tuple are combined once for all of them."""
TURNED = 0.4
"""A subscription that the tuple leaves, compared with up to 64 of its join results, in one dimension."""
RUN = 64.0
GIVEN = 0.9
"""A subscription that is found in this way, in one dimension."""


@dataclass(frozen=True, slots=True)
class Asking:
    """The subscriptions of a query, as far as they are known."""

    count: float
    dimensions: Mapping[int, int]
    """Relations -> how many dimensions are of exactly these."""
    wanted: Mapping[int, float]
    """Relations -> share of the tuples over them for which a subscription is left."""
    left: Mapping[int, float]
    """Relations -> share of the subscriptions that such a tuple leaves, on average."""

    def known(self, covered: int) -> int:
        """How many dimensions a tuple over some relations knows."""
        return sum(count for members, count in self.dimensions.items() if members & ~covered == 0)

    def reach(self, covered: int) -> float:
        """The share of tuples over some relations that somebody may want."""
        return self.wanted[covered & self.every] if self.known(covered) else 1.0

    def question(self, covered: int, prices: Prices) -> float:
        """Seconds for one tuple to ask whether a subscription is left; 0 if it knows no dimension."""
        if not self.known(covered):
            return 0.0
        share, groups = self.reach(covered), self.count / GROUP
        until = groups / (1 + self.matches(covered) / share) if share else 0.0
        steps = STEP * (share * until + (1 - share) * groups) + FOUND * share
        return prices.probed + steps * self.known(covered) * prices.checked

    def search(self, prices: Prices, results: float, start: int, *, shared: bool) -> float:
        """Seconds for one joined tuple to find its subscriptions; `results` come of one tuple over `start`."""
        groups, mine, every = self.count / GROUP, self.known(start), self.known(self.every)
        each = STEP * groups + FOUND * self.matches(self.every)
        steps = each * every
        if shared and results >= LONG and mine:
            words = min(self.count / 64, self.matches(start) / ALIKE)
            turned = TURNED * self.matches(start) * (every - mine) / min(results, RUN)
            rest = min(each * (every - mine), turned + GIVEN * self.matches(self.every) * every)
            steps = min(steps, (STEP * groups + WORD * words) * mine / results + rest)
        return prices.probed + steps * prices.checked

    def matches(self, covered: int) -> float:
        """Subscriptions that a tuple over some relations leaves, on average."""
        return self.count * (self.left[covered & self.every] if self.known(covered) else 1.0)

    @property
    def every(self) -> int:
        """All relations that some dimension is of."""
        every = 0
        for members in self.dimensions:
            every |= members
        return every


def find_asking(query: Query, statistics: Statistics | None) -> Asking | None:
    """What is known of the subscriptions of a query; None if it has none, or too little is known."""
    if query.subscribers is None or statistics is None:
        return None
    count = statistics.rows(query.subscribers.stream.name)
    dimensions: dict[int, int] = {}
    for dimension in divide(query)[0]:
        members = sum(1 << query.position(alias) for alias in dimension.members)
        dimensions[members] = dimensions.get(members, 0) + 1
    found = Asking(count or 0.0, dimensions, {}, {})
    sets = [some for some in range(1, found.every + 1) if some & ~found.every == 0 and found.known(some)]
    named = {some: [alias for i, alias in enumerate(query.aliases) if some >> i & 1] for some in sets}
    wanted = {some: statistics.predicate(wanted_text(query, aliases)) for some, aliases in named.items()}
    left = {some: statistics.predicate(left_text(query, aliases)) for some, aliases in named.items()}
    if count is None or not sets or None in (*wanted.values(), *left.values()):
        return None
    return Asking(count, dimensions, wanted, left)  # type: ignore[arg-type]
