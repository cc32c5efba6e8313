"""Trees over relations: an inner operator is a join whose result is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weft.errors import InternalError


@dataclass(frozen=True, slots=True)
class Tree:
    """A relation, or an operator over two or more trees; every tree but the root is a store."""

    relations: int
    """Bitmask of the relations below."""
    children: tuple[Tree, ...] = ()
    """In query order of their first relations."""
    partitioning: tuple[str, ...] = ()
    """Where rows of an operator's store lie; the placement of a relation is in the graph."""

    def __post_init__(self) -> None:
        masks = [child.relations for child in self.children]
        whole = sum(masks) == self.relations == _union(masks) and len(masks) > 1 if masks else True
        sorted_ = masks == sorted(masks, key=lambda mask: mask & -mask)
        if not (whole and sorted_) or (not masks and self.relations.bit_count() != 1):
            raise InternalError(f"no tree over {self.relations:b}: children {[f'{m:b}' for m in masks]}")

    @property
    def operators(self) -> Iterator[Tree]:
        """All operators, inputs first, this one last."""
        for child in self.children:
            yield from child.operators
        if self.children:
            yield self

    @property
    def stores(self) -> Iterator[Tree]:
        """Everything below the root: relations and inner operators."""
        for child in self.children:
            yield from child.stores
            yield child


def flat_tree(count: int) -> Tree:
    """One operator over so many relations; a single relation is a tree itself."""
    leaves = tuple(Tree(1 << i) for i in range(count))
    return leaves[0] if count == 1 else Tree((1 << count) - 1, leaves)


def _union(masks: Sequence[int]) -> int:
    united = 0
    for mask in masks:
        united |= mask
    return united
