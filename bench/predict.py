"""What the papers' cost model says of the plan that ran: rows stored, tuples sent.

The model is weft/optimizer/cost.py with arrival factor "history".  Here it does not choose, it is asked: the topology
says which stores there are, in which order tuples meet them and how many tasks see each; the model says how many
tuples there are.  So the prediction holds for keyed and scattered stores alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.optimizer.cost import CostModel
from weft.optimizer.joingraph import JoinGraph
from weft.optimizer.tree import Tree
from weft.optimizer.trees import flat, mat, text
from weft.topology.model import Probe, Topology


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run should count."""

    stored: float
    sent: float


def predict(topology: Topology, graph: JoinGraph) -> Prediction:
    """The counts of a run over the whole of every stream."""
    tree = tree_of(topology, graph)
    return Prediction(CostModel(graph).scost(tree), math.fsum(_sent(topology, graph)))


def tree_of(topology: Topology, graph: JoinGraph) -> Tree:
    """The tree of operators behind a topology of one query."""
    return tree_over(graph, [store.aliases for store in topology.stores if store.aliases])


def tree_over(graph: JoinGraph, kept: Sequence[Sequence[str]]) -> Tree:
    """The tree that keeps the joins of the named relations."""
    tree = flat(graph)
    for names in sorted(kept, key=len, reverse=True):
        tree = mat(tree, graph.mask(*names))
    return tree


def plan_text(topology: Topology, graph: JoinGraph) -> str:
    """The tree with names."""
    return text(graph, tree_of(topology, graph))


def _sent(topology: Topology, graph: JoinGraph) -> Iterator[float]:
    """Tuples sent to every probe: of all results over what its tuples hold, those that began where they began."""
    model = CostModel(graph)
    probes = {probe.id: probe for probe in topology.probes}
    ahead = [(probes[then], graph.mask(start.alias)) for start in topology.starts for then in start.then]
    while ahead:
        probe, covered = ahead.pop()
        yield model.started(graph.mask(probe.origin), covered) * copies(probe)
        found = covered | graph.mask(*probe.aliases)
        ahead += [(probes[then], found) for then in probe.then if then in probes]


def copies(probe: Probe) -> int:
    """chi: how many tasks see each tuple."""
    return probe.tasks if probe.route == "broadcast" else 1
