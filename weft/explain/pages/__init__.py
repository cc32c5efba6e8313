"""What explain shows, as plain data; text, JSON and mermaid are three ways to print it.

A page is the answer for one stage.  The names of its fields are the keys of the JSON, and a number's name or the `unit`
beside it says what is counted.  Unknown is None.  Expressions are already text, so that all formats show the same.
"""

from __future__ import annotations

from weft.explain.pages.candidates import CandidatesPage
from weft.explain.pages.chosen import ChosenPage
from weft.explain.pages.parsed import ParsedPage
from weft.explain.pages.resolved import ResolvedPage
from weft.explain.pages.topology import TopologyPage

Page = ParsedPage | ResolvedPage | CandidatesPage | ChosenPage | TopologyPage
"""The answer for one stage."""
