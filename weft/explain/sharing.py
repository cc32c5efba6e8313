"""What queries have in common: probe trees with their users, and what sharing saves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.explain.figures import Figures
from weft.explain.pages.sharing import ProbeTree, QuerySharing, SharingFacts, StartTree, TogetherFacts
from weft.optimizer.choose import Choice
from weft.topology.model import Start
from weft.topology.node import Emit, Keep, Node, Probe


def sharing(figures: Figures, *, analyze: bool) -> SharingFacts | None:
    """What several queries have in common; None for one query."""
    if len(figures.choices) < 2:
        return None
    plan, known = figures.topology, all(choice.informed for choice in figures.choices)
    total, apart = figures.whole.total, figures.whole.apart
    return SharingFacts(
        len(plan.stores),
        sum(len({user.partition(".")[0] for user in store.users}) > 1 for store in plan.stores),
        len(plan.probes),
        sum(len(probe.users) > 1 for probe in plan.probes),
        together(figures.choices, analyze=analyze),
        total.stored if known else None,
        apart.stored if known else None,
        total.probed if known else None,
        apart.probed if known else None,
        tuple(_query(choice, figures) for choice in figures.choices) if known else (),
        tuple(_start(start, figures) for start in plan.starts if len({query for query, _ in start.users}) > 1),
    )


def together(choices: Sequence[Choice], *, analyze: bool = False) -> TogetherFacts | None:
    """How plans were chosen together, if they were."""
    note = next((choice.together for choice in choices if choice.together is not None), None)
    if note is None:
        return None
    return TogetherFacts(
        note.queries,
        note.used,
        (1 - note.seconds / note.separate) * 100 if note.separate else 0.0,
        note.ended,
        None if note.gap is None else note.gap * 100,
        note.took if analyze else None,
    )


def _query(choice: Choice, figures: Figures) -> QuerySharing:
    alone, shared = figures.whole.alone[choice.name], figures.whole.shared(choice.name)
    return QuerySharing(choice.name, alone.stored, shared.stored, alone.probed, shared.probed)


def _start(start: Start, figures: Figures) -> StartTree:
    queries = dict.fromkeys(query for query, _ in start.users)
    return StartTree(start.label, tuple(queries), tuple(_probes(start.then, figures)))


def _probes(following: Iterable[str], figures: Figures) -> Iterable[ProbeTree]:
    nodes = figures.topology.nodes
    for probe in (node for name in following if isinstance(node := nodes[name], Probe)):
        ends = [_end(node, figures) for name in probe.then if not isinstance(node := nodes[name], Probe)]
        called = figures.called[probe.store]
        yield ProbeTree(called, probe.members, probe.users, tuple(_probes(probe.then, figures)), tuple(ends))


def _end(node: Node, figures: Figures) -> str:
    if isinstance(node, Keep):
        return figures.called[node.store]
    return f"results of {node.query}" if isinstance(node, Emit) else ""
