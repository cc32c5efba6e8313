"""Drawn plans: well-formed, alone, the same every time, and no box covers another."""

from __future__ import annotations

import itertools
import random
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import weft
from weft.explain import STAGES
from weft.explain.chart import Link
from weft.explain.layout import lay_out

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> weft.Session:
    s = weft.Session(tmp_path_factory.mktemp("drawn") / "state", workers=2)
    for name in ("orders", "lines", "parts"):
        s.stream(name, weft.read.batches([pa.table({"k": [1, 2], "v": ["a", "b"]})]))
    s.query("two", "SELECT o.k FROM orders o JOIN lines l ON o.k = l.k WHERE o.v <> '<b>&\"'")
    s.query(
        "three", "SELECT o.k FROM orders o JOIN lines l ON o.k = l.k JOIN parts p ON p.k = l.k", strategy="left_deep"
    )
    return s


@pytest.mark.parametrize("stage", STAGES)
def test_drawing_is_well_formed_and_the_same_every_time(session: weft.Session, stage: str) -> None:
    drawn = session.explain(stage, "svg")
    root = ElementTree.fromstring(drawn)
    assert root.tag == f"{SVG}svg"
    assert drawn == session.explain(stage, "svg")
    assert drawn.count("http") == 1  # the name of the format; nothing is loaded


def test_drawing_names_streams_stores_and_queries(session: weft.Session) -> None:
    root = ElementTree.fromstring(session.explain("topology", "svg"))
    said = {text.text for text in root.iter(f"{SVG}text")}
    assert {"orders", "lines", "parts", "emit two", "emit three"} <= said
    assert any('<b>&"' in str(text) for text in said)


def test_boxes_do_not_cover_each_other(session: weft.Session) -> None:
    root = ElementTree.fromstring(session.explain("topology", "svg"))
    boxes = [
        tuple(float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
        for box in root.iter(f"{SVG}rect")
        if box.get("class", "").startswith("box")
    ]
    assert len(boxes) > 10
    for (x, y, width, height), (u, v, wide, high) in itertools.combinations(boxes, 2):
        assert x + width <= u or u + wide <= x or y + height <= v or v + high <= y


def test_page_stands_alone_and_has_drawing_and_text(session: weft.Session) -> None:
    page = session.explain("topology", "html")
    assert "<svg" in page
    assert "query two, in short" in page
    assert "v &lt;&gt; &#x27;&lt;b&gt;&amp;" in page
    assert "src=" not in page
    assert "href=" not in page


@pytest.mark.parametrize("seed", range(30))
def test_layers_of_random_charts_hold_boxes_apart(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {f"n{i}": rng.uniform(10, 90) for i in range(rng.randint(1, 25))}
    names = list(sizes)
    links = [
        Link(a, b, (), rng.choice(["-->", "---", "-.->"]))  # circles too: they must not hang
        for a, b in ((rng.choice(names), rng.choice(names)) for _ in range(rng.randint(0, 50)))
        if a != b
    ]
    lay = lay_out(sizes, links, gap=7)
    assert sorted(name for layer in lay.layers for name in layer) == sorted(names)
    for layer in lay.layers:
        for a, b in itertools.pairwise(layer):
            assert lay.across[b] - lay.across[a] >= (sizes[a] + sizes[b]) / 2 + 7 - 1e-6
    assert all(lay.across[name] - sizes[name] / 2 >= -1e-6 for name in names)
    assert all(lay.across[name] + sizes[name] / 2 <= lay.extent + 1e-6 for name in names)
