"""A plan in short, for people who do not know the words of plans."""

from __future__ import annotations

from collections.abc import Sequence

from weft.explain.answer import answer
from weft.explain.candidates import because
from weft.explain.figures import Figures
from weft.explain.pages.topology import SummaryFacts
from weft.explain.words import duration, is_exclusive, plan_name
from weft.optimizer.choose import Choice
from weft.query.derived import is_hidden
from weft.topology.node import Probe
from weft.topology.store import Store


def summary(choice: Choice, figures: Figures) -> SummaryFacts:
    """What is kept and how long, what a new row does, and why this plan."""
    ways = [way for alias in choice.query.aliases for way in figures.ways(choice, alias)]
    probes = [[node for node in way if isinstance(node, Probe)] for way in ways]
    return SummaryFacts(
        choice.name,
        _keeps(choice, figures),
        max((len(way) for way in probes), default=0),
        max((node.wave for way in ways for node in way), default=1),
        choice.chosen.bill.work_micros if choice.informed else None,
        plan_name(choice, choice.chosen),
        because(choice),
        answer(choice.query) if not is_hidden(choice.name) else "",
    )


def _keeps(choice: Choice, figures: Figures) -> tuple[str, ...]:
    """What stores hold for a query, those with the same age together."""
    own = [
        store for store in figures.topology.stores if any(user.partition(".")[0] == choice.name for user in store.users)
    ]
    ages: dict[str, list[str]] = {}
    for store in own:
        ages.setdefault(_age(store), []).append(_kept(store, figures.content(store, choice.name)))
    return tuple(f"{_and(list(dict.fromkeys(names)))} {age}" for age, names in ages.items())


def _kept(store: Store, what: str) -> str:
    if store.stream:
        return what
    if store.counted == "groups":
        return f"the {what}"
    return f"the join {what}{' (added up)' if store.counted else ''}"


def _age(store: Store) -> str:
    age = store.retention
    if age is None:
        return "for ever"
    age += is_exclusive(store.reason)
    return f"for {duration(age)}" if age else "until the watermark has passed them"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
