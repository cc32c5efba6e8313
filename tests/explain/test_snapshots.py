"""What explain prints is kept in files: a changed plan shows up as a changed file.

Set WEFT_REWRITE=1 to write the files again, then read the difference.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

import weft
from tests.topology.shop import QUERIES, session
from weft.explain import STAGES

SNAPSHOTS = Path(__file__).parent / "snapshots"
ENDINGS = {"text": "txt", "json": "json", "mermaid": "mmd"}
PLAIN = {
    "matched-1": (1, ["matched"]),
    "matched-4": (4, ["matched"]),
    "near-4": (4, ["near"]),
    "triangle-4": (4, ["triangle"]),
    "all-2": (2, list(QUERIES)),
}
SALES = """SELECT c.name, o.id, l.part FROM customer c, orders o, lines l
           WHERE o.customer = c.id AND l."order" = o.id AND c.region = 'north'"""
KNOWN = weft.Statistics(
    {"customer": 5_000, "orders": 100_000, "lines": 400_000, "c": 500},
    rates={"orders": 20.0, "lines": 80.0, "clicks": 300.0},
    distinct={"customer.id": 5_000, "orders.customer": 5_000, "orders.id": 100_000, "lines.order": 100_000},
)
WHOLE = {"sales": {"sales": SALES}, "windows": {"triangle": QUERIES["triangle"], "near": QUERIES["near"]}}


@pytest.fixture(autouse=True)
def shipped_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def known(case: str, workers: int = 4) -> weft.Session:
    s = session(workers).options(statistics=KNOWN)
    for name, sql in WHOLE[case].items():
        s.query(name, sql)
    return s


def compare(path: Path, text: str) -> None:
    text = re.sub(r"([-@~>])(?:[0-9a-f]{12}|[0-9a-f]{8})\b", r"\1...", text)  # digests change with anything in the plan
    if os.environ.get("WEFT_REWRITE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("name", PLAIN)
def test_explain_prints_what_is_written_down(name: str) -> None:
    workers, queries = PLAIN[name]
    s = session(workers)
    for query in queries:
        s.query(query, QUERIES[query])
    compare(SNAPSHOTS / f"{name}.txt", s.explain())


@pytest.mark.parametrize("form", ENDINGS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", WHOLE)
def test_every_stage_and_format_is_written_down(case: str, stage: str, form: str) -> None:
    compare(SNAPSHOTS / f"{case}-{stage}.{ENDINGS[form]}", known(case).explain(stage, form))


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("case", WHOLE)
def test_json_names_its_stage_and_all_queries(case: str, stage: str) -> None:
    page = json.loads(known(case).explain(stage, "json"))
    assert page["stage"] == stage
    assert [query["query"] for query in page["queries"]] == sorted(WHOLE[case])


@pytest.mark.parametrize("path", sorted(SNAPSHOTS.glob("*.mmd")), ids=lambda path: path.stem)
def test_charts_are_well_formed(path: Path) -> None:
    check_chart(path.read_text())


NODE = re.compile(r'(\w+)(\[|\(|\[\(|\(\[|\[\[)"[^"`\\]*"(\]|\)|\)\]|\]\)|\]\])')
LINK = re.compile(r'(\w+) (?:-->|---|-\.->)(?:\|"[^"`\\]*"\|)? (\w+)')
GROUP = re.compile(r'subgraph (\w+)\["[^"`\\]*"\]')


def check_chart(chart: str) -> None:
    """Ids are words, labels are quoted, links join declared nodes, groups close."""
    head, *lines = chart.splitlines()
    assert re.fullmatch(r"flowchart (LR|TD)", head)
    declared: set[str] = set()
    depth = 0
    for line in map(str.strip, lines):
        if line == "end":
            depth -= 1
        elif group := GROUP.fullmatch(line):
            depth += 1
            assert group[1] not in declared
        elif node := NODE.fullmatch(line):
            assert node[1] not in declared
            declared.add(node[1])
        else:
            link = LINK.fullmatch(line)
            assert link, line
            assert {link[1], link[2]} <= declared, line
    assert depth == 0


def test_labels_cannot_break_a_chart() -> None:
    s = session(2)
    s.query("odd", 'SELECT a.id FROM orders a, lines "x ""end"" [b]" WHERE a.id = "x ""end"" [b]"."order"')
    s.query("text", """SELECT o.id FROM orders o, lines l WHERE o.id = l."order" AND l.part <> '"];`#|&<br/>\\'""")
    for stage in STAGES:
        check_chart(s.explain(stage, "mermaid"))
