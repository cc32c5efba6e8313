"""Charts as mermaid flowcharts.

What must hold: ids are words that we make, never names of users; all text stands in quotes, and everything in it that
mermaid might read as its own is escaped; a node is declared before a link names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from weft.explain.chart import Group, Link, Part
from weft.explain.draw import draw
from weft.explain.pages import Page

_ESCAPES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", ";": "#59;", "`": "#96;", "\\": "#92;"}
_SHAPES = {
    "input": ("([", "])"), "edge": ("[", "]"), "store": ("[(", ")]"), "probe": ("(", ")"), "result": ("[[", "]]"),
    "alias": ("(", ")"), "predicate": ("[", "]"),
}  # fmt: skip


def mermaid(page: Page) -> str:
    """The page as a flowchart."""
    chart = draw(page)
    return "\n".join([f"flowchart {chart.direction}", *_lines(chart.parts, "  ")]) + "\n"


def _lines(parts: Iterable[Part], indent: str) -> Iterator[str]:
    for part in parts:
        if isinstance(part, Group):
            yield f"{indent}subgraph {part.id}[{_quote([part.title])}]"
            yield from _lines(part.parts, indent + "  ")
            yield f"{indent}end"
        elif isinstance(part, Link):
            words = f"|{_quote(part.label)}| " if part.label else ""
            yield f"{indent}{part.start} {part.line}{words or ' '}{part.end}"
        else:
            left, right = _SHAPES[part.kind]
            yield f"{indent}{part.id}{left}{_quote(part.label)}{right}"


def _quote(parts: Iterable[str]) -> str:
    escaped = ("".join(_ESCAPES.get(letter, letter) for letter in " ".join(part.split())) for part in parts if part)
    return f'"{"<br/>".join(escaped) or " "}"'
