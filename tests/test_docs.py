"""Every example in README and docs is run, every SQL example is planned, and every link has a target."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.query.model import Stream
from weft.script import open_session, parse_script
from weft.sql import to_query

ROOT = Path(__file__).parent.parent
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
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target
