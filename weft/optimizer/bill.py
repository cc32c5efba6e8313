"""What a plan costs on the host: the tuples of every way, weighed with measured prices.

A line is what a new tuple of an alias does: hops, each a look into one store (`weft.optimizer.lower.ways`).  What lines
have in common is counted once.
The cost model says how many tuples there are after each hop.  The ways say whether these stay on their worker, are
sent, and to how many workers; which of them wait for an intermediate result, and how long.  Both together give seconds:

    work   tuples sent, probed, matched, pairs checked, rows stored, each times its price, spread over the workers
    load   what comes to the fullest worker, where keys are uneven: it finishes last (K-25)
    waves  a fixed price for each wave of each micro-batch

In a cube a tuple over some aliases exists once on every worker along the axes that none of these aliases owns.

A query with subscriptions also asks them, before every hop or at the end (`weft.optimizer.cost.asking`): a question
ends some tuples, which cost nothing from there on.

The sum is divided by the input rows, so that plans are compared by one number: microseconds an input row.
Under the arrival factor "history" tuples are counted over the whole history, under "window" in a second of the steady
state.  Writing the results costs every plan the same and is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.expr.model import Expr
from weft.optimizer.cost.asking import Asking
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.cost.prices import BATCH_ROWS, Prices
from weft.optimizer.graph.layout import Layout, mask
from weft.optimizer.lower.ways import Hop, Line, Ways
from weft.topology.spread import Cube

Imbalance = Callable[[tuple[Expr, ...], int], float]
"""Key and number of workers -> ratio of the fullest to the average worker; the empty key is that of a cube."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a plan is expected to do and to cost."""

    stored: Mapping[int, float]
    """Store -> rows it holds: under "history" after all input, under "window" at any time."""
    probed: Mapping[tuple[str, int], float]
    """(Alias, number of the hop) -> tuples that probe there, copies counted; the papers call them tuples sent.
    Hops are numbered from 1, in the order of `Ways.hops`."""
    matched: Mapping[tuple[str, int], float]
    """(Alias, number of the hop) -> matches."""
    sent: float
    """Tuples through the exchange, copies counted."""
    waves: int
    work: float
    """Seconds of all workers together."""
    seconds: float
    """Wall time, waves included."""
    rows: float
    """Input rows that cause this work."""
    skew: float = 1.0
    """Ratio of the fullest worker's work to the average, as estimated."""

    @property
    def pcost(self) -> float:
        """PCost of the papers."""
        return math.fsum(self.probed.values())

    @property
    def scost(self) -> float:
        """SCost of the papers."""
        return math.fsum(self.stored.values())

    @property
    def micros(self) -> float:
        """Microseconds an input row, its share of the waves included."""
        return self.seconds / self.rows * 1e6 if self.rows else 0.0

    @property
    def work_micros(self) -> float:
        """Microseconds of work an input row, whatever worker does it."""
        return self.work / self.rows * 1e6 if self.rows else 0.0


def bill(
    plan: Ways,
    model: CostModel,
    prices: Prices,
    batch_rows: float = BATCH_ROWS,
    imbalance: Imbalance | None = None,
    ranges: Mapping[int, float] | None = None,
    asking: Asking | None = None,
) -> Bill:
    """The bill of one query's plan; `imbalance` says how much fuller than the average a worker gets under a key.

    `ranges`: input -> to how many workers a row of it goes, where rows go by ranges of their values.
    `asking`: what is known of the subscriptions of the query; where nothing is, asking them costs every plan the same.
    """
    count = _Count(plan, model, prices, imbalance or (lambda _key, _tasks: 1.0), ranges or {}, asking)
    count.read_inputs()
    for line in plan.lines:
        count.walk(line)
    rows = math.fsum(model.count_started(1 << i, 1 << i) for i in range(len(plan.query.relations)))
    # Every batch runs all its waves.  Under "window" all figures are for one second, which is taken as one batch.
    waves = max((wave for line in plan.lines for wave in line.waves), default=1)
    fixed = waves * prices.wave * max(1.0, rows / batch_rows) if model.arrival != "window" else waves * prices.wave
    stored = {
        store: model.held(store) * count.copies(store) * len(plan.layout.homes(store))
        for store in plan.layout.stores
        if store in count.probed_stores
    }
    # All workers wait for the fullest one at the end of each wave, so its share of the work is the wall time.
    skew = max(1.0, count.fullest / count.work) if count.work else 1.0
    seconds = count.work * skew / plan.workers + fixed
    return Bill(stored, count.probed, count.matched, count.sent, waves, count.work, seconds, rows, skew)


