"""Join graphs and join keys written by hand, in the notation of the papers, and trees as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from weft.optimizer.cubes.cube import JoinKeys, Occurrence
from weft.optimizer.graph.equal import lead_classes
from weft.optimizer.graph.joingraph import Base, JoinGraph
from weft.optimizer.graph.tree import Tree


def join_graph(
    sizes: Mapping[str, float],
    selectivities: Mapping[tuple[str, str], float],
    *,
    parallelism: Mapping[str, int] | int | None = None,
    rates: Mapping[str, float] | None = None,
    attributes: Mapping[str, str] | None = None,
    partitioning: Mapping[str, str] | None = None,
) -> JoinGraph:
    """A graph by hand.  Attributes and partitionings have one letter each: `attributes={"S": "ab"}`."""
    place = {name: i for i, name in enumerate(sizes)}
    relations = tuple(
        Base(
            name,
            float(size),
            (rates or {}).get(name),
            attributes=frozenset((attributes or {}).get(name, "")),
            partitioning=tuple((partitioning or {}).get(name, "")),
        )
        for name, size in sizes.items()
    )
    edges = ((*sorted((place[a], place[b])), float(f)) for (a, b), f in selectivities.items())
    graph = JoinGraph(relations, tuple(sorted((i, j, f) for i, j, f in edges)))  # type: ignore[misc]
    return graph if parallelism is None else with_parallelism(graph, parallelism)


def with_parallelism(graph: JoinGraph, parallelism: Mapping[str, int] | int) -> JoinGraph:
    """The graph with N_i for all relations, or for the named ones."""
    given = {r.name: parallelism for r in graph.relations} if isinstance(parallelism, int) else parallelism
    changed = (replace(r, parallelism=given.get(r.name, r.parallelism)) for r in graph.relations)
    return JoinGraph(tuple(changed), graph.edges)


def join_keys(sizes: Mapping[str, float], equal: Iterable[tuple[str, str]], other: Iterable[str] = ()) -> JoinKeys:
    """From equalities `("R.x", "S.x")`, and attributes `"T.y"` that other predicates mention."""
    pairs = [(_occurrence(a), _occurrence(b)) for a, b in (*equal, *((name, name) for name in other))]
    classes: dict[Occurrence, list[Occurrence]] = {}
    for member, leader in lead_classes(pairs).items():
        classes.setdefault(leader, []).append(member)
    names = [str(members[0].attribute) for members in classes.values()]
    labels = [
        name if names.count(name) == 1 else f"{members[0].relation}.{name}"
        for name, members in zip(names, classes.values(), strict=True)
    ]
    found = tuple((label, tuple(members)) for label, members in zip(labels, classes.values(), strict=True))
    return JoinKeys(float_sizes(sizes), found)


def _occurrence(text: str) -> Occurrence:
    return Occurrence(*text.rsplit(".", 1))


def float_sizes(sizes: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Relations and their sizes, as `JoinKeys` has them."""
    return tuple((name, float(size)) for name, size in sizes.items())


def tree_text(graph: JoinGraph, tree: Tree) -> str:
    """The tree with names: (R, (S, T))."""
    if not tree.children:
        return graph.names(tree.relations)[0]
    return f"({', '.join(tree_text(graph, child) for child in tree.children)})"
