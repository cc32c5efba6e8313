"""Explaining plans: five stages from the text of a query to its topology, each as text, JSON or a mermaid chart.

    parsed       what was written
    resolved     what it means: names, types, windows, how long rows are kept
    candidates   what was considered, and why one plan won
    chosen       the plan of each query as a tree
    topology     stores, ways and waves of all queries together

A stage makes a page of plain records (`pages`); a format prints pages.  Output is the same to the byte for the same
session: orders come from names and positions, never from sets or hashes, and no time of day is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from weft.errors import PlanError
from weft.explain.candidates import candidates
from weft.explain.chosen import chosen
from weft.explain.data import to_json
from weft.explain.mermaid import mermaid
from weft.explain.pages import Page
from weft.explain.parsed import parsed
from weft.explain.resolved import resolved
from weft.explain.subject import Subject
from weft.explain.text import text
from weft.explain.topology import topology

__all__ = ["FORMATS", "MEASURED", "STAGES", "Subject", "explain"]

STAGES: Mapping[str, Callable[[Subject], Page]] = {
    "parsed": parsed, "resolved": resolved, "candidates": candidates, "chosen": chosen, "topology": topology,
}  # fmt: skip
FORMATS: Mapping[str, Callable[[Page], str]] = {"text": text, "json": to_json, "mermaid": mermaid}
MEASURED = ("chosen", "topology")
"""Stages that show what was measured."""


def explain(subject: Subject, stage: str = "topology", format: str = "text") -> str:  # noqa: A002
    """The stage in the format."""
    _known("stage", stage, STAGES)
    _known("format", format, FORMATS)
    if not subject.queries:
        raise PlanError("there is no query to explain", hint='add one: s.query("name", "SELECT ...").')
    if subject.analyze and stage not in MEASURED:
        raise PlanError(
            f'stage "{stage}" has nothing to measure',
            detail="what a run did is counted by stores and probes.",
            hint=f"use analyze=True with one of: {', '.join(MEASURED)}.",
        )
    return FORMATS[format](STAGES[stage](subject))


def _known(what: str, given: object, there: Iterable[str]) -> None:
    if given not in list(there):
        raise PlanError(f"{what} {given!r} is unknown", hint=f"use one of: {', '.join(there)}.")