class _Count:
    """Follows the tuples of every alias along their way, and adds up what each part of it costs."""

    def __init__(
        self, plan: Ways, model: CostModel, prices: Prices, imbalance: Imbalance, ranges: Mapping[int, float],
        asking: Asking | None,
    ) -> None:  # fmt: skip
        self.plan, self.model, self.prices, self.imbalance, self.ranges = plan, model, prices, imbalance, ranges
        self.asking = asking
        self.fullest = 0.0
        """Seconds of a worker that is the fullest in everything, times the number of workers.  Another key may have
        another fullest worker; taking them as one is the worst case, and needs no joint distribution of keys."""
        self.factor = 1.0
        """How much fuller than the average the fullest worker is where the tuples are now: the key that they were last
        sent by decides it, and a local hop leaves it as it is."""
        self.probed: dict[tuple[str, int], float] = {}
        self.matched: dict[tuple[str, int], float] = {}
        self.sent = self.work = 0.0
        self.numbers = {
            id(hop): (alias, n) for alias in plan.query.aliases for n, hop in enumerate(plan.hops(alias), start=1)
        }
        self.probed_stores = {hop.store for line in plan.lines for hop in line.hops}
        """Stores that are kept.  Rows that no probe looks for are not stored, such as those that join only tables."""

    def read_inputs(self) -> None:
        """Rows of all aliases are stored.  Any worker may read a row of a source, so it is sent to its store's."""
        for place in range(len(self.plan.query.relations)):
            start = 1 << place
            if start not in self.probed_stores:
                continue
            for home in self.plan.layout.homes(start):
                self.factor = self._imbalance(home, start)
                self._store(self.model.count_started(start, start) * self.copies(start), sent=self.plan.workers > 1)

    def walk(self, line: Line) -> None:
        """All that tuples do on a line, without what they do on a line before that begins alike."""
        start = covered = mask(self.plan.query, [line.start])
        tuples, wave, wanted = self.model.count_started(start, covered) * self.copies(start), 1, 1.0
        self.factor = self._imbalance(self.plan.layout.homes(start)[0] if start in self.probed_stores else (), start)
        for part in line.hops:
            if part.route != "local":
                self.factor = self._imbalance(part.route_key, part.store)
            before, wanted = wanted, self._question(tuples, covered, wanted)
            covered |= part.store
            found = self.model.count_started(start, covered) * self.copies(covered) * wanted
            if self.numbers[id(part)] not in self.probed:
                self._look(part, start, tuples, wanted / before if before else 0.0, found, wave, line.hops[0])
            tuples, wave = found, part.wave
        if line.keep is not None:
            self.factor = self._imbalance(line.keep.home, line.keep.store)
            self._store(tuples, sent=line.keep.route != "local")
        else:
            self._search(start, tuples)

    def _question(self, tuples: float, covered: int, before: float) -> float:
        """Charge tuples for asking whether a subscription is left; the share of all such tuples that go on."""
        if self.asking is None or not self.plan.layout.asks(covered):
            return before
        self._charge(tuples * self.asking.question(covered, self.prices))
        return self.asking.reach(covered)

    def _search(self, start: int, tuples: float) -> None:
        """Charge joined tuples for looking up their subscriptions."""
        if self.asking is not None:
            results = tuples / max(1.0, self.model.count_started(start, start) * self.copies(start))
            shared = self.plan.layout.subscriptions != "naive"
            self._charge(tuples * self.asking.search(self.prices, results, start, shared=shared))

    def _look(self, hop: Hop, start: int, tuples: float, wanted: float, found: float, wave: int, first: Hop) -> None:
        copies = hop.tasks if hop.route == "broadcast" else 1
        # The first hop takes no wave of its own: the tuple is sent to it in the same wave in which the row is sent
        # to its store.  Any later hop that is not local takes one more wave.  If the row's own store is on the
        # worker where the tuple looks first, one message serves both.
        begins = hop is first
        arrived = wave + (hop.route != "local" and not begins)
        travels = hop.route != "local" and not (begins and self._beside_its_store(hop, start))
        # Workers hold nothing between waves: a tuple that waits for an intermediate result goes through the
        # exchange once more for each wave from its arrival to the one in which the result is complete.
        # Subscriptions are asked on the worker where a tuple is: before it is sent, but not before the first hop.
        asked = tuples * copies * wanted
        self._send((tuples * copies if begins else asked) * (travels + hop.wave - arrived))
        self._probe(hop, asked, found)

    def copies(self, covered: int) -> float:
        """On how many workers the same tuple is."""
        return count_copies(self.plan.layout, covered, self.ranges)

    def _imbalance(self, key: tuple[Expr, ...], store: int) -> float:
        if self.plan.layout.spread:
            return self.imbalance((), self.plan.workers)
        # A store without a key is dealt evenly over its own workers; the others are idle meanwhile.
        return self.imbalance(key, self.plan.tasks(store)) if key else self.plan.workers / self.plan.tasks(store)

    def _charge(self, seconds: float) -> None:
        self.work += seconds
        self.fullest += seconds * self.factor

    def _beside_its_store(self, hop: Hop, store: int) -> bool:
        """Whether new rows are stored on the worker where they look first, so that they are sent only once."""
        kept = store in self.probed_stores and hop.route_key in self.plan.layout.homes(store)
        return hop.route == "key" and kept and hop.tasks == self.plan.tasks(store)

    def _send(self, tuples: float) -> None:
        self.sent += tuples
        self._charge(tuples * self.prices.sent)

    def _store(self, tuples: float, *, sent: bool) -> None:
        self._send(tuples if sent else 0.0)
        self._charge(tuples * self.prices.stored)

    def _probe(self, hop: Hop, tuples: float, found: float) -> None:
        s, where = hop.step, self.numbers[id(hop)]
        indexed = bool(s.equalities) or s.range is not None
        # Without an index a tuple meets all rows that the store has on its worker; `tuples` counts its copies.
        pairs = found if indexed else tuples * self.model.graph.size(hop.store) / hop.tasks
        self.probed[where], self.matched[where] = tuples, found
        self._charge(tuples * self.prices.probed + found * self.prices.matched)
        self._charge(pairs * self.prices.checked if s.residual or not indexed else 0.0)


def count_copies(layout: Layout, covered: int, ranges: Mapping[int, float]) -> float:
    """On how many workers of a cube the same tuple is; a pair meets in one rectangle of ranges only."""
    if covered in ranges or not layout.spread:
        return ranges.get(covered, 1.0)
    # A joined tuple is on the workers where all its members are.  A member fixes the coordinate on each axis that
    # it owns.  So the copies of the tuple differ only along the axes that no member owns.
    cubes = [s.axes for store, s in layout.spread.items() if store & covered and isinstance(s, Cube)]
    return math.prod(axes[0].size for axes in zip(*cubes, strict=True) if all(a.kind == "copy" for a in axes))
