"""Notices: what the planner has seen and a person may want to change.

A notice is no error: the plan runs and its answers are right.  Each says what is the case, why, what one could do, and
the code that does it.  To add one: a name in KINDS, a function that yields it, a line in `notices`.

Notices are given once for a store and a query, however many ways run into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from weft.explain.assumed import inputs, pairs
from weft.explain.figures import Figures
from weft.explain.pages.figure import Figure
from weft.explain.uneven import uneven_load
from weft.explain.words import count, joined, number
from weft.expr.model import aliases
from weft.expr.render import to_sql
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.tree import Tree
from weft.optimizer.lower.ways import Hop
from weft.optimizer.written.plan import Plan, write
from weft.topology.model import Store

KINDS = (
    "unbounded-state", "unprobed-store", "avoidable-broadcast", "theta-broadcast", "cross-product", "no-statistics",
    "assumed-statistics", "large-intermediate", "over-capacity", "nothing-measured", "uneven-load",
    "wrong-estimate",
)  # fmt: skip
"""All kinds, in the order in which they are given."""
FAR_OFF = 10.0
"""From which factor on a number counts as wrong."""
MOST_TOLD = 4
"""How many wrong numbers one notice names."""


def notices(figures: Figures, *, analyze: bool) -> tuple[Notice, ...]:
    """All there is to say."""
    labels = {store.id: f"s{i} ({said(store)})" for i, store in enumerate(figures.topology.stores)}
    found = [
        *_unbounded(figures, labels),
        *_unprobed(figures, labels),
        *(notice for choice in figures.choices for notice in _broadcasts(choice, figures, labels)),
        *_statistics(figures),
        *(notice for choice in figures.choices for notice in _sizes(choice, figures, labels)),
        *(_measured(figures, labels) if analyze else ()),
    ]
    return tuple(sorted(dict.fromkeys(found), key=lambda notice: KINDS.index(notice.kind)))


def said(store: Store) -> str:
    """What a store holds."""
    return store.stream or joined(store.aliases)


Labels = dict[str, str]
"""Store -> what a notice calls it."""


# ------------------------------------------------------------------------------------------------- state


def _unbounded(figures: Figures, labels: Labels) -> Iterator[Notice]:
    for store in figures.topology.stores:
        if store.retention is None:
            yield Notice(
                "unbounded-state",
                f"state of {labels[store.id]} grows without bound",
                f"{store.reason}; used by {', '.join(store.users)}.",
                "give the aliases of the query a WITHIN window or a time band if old rows may be forgotten.",
                _bounding(figures, store),
            )


def _bounding(figures: Figures, store: Store) -> str:
    """The code that would bound a store: an event time where one is missing, else a window."""
    streams = {r.stream.name: r.stream for choice, _ in figures.users(store) for r in choice.query.relations}
    untimed = [name for name, stream in sorted(streams.items()) if stream.event_time is None]
    if untimed:
        return f's.stream("{untimed[0]}", source, event_time="...")'
    return "end the query with: WITHIN INTERVAL '1' HOUR"


def _unprobed(figures: Figures, labels: Labels) -> Iterator[Notice]:
    asked = {probe.store for probe in figures.topology.probes}
    for store in figures.topology.stores:
        if store.id not in asked:
            yield Notice(
                "unprobed-store",
                f"nobody looks into {labels[store.id]}",
                f"it is kept for {', '.join(store.users)}, and no way leads to it.",
                "leave the alias out of the query if its rows change nothing.",
                f's.query("{store.users[0].split(".")[0]}", ...) without it',
            )


# -------------------------------------------------------------------------------------------- broadcasts


def _broadcasts(choice: Choice, figures: Figures, labels: Labels) -> Iterator[Notice]:
    """What is said of tuples that meet every row of a store or go to all its workers, once for each store."""
    found: dict[tuple[int, str], list[tuple[str, Hop]]] = {}
    for alias in choice.query.aliases:
        bound = {alias}
        for hop in choice.chosen.ways.hops(alias):
            if kind := _broadcast(choice, bound, hop):
                found.setdefault((hop.store, kind), []).append((alias, hop))
            bound |= set(names(choice.query, hop.store))
    for store, kind in sorted(found):
        label = labels[figures.store_of(choice, store).id]
        yield _BROADCAST[kind](choice, label, store, found[store, kind])


def _broadcast(choice: Choice, bound: set[str], hop: Hop) -> str | None:
    """What kind of notice a hop is worth."""
    target = set(names(choice.query, hop.store))
    between = [aliases(p) for p in choice.query.joins if len(aliases(p)) == 2]
    if not hop.step.equalities and not any(pair & target and pair & bound for pair in between):
        return "cross-product"
    if hop.route != "broadcast" or hop.tasks == 1:
        return None
    return "avoidable-broadcast" if hop.step.equalities else "theta-broadcast"


Broadcasts = Sequence[tuple[str, Hop]]
"""Origins, and the hops that their tuples take."""


def _cross(choice: Choice, label: str, store: int, hops: Broadcasts) -> Notice:
    who, other = ", ".join(alias for alias, _ in hops), names(choice.query, store)[0]
    return Notice(
        "cross-product",
        f'query "{choice.name}" multiplies tuples of {who} with every row of {label}',
        "no predicate over two aliases connects them.",
        "add a join predicate between them if not every combination is wanted.",
        f's.query("{choice.name}", "... WHERE {hops[0][0]}.column = {other}.column")',
    )


def _theta(choice: Choice, label: str, store: int, hops: Broadcasts) -> Notice:
    workers = hops[0][1].tasks
    return Notice(
        "theta-broadcast",
        f'query "{choice.name}" sends tuples of {", ".join(a for a, _ in hops)} to all workers of {label}',
        f"no equality says where their partners are; each tuple is sent {workers} times, and more with more workers.",
        "put the store on fewer workers if it is small, or add an equality.",
        f's.query("{choice.name}", sql, strategy={_plan(choice, parallelism={store: 1})})',
    )


def _avoidable(choice: Choice, label: str, store: int, hops: Broadcasts) -> Notice:
    keys = dict.fromkeys(e.target for _, hop in hops for e in hop.step.equalities)
    home = choice.chosen.layout.placement.get(store, ())
    lies = f"rows lie by {', '.join(to_sql(e) for e in home)}" if home else "rows lie anywhere"
    who = ", ".join(a for a, _ in hops)
    by_cost = choice.informed and home and not isinstance(choice.strategy, Plan)
    return Notice(
        "avoidable-broadcast",
        f'query "{choice.name}" sends tuples of {who} to all workers of {label}',
        f"{lies}; those tuples know {', '.join(to_sql(key) for key in keys)}."
        + (" By cost the present key is the better one." if by_cost else ""),
        f"place the store by {to_sql(next(iter(keys)))} if these tuples are many; others may then be broadcast.",
        f's.query("{choice.name}", sql, strategy={_plan(choice, placement={store: to_sql(next(iter(keys)))})})',
    )


_BROADCAST = {"cross-product": _cross, "theta-broadcast": _theta, "avoidable-broadcast": _avoidable}


def _plan(choice: Choice, placement: dict[int, str] | None = None, parallelism: dict[int, int] | None = None) -> str:
    """The chosen tree with one thing changed, as a user writes it."""
    kept = write(choice.query, choice.chosen.layout).keep
    parts = [f"keep={list(kept)!r}"] if kept else []
    for name, given in (("placement", placement), ("parallelism", parallelism)):
        for store, value in (given or {}).items():
            members = names(choice.query, store)
            parts.append(f"{name}={ {members[0] if len(members) == 1 else members: value}!r}")
    return f"weft.Plan({', '.join(parts)})"


# -------------------------------------------------------------------------------------------- statistics


def _statistics(figures: Figures) -> Iterator[Notice]:
    blind = [choice.name for choice in figures.choices if not choice.informed and len(choice.query.relations) > 1]
    if blind:
        yield Notice(
            "no-statistics",
            "plans were made without statistics",
            f"nothing is known of the data of {', '.join(blind)}, so no sizes are estimated.",
            "measure them from samples of the sources, or give them by hand.",
            "s.analyze()",
        )
    for choice in figures.choices:
        missing = _missing(choice) if choice.informed else []
        if missing:
            yield Notice(
                "assumed-statistics",
                f'some numbers of query "{choice.name}" are assumed',
                f"unknown: {', '.join(missing)}.",
                'see what stands in for them with explain(stage="candidates"); measure them, or give them by hand.',
                "s.analyze()",
            )


def _missing(choice: Choice) -> list[str]:
    sizes = [f"rows of {found.alias}" for found in inputs(choice) if found.assumed]
    shares = [f"selectivity of {', '.join(found.aliases)}" for found in pairs(choice) if found.assumed]
    return sizes + shares


# ------------------------------------------------------------------------------------------------- sizes


def _sizes(choice: Choice, figures: Figures, labels: Labels) -> Iterator[Notice]:
    if not choice.informed:
        return
    for part in choice.chosen.layout.tree.stores:
        label = labels[figures.store_of(choice, part.relations).id]
        if part.children:
            yield from _large(choice, part, label)
        yield from _crowded(choice, part, label)


def _large(choice: Choice, part: Tree, label: str) -> Iterator[Notice]:
    stored = choice.chosen.bill.stored
    rows, below = stored[part.relations], math.fsum(stored[child.relations] for child in part.children)
    if rows > below:
        most = math.floor(choice.chosen.bill.scost - rows)
        yield Notice(
            "large-intermediate",
            f"the intermediate result {label} is larger than all its inputs together",
            f"{number(rows)} rows are expected in it, and {number(below)} in what it is made of.",
            "keep less if storage is short; probes then do more.",
            f's.query("{choice.name}", sql, budget={max(1, most)})',
        )


def _crowded(choice: Choice, part: Tree, label: str) -> Iterator[Notice]:
    capacity, tasks = choice.wishes.capacity, choice.chosen.ways.tasks(part.relations)
    rows = choice.chosen.bill.stored[part.relations]
    if capacity is None or rows / tasks <= capacity * (1 + 1e-9):
        return
    wanted = math.ceil(rows / capacity)
    held_back = tasks < choice.chosen.ways.workers
    yield Notice(
        "over-capacity",
        f"{label} holds more rows on a worker than capacity={capacity:g} allows",
        f"{number(rows)} rows are expected on {count(tasks, 'worker')}.",
        f"it would need {count(wanted, 'worker')}.",
        f's.query("{choice.name}", sql, strategy={_plan(choice, parallelism={part.relations: wanted})})'
        if held_back and wanted <= choice.chosen.ways.workers
        else f"s.options(workers={wanted})",
    )


# ---------------------------------------------------------------------------------------------- measured


def _measured(figures: Figures, labels: Labels) -> Iterator[Notice]:
    if figures.measured is None:
        yield Notice(
            "nothing-measured",
            "nothing was measured yet",
            "the checkpoint has no committed batch.",
            "run the session, then ask again.",
            "s.run()",
        )
        return
    seen, uneven = figures.measured.seen, figures.measured.counters
    if (notice := uneven_load(uneven, figures.topology.workers, figures.choices, lambda: seen)) is not None:
        yield notice
    stores = [(labels[store.id], figures.rows(store)) for store in figures.topology.stores]
    yield from _wrong("stores", stores)
    for choice in figures.choices:
        yield from _wrong(f'query "{choice.name}"', list(_flows(choice, figures)))


def _flows(choice: Choice, figures: Figures) -> Iterator[tuple[str, Figure]]:
    """All that runs through the probes of a query."""
    for alias, parts in choice.chosen.ways.paths.items():
        for i, part in enumerate(parts, start=1):
            if isinstance(part, Hop):
                yield f"into {choice.name}/{alias}/{i}", figures.tuples_in(choice, alias, i)
                yield f"matched in {choice.name}/{alias}/{i}", figures.matches(choice, alias, i)


def _wrong(what: str, found: Sequence[tuple[str, Figure]]) -> Iterator[Notice]:
    """One notice for all that is far off, the worst first."""
    off = sorted((entry for entry in found if _factor(entry[1]) > FAR_OFF), key=lambda entry: -_factor(entry[1]))
    if off:
        told = [_told(where, figure) for where, figure in off[:MOST_TOLD]]
        more = f"; and {len(off) - MOST_TOLD} more" if len(off) > MOST_TOLD else ""
        yield Notice(
            "wrong-estimate",
            f"{count(len(off), 'number')} of {what} {'is' if len(off) == 1 else 'are'} more than {FAR_OFF:g} times off",
            f"{'; '.join(told)}{more}.",
            "measure statistics again and start from an empty checkpoint: a checkpoint keeps the plan it was made by.",
            's = weft.Session(checkpoint="another"); ...; s.analyze()',
        )


def _told(where: str, figure: Figure) -> str:
    expected, came = number(figure.estimated or 0.0), number(figure.measured or 0)
    return f"{figure.unit} {where}: {expected} expected, {came} measured"


def _factor(figure: Figure) -> float:
    """How many times off an estimate is; numbers below one count as one."""
    if figure.estimated is None or figure.measured is None:
        return 1.0
    small, large = sorted((max(figure.estimated, 1.0), max(float(figure.measured), 1.0)))
    return large / small
