"""Notices: what the planner has seen and a person may want to change.

A notice is not an error: the plan runs and its answers are right.  Each says what is the case, where, what one could
do, and the code that does it.  To add one: a function that returns it or None, and a line in `PLANNED` or `MEASURED`.

Each kind is given at most once, for all stores and queries together.  Its detail lists the first of them; where the
code differs from place to place, it is that of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from weft.explain.assumed import inputs, pairs
from weft.explain.broadcasts import avoidable_broadcast, cross_product, theta_broadcast
from weft.explain.figures import Figures
from weft.explain.joined import has_come, joined
from weft.explain.pages.figure import Figure
from weft.explain.uneven import uneven_load
from weft.explain.words import count, few, number, plan_with, verb
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.optimizer.graph.joingraph import bits
from weft.topology.store import Store

FAR_OFF = 10.0
"""From which factor on an estimate counts as wrong."""


def notices(figures: Figures, *, analyze: bool) -> tuple[Notice, ...]:
    """All notices of some plans; `analyze` adds those about what was measured."""
    makers = [*PLANNED.values(), *(MEASURED.values() if analyze else ())]
    return tuple(notice for make in makers if (notice := make(figures)) is not None)


def _stores(figures: Figures, stores: Iterable[Store]) -> str:
    return few((figures.label(store, users=True) for store in stores), ", ")


# ------------------------------------------------------------------------------------------------- state


def _unbounded_state(figures: Figures) -> Notice | None:
    topology = figures.topology
    tables = {stream.name for stream in (*topology.streams, *topology.derived) if stream.table}
    unbounded = [store for store in topology.stores if store.retention is None]
    stores = [
        store for store in unbounded if store.stream not in tables and store.counted != "groups" and not store.ended_by
    ]
    if not stores:
        return None
    untimed = _untimed(figures, stores)
    cause = f"; without event time: {few(untimed, ', ')}" if untimed else ""
    return Notice(
        "unbounded-state",
        f"{count(len(stores), 'store')} {verb(len(stores), 'grow')} without bound",
        f"{_stores(figures, stores)}{cause}.",
        "if old rows may be forgotten, give every stream an event time, and the query a WITHIN window or a time band.",
        f's.stream("{untimed[0]}", source, event_time="...")'
        if untimed
        else "end the query with: WITHIN INTERVAL '1' HOUR",
    )


def _untimed(figures: Figures, stores: Iterable[Store]) -> list[str]:
    """Streams without event time in the queries that use some stores."""
    streams = [r.stream for store in stores for choice, _ in figures.users(store) for r in choice.query.relations]
    inputs = (stream for stream in streams if not stream.table and not stream.depth)
    return sorted({stream.name for stream in inputs if stream.event_time is None})


# -------------------------------------------------------------------------------------------- statistics


def _no_statistics(figures: Figures) -> Notice | None:
    blind = [choice.name for choice in figures.choices if not choice.informed and len(choice.query.relations) > 1]
    if not blind:
        return None
    return Notice(
        "no-statistics",
        "plans were made without statistics",
        f"nothing is known of the data of {few(blind, ', ')}, so no sizes are estimated.",
        "measure statistics from samples of the sources, or give them by hand.",
        "s.analyze()",
    )


def _assumed_statistics(figures: Figures) -> Notice | None:
    missing = {choice.name: _missing(choice) for choice in figures.choices if choice.informed}
    unknown = [f"{query}: {', '.join(found)}" for query, found in missing.items() if found]
    if not unknown:
        return None
    return Notice(
        "assumed-statistics",
        "some numbers are unknown, and defaults are used for them",
        f"{few(unknown)}.",
        'see the defaults with explain(stage="candidates"); measure the numbers, or give them by hand.',
        "s.analyze()",
    )


def _missing(choice: Choice) -> list[str]:
    sizes = [f"rows of {found.alias}" for found in inputs(choice) if found.assumed]
    shares = [f"selectivity of {', '.join(found.aliases)}" for found in pairs(choice) if found.assumed]
    return sizes + shares


# ------------------------------------------------------------------------------------------------- sizes


def _large_intermediate(figures: Figures) -> Notice | None:
    found = [
        (choice, store, rows, below)
        for choice in figures.choices
        if choice.informed
        for store in choice.chosen.layout.kept
        if (rows := choice.model.held(store)) > (below := _inputs(choice, store))
    ]
    if not found:
        return None
    choice, _, rows, _ = found[0]
    return Notice(
        "large-intermediate",
        f"{count(len(found), 'intermediate result')} {verb(len(found), 'be')} expected to be larger than all inputs "
        "together",
        few(
            f"{figures.label(figures.store_of(c, store), users=True)}: {number(many)} rows, made of {number(fewer)}"
            for c, store, many, fewer in found
        )
        + ".",
        "store less if disks are short; probes then do more work.",
        f's.query("{choice.name}", sql, budget={max(1, math.floor(choice.chosen.bill.scost - rows))})',
    )


def _inputs(choice: Choice, store: int) -> float:
    """Rows of all relations of a join together."""
    return math.fsum(choice.model.graph.size(1 << i) for i in bits(store))


@dataclass(frozen=True, slots=True)
class _Crowd:
    """A store with more rows on a worker than the user allows."""

    choice: Choice
    store: int
    rows: float
    tasks: int
    capacity: float

    @property
    def workers(self) -> int:
        """How many workers would be enough."""
        return math.ceil(self.rows / self.capacity)

    @property
    def action(self) -> str:
        ways = self.choice.chosen.ways
        if self.tasks < ways.workers and self.workers <= ways.workers:
            plan = plan_with(self.choice, parallelism={self.store: self.workers})
            return f's.query("{self.choice.name}", sql, strategy={plan})'
        return f"s.options(workers={self.workers})"


def _over_capacity(figures: Figures) -> Notice | None:
    found = sorted(_crowds(figures), key=lambda crowd: -crowd.workers)
    if not found:
        return None
    return Notice(
        "over-capacity",
        f"{count(len(found), 'store')} {verb(len(found), 'be')} expected to hold more rows on a worker than capacity= "
        "allows",
        few(
            f"{figures.label(figures.store_of(crowd.choice, crowd.store), users=True)}: {number(crowd.rows)} rows on "
            f"{count(crowd.tasks, 'worker')}, {count(crowd.workers, 'worker')} needed for {crowd.capacity:g} on each"
            for crowd in found
        )
        + ".",
        "use more workers, or allow more rows.",
        found[0].action,
    )


def _crowds(figures: Figures) -> Iterator[_Crowd]:
    for choice in figures.choices:
        capacity = choice.wishes.capacity
        if capacity is None or not choice.informed:
            continue
        for store, rows in choice.chosen.bill.stored.items():
            tasks = choice.chosen.ways.tasks(store)
            if rows / tasks > capacity * (1 + 1e-9):
                yield _Crowd(choice, store, rows, tasks, capacity)


# ---------------------------------------------------------------------------------------------- measured


def _nothing_measured(figures: Figures) -> Notice | None:
    if figures.measured is not None:
        return None
    return Notice(
        "nothing-measured",
        "nothing has been measured yet",
        "the checkpoint has no committed batch.",
        "run the session, then ask again.",
        "s.run()",
    )


def _uneven_load(figures: Figures) -> Notice | None:
    if (measured := figures.measured) is None:
        return None
    return uneven_load(measured.counters, figures.topology.workers, figures.choices, lambda: measured.seen)


def _wrong_estimate(figures: Figures) -> Notice | None:
    """All estimates that are far off, the worst first; sizes of stores lead, because the others depend on them."""
    flows = [flow for choice in figures.choices if has_come(choice, figures) for flow in joined(choice, figures)]
    off = [entry for found in ([*_sizes(figures)], flows) for entry in _far_off(found)]
    if not off:
        return None
    return Notice(
        "wrong-estimate",
        f"{count(len(off), 'estimate')} {verb(len(off), 'be')} more than {FAR_OFF:g} times off",
        f"{few(_compare(where, figure) for where, figure in off)}.",
        "results are right in any case; for another plan, ask for one with what was seen: the state moves to it.",
        's.options(statistics=s.observed(), strategy="tree")',
    )


def _far_off(found: Iterable[tuple[str, Figure]]) -> list[tuple[str, Figure]]:
    off = [entry for entry in found if _factor(entry[1]) > FAR_OFF]
    return sorted(off, key=lambda entry: -_factor(entry[1]))


def _sizes(figures: Figures) -> Iterator[tuple[str, Figure]]:
    """Stores that hold more than expected, and joins that hold less: of a stream, more may still come."""
    for store in figures.topology.stores:
        rows = figures.rows(store)
        users = [choice for choice, _ in figures.users(store)]
        more = rows.estimated is not None and rows.measured is not None and rows.measured > rows.estimated
        if more or (not store.stream and all(has_come(choice, figures) for choice in users)):
            yield f"in {figures.label(store)}", rows


def _compare(where: str, figure: Figure) -> str:
    expected, came = number(figure.estimated or 0.0), number(figure.measured or 0)
    return f"{figure.unit} {where}: {expected} expected, {came} measured"


def _factor(figure: Figure) -> float:
    """How many times off an estimate is; numbers below one count as one."""
    if figure.estimated is None or figure.measured is None:
        return 1.0
    small, large = sorted((max(figure.estimated, 1.0), max(float(figure.measured), 1.0)))
    return large / small


PLANNED: Mapping[str, Callable[[Figures], Notice | None]] = {
    "unbounded-state": _unbounded_state,
    "avoidable-broadcast": avoidable_broadcast,
    "theta-broadcast": theta_broadcast,
    "cross-product": cross_product,
    "no-statistics": _no_statistics,
    "assumed-statistics": _assumed_statistics,
    "large-intermediate": _large_intermediate,
    "over-capacity": _over_capacity,
}
"""Kind -> the function that gives it for plans; in the order in which notices are given."""
MEASURED: Mapping[str, Callable[[Figures], Notice | None]] = {
    "nothing-measured": _nothing_measured,
    "uneven-load": _uneven_load,
    "wrong-estimate": _wrong_estimate,
}
"""Kind -> the function that gives it for what was measured."""
KINDS = (*PLANNED, *MEASURED)
"""All kinds."""
