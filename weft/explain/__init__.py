"""Explaining plans: five stages from the text of a query to its topology, each as text, JSON, a chart
(mermaid, SVG), or a page of HTML.

    parsed       what was written
    resolved     what it means: names, types, windows, how long rows are kept
    candidates   what was considered, and why one plan won
    chosen       the plan of each query as a tree
    topology     stores, ways and waves of all queries together

A stage makes a page of plain records (`pages`); a format prints pages.  The same session gives the same bytes: orders
come from names and positions, never from sets or hashes, and the time of day is not shown.

    what is explained   subject, derived
    numbers             figures, assumed, expected, joined, sharing, subscriptions, answer
    notices             notices, broadcasts, uneven
    formats             text, words, summary, data, page
    charts              draw, chart, layout, svg, mermaid
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from weft.errors import PlanError
from weft.explain import candidates, chosen, parsed, resolved, topology
from weft.explain.data import to_json
from weft.explain.derived import readable, rename
from weft.explain.mermaid import mermaid
from weft.explain.page import html
from weft.explain.pages import Page
from weft.explain.subject import Subject
from weft.explain.svg import svg
from weft.explain.text import text

__all__ = ["FORMATS", "MEASURED", "STAGES", "Subject", "explain"]

STAGES: Mapping[str, Callable[[Subject], Page]] = {
    "parsed": parsed.page, "resolved": resolved.page, "candidates": candidates.page, "chosen": chosen.page,
    "topology": topology.page,
}  # fmt: skip
FORMATS: Mapping[str, Callable[[Page], str]] = {
    "text": text, "json": to_json, "mermaid": mermaid, "svg": svg, "html": html,
}  # fmt: skip
MEASURED = ("chosen", "topology")
"""Stages that can show what was measured."""


def explain(subject: Subject, stage: str = "topology", format: str = "text") -> str:  # noqa: A002
    """The plan of a subject at a stage, in a format."""
    _check("stage", stage, STAGES)
    _check("format", format, FORMATS)
    if not subject.queries:
        raise PlanError("there is no query to explain", hint='add one: s.query("name", "SELECT ...").')
    if subject.analyze and stage not in MEASURED:
        raise PlanError(
            f'stage "{stage}" has nothing to measure',
            detail="a run is measured at stores and probes.",
            hint=f"use analyze=True with one of: {', '.join(MEASURED)}.",
        )
    page = rename(STAGES[stage](subject), readable(subject.queries))
    made = Explained(FORMATS[format](page))
    made.page = page
    return made


class Explained(str):
    """A plan as text.  It shows itself as that text in a REPL, and as a drawing in a notebook."""

    page: Page | None = None
    """What the text was made from."""

    def _repr_html_(self) -> str | None:
        return None if self.page is None else f'<div style="overflow:auto">{svg(self.page)}</div>'

    def __repr__(self) -> str:
        return self.rstrip("\n")


def _check(what: str, given: object, known: Iterable[str]) -> None:
    if given not in list(known):
        raise PlanError(f"{what} {given!r} is unknown", hint=f"use one of: {', '.join(known)}.")
