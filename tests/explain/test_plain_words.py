"""The words of explain: plain, and all of them in the glossary."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.explain.words import ROUTES, cells, share
from weft.testing import Trial
from weft.topology.spread import Axis, Cube

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
SNAPSHOTS = [path.read_text() for path in sorted((Path(__file__).parent / "snapshots").glob("*.txt"))]


@pytest.mark.parametrize("word", ["store", "probe", "wave", "cube", "slot", "keep", "emit", *ROUTES.values()])
def test_the_glossary_explains_every_word_of_a_plan(word: str) -> None:
    terms = {
        term.strip(" `") for line in re.findall(r"^\| ([^|]+) \|", GLOSSARY, re.MULTILINE) for term in line.split(",")
    }
    assert word in terms


def test_every_plan_names_the_glossary_in_its_first_line() -> None:
    plans = [text for text in SNAPSHOTS if text.startswith(("plan", "chosen", "candidates"))]
    assert len(plans) >= 10
    assert all(text.splitlines()[0].endswith("(words: docs/glossary.md)") for text in plans)


def test_no_page_has_the_old_words() -> None:
    for text in SNAPSHOTS:
        assert not re.search(r"cube of \d|  1 in \d|  other  ", text)


def test_how_rows_lie_on_workers_is_said_in_words() -> None:
    assert cells(Cube((Axis(2, "copy"),))) == "copied to both workers"
    assert cells(Cube((Axis(8, "copy"),))) == "copied to all 8 workers"
    assert (
        cells(Cube((Axis(2, "random"), Axis(3, "copy")))) == "in a grid of 6 workers: at random over 2, copied over 3"
    )
    assert cells(Cube(())) == "on one worker"


def test_selectivities_are_said_in_words() -> None:
    assert share(1 / 7.52e9) == "7.52 billion pairs give 1 match"
    assert share(0.5) == "2 pairs give 1 match"


def test_a_session_that_goes_on_knows_where_its_numbers_are_from(tmp_path: Path) -> None:
    rows = pa.table({"k": [i % 50 for i in range(1000)], "v": list(range(1000))})

    def opened() -> weft.Session:
        s = weft.Session(tmp_path / "state", workers=2)
        for name in "abc":
            s.stream(name, weft.read.batches([rows]))
        s.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k JOIN c ON c.v = b.v WHERE a.v < 500")
        return s

    first = opened()
    assert "input  b     1 k rows of b  (sampled)" in first.explain("candidates")
    Trial(first, state=tmp_path / "state").feed({"a": rows, "b": rows.slice(0, 500), "c": rows})
    again = opened()
    said = again.explain("candidates")
    assert "input  a     500 rows of a  (sampled)" in said, "how many pass the selection was sampled"
    assert "input  b     500 rows of b  (measured in this checkpoint)" in said
    assert "(assumed)" not in said
    assert "as before: the state in the checkpoint was made by this plan" in again.explain()
    assert "~5 k results, 5 k measured, x1" in again.explain(analyze=True)
    assert again.topology == first.topology, "the plan stays"
    given = opened().options(statistics=weft.Statistics({"b": 7.0}))
    assert "input  b     7 rows of b  (given)" in given.explain("candidates")
