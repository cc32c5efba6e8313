"""What is said about plans, as plain data; text, JSON and mermaid are three ways to print it.

A page is the answer for one stage.  Its fields are what people and programs get to know: names of fields are the keys
of the JSON, and a number's name or the `unit` beside it says what is counted.  Unknown is None.  Expressions are text
by now, so that no format can say something else than another.
"""

from __future__ import annotations

from weft.explain.pages.candidates import CandidatesPage
from weft.explain.pages.chosen import ChosenPage
from weft.explain.pages.parsed import ParsedPage
from weft.explain.pages.resolved import ResolvedPage
from weft.explain.pages.topology import TopologyPage

Page = ParsedPage | ResolvedPage | CandidatesPage | ChosenPage | TopologyPage
"""The answer for one stage."""
