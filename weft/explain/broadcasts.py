"""Notices of tuples that go to all workers of a store, or meet all its rows; and what one could do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.explain.figures import Figures
from weft.explain.words import few, plan_with
from weft.expr.model import aliases
from weft.expr.render import to_sql
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import names
from weft.optimizer.lower.ways import Hop
from weft.optimizer.written.plan import Plan


@dataclass(frozen=True, slots=True)
class _Place:
    """Where tuples of some origins meet every row of a store, or go to all its workers."""

    choice: Choice
    store: int
    label: str
    hops: tuple[tuple[str, Hop], ...]
    """(Origin, the hop that its tuples take)."""

    @property
    def origins(self) -> str:
        return ", ".join(alias for alias, _ in self.hops)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that the store could be placed by."""
        return tuple(dict.fromkeys(to_sql(e.target) for _, hop in self.hops for e in hop.step.equalities))

    def describe(self, word: str) -> str:
        return f"{self.choice.name}: {self.origins} {word} {self.label}"


def cross_product(figures: Figures) -> Notice | None:
    """The notice of tuples that no predicate connects with a store: they meet all its rows."""
    places = _places(figures, "cross-product")
    if not places:
        return None
    first = places[0]
    column = f"{first.hops[0][0]}.column = {names(first.choice.query, first.store)[0]}.column"
    return Notice(
        "cross-product",
        "tuples are joined with every row of a store",
        f"{few(place.describe('with') for place in places)}; no predicate over two aliases connects them.",
        "add a join predicate between them if not every combination is wanted.",
        f's.query("{first.choice.name}", "... WHERE {column}")',
    )


def theta_broadcast(figures: Figures) -> Notice | None:
    """The notice of tuples that have no equality with a store, so that their partners may be on any worker."""
    places = _places(figures, "theta-broadcast")
    if not places:
        return None
    copies, first = max(hop.tasks for place in places for _, hop in place.hops), places[0]
    return Notice(
        "theta-broadcast",
        "tuples go to all workers of a store, because no equality says where their partners are",
        f"{few(place.describe('to') for place in places)}; "
        f"each tuple is sent {copies} times, and more often with more workers.",
        "put the store on fewer workers if it is small, or add an equality.",
        f's.query("{first.choice.name}", sql, strategy={plan_with(first.choice, parallelism={first.store: 1})})',
    )


def avoidable_broadcast(figures: Figures) -> Notice | None:
    """The notice of tuples that have an equality with a store which is placed by another key, or by none."""
    places = _places(figures, "avoidable-broadcast")
    if not places:
        return None
    first = places[0]
    plan = plan_with(first.choice, placement={first.store: first.keys[0]})
    return Notice(
        "avoidable-broadcast",
        "tuples go to all workers of a store, though an equality offers a key for it",
        few(f"{place.describe('to')}, {_other_key(place)}" for place in places) + ".",
        "place the store by that key if these tuples are many; others may then go to all workers.",
        f's.query("{first.choice.name}", sql, strategy={plan})',
    )


def _other_key(place: _Place) -> str:
    """Where the rows of a store lie, and where they could."""
    choice, home = place.choice, place.choice.chosen.layout.placement.get(place.store, ())
    by_cost = choice.informed and home and not isinstance(choice.strategy, Plan)
    now = f"placed by {', '.join(to_sql(e) for e in home)}" if home else "scattered"
    return f"{now}{', which costs less,' if by_cost else ''} and not by {', '.join(place.keys)}"


def _places(figures: Figures, kind: str) -> list[_Place]:
    """Where a kind of broadcast happens: once for each query and store, for all origins together."""
    return [place for choice in figures.choices for place in _places_of(choice, figures, kind)]


def _places_of(choice: Choice, figures: Figures, kind: str) -> Iterator[_Place]:
    found: dict[int, list[tuple[str, Hop]]] = {}
    met: set[int] = set()  # lines that begin alike have the same hops there
    for line in choice.chosen.ways.lines:
        bound = {line.start}
        for hop in line.hops:
            if id(hop) not in met and _kind_of(choice, bound, hop) == kind:
                found.setdefault(hop.store, []).append((line.start, hop))
            met.add(id(hop))
            bound |= set(names(choice.query, hop.store))
    for store, hops in sorted(found.items(), key=lambda entry: entry[0]):
        yield _Place(choice, store, figures.label(figures.store_of(choice, store)), tuple(hops))


def _kind_of(choice: Choice, bound: set[str], hop: Hop) -> str | None:
    """What kind of notice a hop is worth."""
    target = set(names(choice.query, hop.store))
    between = [aliases(p) for p in choice.query.joins if len(aliases(p)) == 2]
    if not hop.step.equalities and not any(pair & target and pair & bound for pair in between):
        return "cross-product"
    if hop.route != "broadcast" or hop.tasks == 1:
        return None
    return "avoidable-broadcast" if hop.step.equalities else "theta-broadcast"
