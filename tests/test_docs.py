"""Every example in README and docs is run, every SQL example is planned, and every link has a target."""

from __future__ import annotations

import inspect
import pickle
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft import errors
from weft.cli import commands
from weft.query.model import Stream
from weft.script import open_session, parse_script
from weft.sql import script, to_query

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import reference  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIME = pa.timestamp("us")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


TABLES = {
    "customer": pa.table(
        {
            "c_custkey": [1, 2],
            "c_name": ["Ann", "Bob"],
            "c_segment": ["BUILDING", "FURNITURE"],
            "c_ts": pa.array([0, 1], TIME),
        }
    ),
    "orders": pa.table(
        {
            "o_orderkey": [10, 11],
            "o_custkey": [1, 2],
            "o_limit": [100.0, 100.0],
            "o_ts": pa.array([2, 3], TIME),
        }
    ),
    "lineitem": pa.table(
        {
            "l_orderkey": [10, 10, 11],
            "l_partkey": [7, 8, 9],
            "l_price": [150.0, 50.0, 500.0],
            "l_ts": pa.array([4, 5, 6], TIME),
        }
    ),
}


def write_tables(folder: Path) -> None:
    for name, table in TABLES.items():
        (folder / "in" / name).mkdir(parents=True)
        pq.write_table(table, folder / "in" / name / "0.parquet")


@pytest.mark.spark
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_tables(tmp_path)
    scope: dict[str, object] = {}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name}[{number}]", "exec"), scope)
    if page.name == "README.md":
        rows = pq.read_table(tmp_path / "out" / "late_orders").to_pylist()
        assert rows == [{"o_orderkey": 10, "l_partkey": 7, "c_name": "Ann"}]


STREAMS = {name: Stream(name, table.schema, event_time=f"{name[0]}_ts") for name, table in TABLES.items()}


@pytest.mark.parametrize("text", blocks(ROOT / "docs" / "sql.md", "sql"))
def test_sql_examples_are_understood(text: str) -> None:
    assert to_query(text, STREAMS).outputs


@pytest.mark.parametrize("text", blocks(ROOT / "docs" / "sql.md", "sql error"))
def test_refused_sql_examples_are_refused(text: str) -> None:
    with pytest.raises(weft.ParseError) as refusal:
        to_query(text, STREAMS)
    assert "^" in str(refusal.value)
    assert refusal.value.hint


@pytest.mark.parametrize("text", blocks(ROOT / "docs" / "running.md", "sql script"))
def test_scripts_are_understood(text: str, tmp_path: Path) -> None:
    write_tables(tmp_path)
    assert "query matched" in open_session(parse_script(text, folder=tmp_path)).explain()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        if target.startswith(("http:", "https:")):
            continue
        found = page.parent / target if target else page
        assert found.exists(), target
        if anchor and found.suffix == ".md":
            assert anchor in headings(found), f"{target}#{anchor}"


def headings(page: Path) -> set[str]:
    """The anchors of a page: its headings in lower case, words joined by dashes."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


# ------------------------------------------------------------------------------------ pages made from code


def test_every_error_has_a_place_on_the_page_of_errors() -> None:
    page = reference.errors_page()
    places = reference.find_places()
    assert len(places) > 150
    assert [place.anchor for place in places if f'<a id="{place.anchor}"></a>' not in page] == []
    anchors = re.findall(r'<a id="([^"]+)"', page)
    assert len(anchors) == len(set(anchors))


@pytest.mark.parametrize(
    "fail",
    [
        lambda: weft.Session("unused").stream("a", 7),
        lambda: to_query("SELECT a.k FROM nothing a", STREAMS),
        lambda: to_query("SELECT FROM", STREAMS),
        lambda: weft.read.parquet(["a"]),  # type: ignore[arg-type]
        lambda: parse_script("SET colour = 'red';", folder=Path()),
        lambda: open_session(parse_script("CREATE STREAM a FROM PARQUET 'gone';", folder=Path("/nowhere"))),
    ],
)
def test_an_error_names_its_place_on_the_page(fail: Callable[[], object]) -> None:
    with pytest.raises(weft.WeftError) as error:
        fail()
    assert error.value.anchor in {place.anchor for place in reference.find_places()}
    again = pickle.loads(pickle.dumps(error.value))
    assert again.anchor == error.value.anchor
    told = errors.from_wire(errors.to_wire(error.value))
    assert told is not None
    assert told.anchor == error.value.anchor


def test_the_page_of_the_api_has_every_public_name() -> None:
    page = reference.api_page()
    assert [
        name for name in weft.__all__ if name != "__version__" and f"`{name}`" not in page.replace("weft.", "")
    ] == []
    inherited = {"stream", "table", "view", "function", "query", "subscriptions", "options", "run", "explain"}
    assert [name for name in sorted(inherited) if f"`Session.{name}`" not in page] == []


def test_the_page_of_the_command_line_has_every_command_and_exit_code() -> None:
    page = reference.cli_page()
    for command in commands.COMMANDS:
        assert f"## weft {command.name}" in page
        assert [
            option.name
            for option in command.options
            if f"`{option.metavar if option.is_positional else option.name}" not in page
        ] == []
    assert "| 143 |" in page


def test_the_page_of_settings_has_every_setting() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    known = [
        name
        for function in (weft.Session.__init__, weft.Session.options, weft.Session.stream, weft.Session.query)
        for name in inspect.signature(function).parameters
        if name not in ("self", "name", "source", "query")
    ]
    known += [*script._SETTINGS, *script._STREAM_OPTIONS, *script._QUERY_OPTIONS]
    known += {
        name
        for file in (ROOT / "weft").rglob("*.py")
        for name in re.findall(r"WEFT_[A-Z]+(?:_[A-Z]+)*", file.read_text())
    }
    assert sorted({name for name in known if f"`{name}`" not in page}) == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text()
    pages = [page.relative_to(ROOT / "docs") for page in PAGES if (ROOT / "docs") in page.parents]
    assert [str(page) for page in pages if page.parent.name != "design" and f" {page}\n" not in nav] == []


POINT = r"(?<!\\)\b(?:[AC-E][0-9]{2}|X15|[GK]-[A-Z]?[0-9]{1,2})\b"
"""How comments name points of the papers; other code has no words like these in comments and docstrings."""


def test_every_point_of_the_papers_is_explained() -> None:
    page = (ROOT / "docs" / "papers.md").read_text()
    named = {
        point
        for folder in ("weft", "bench", "docs")
        for file in (ROOT / folder).rglob("*.*")
        if file.suffix in (".py", ".md") and ".venvs" not in file.parts
        for point in re.findall(POINT, file.read_text())
    }
    assert sorted(point for point in named if point not in page) == []
    places = re.findall(r"`((?:weft|bench|tests)/[\w/.]+)`", page)
    assert [place for place in places if not (ROOT / place).exists()] == []
