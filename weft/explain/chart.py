"""A chart as plain data: nodes, links between them, and groups around them.

`mermaid` and `svg` print it.  What must hold: a node is there before a link names it, and the order is that of drawing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["input", "edge", "store", "probe", "result", "alias", "predicate"]
Line = Literal["-->", "---", "-.->"]
"""An arrow, a line without a direction, and a look into a store."""


@dataclass(frozen=True, slots=True)
class Node:
    """A box."""

    id: str
    kind: Kind
    label: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Link:
    """A line from a box to another."""

    start: str
    end: str
    label: tuple[str, ...] = ()
    line: Line = "-->"


@dataclass(frozen=True, slots=True)
class Group:
    """A frame with a title, around what is drawn inside."""

    id: str
    title: str
    parts: list[Part] = field(default_factory=list)


Part = Node | Link | Group


class Chart:
    """A chart while it is drawn; its direction is "LR" or "TD"."""

    def __init__(self, direction: str) -> None:
        self.direction = direction
        self.parts: list[Part] = []
        self._numbers: dict[str, int] = {}
        self._open: list[list[Part]] = [self.parts]

    def begin(self, title: str) -> None:
        """Draw what follows into a frame."""
        group = Group(self._new("g"), title)
        self._open[-1].append(group)
        self._open.append(group.parts)

    def end(self) -> None:
        """The frame is complete."""
        self._open.pop()

    def node(self, kind: Kind, *label: str) -> str:
        """Draw a node; its id."""
        node = Node(self._new(kind[0]), kind, tuple(" ".join(part.split()) for part in label if part))
        self._open[-1].append(node)
        return node.id

    def link(self, a: str, b: str, label: Iterable[str] = (), line: Line = "-->") -> None:
        """Draw a line between two nodes."""
        self._open[-1].append(Link(a, b, tuple(" ".join(part.split()) for part in label if part), line))

    def _new(self, kind: str) -> str:
        self._numbers[kind] = self._numbers.get(kind, -1) + 1
        return f"{kind}{self._numbers[kind]}"


def flat(parts: Iterable[Part]) -> Iterator[Node | Link]:
    """All nodes and links, whatever frame they are in."""
    for part in parts:
        if isinstance(part, Group):
            yield from flat(part.parts)
        else:
            yield part
