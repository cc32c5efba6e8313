"""Notebooks: what shows itself as HTML, `%%weft`, the live view; and the notebooks of examples/ run."""

from __future__ import annotations

import os
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import pyarrow as pa
import pytest
from IPython.core.interactiveshell import InteractiveShell
from nbclient import NotebookClient

import weft
from tests.observe.test_board import batch
from weft.notebook import find_session, run_cell
from weft.observe.live import LiveLine, choose_live
from weft.observe.notice import Notice
from weft.observe.report import Tally
from weft.observe.view import LiveView, in_notebook

ROOT = Path(__file__).parent.parent
ROWS = pa.table({"k": [1, 2], "v": ["<b>", "y"]})


class Checker(HTMLParser):
    """Reads HTML, and sees whether every tag is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("br", "path", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def read(markup: str | None) -> str:
    """The text of some HTML, which is well-formed and loads nothing."""
    assert markup is not None
    checker = Checker()
    checker.feed(markup)
    assert checker.open == []
    assert "src=" not in markup
    return checker.text


def session(root: Path) -> weft.Session:
    s = weft.Session(root / "state", workers=1)
    for name in "ab":
        s.stream(name, weft.read.batches([ROWS]))
    return s


def test_sessions_queries_and_plans_show_themselves(tmp_path: Path) -> None:
    s = session(tmp_path)
    q = s.query("pairs", "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k AND a.v <> '<i>'").to_memory()
    assert "checkpoint" in read(s._repr_html_())
    assert "a a, b b" in read(q._repr_html_())
    plan = s.explain()
    assert "emit pairs" in read(plan._repr_html_())  # type: ignore[attr-defined]
    assert "query pairs, in short" in plan


def test_progress_and_reports_show_themselves() -> None:
    tally = Tally()
    notice = Notice("kind", "look <here>", "detail", "hint", "action()")
    tally.add(batch(0, 10, notice=notice))
    said = read(tally.report(2.0)._repr_html_())
    assert "stream orders" in said
    assert "look <here>" in said
    assert "batch 0, 0.25 s" in read(batch(0, 10)._repr_html_())


def test_outside_of_a_notebook_a_line_shows_the_run() -> None:
    assert not in_notebook()
    assert isinstance(choose_live(None), LiveLine)
    view = LiveView()
    assert choose_live(view) is view


def test_the_live_view_writes_over_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    class Handle:
        def update(self, html: object) -> None:
            shown.append(("update", html.data))  # type: ignore[attr-defined]

    def display(html: object, display_id: bool) -> Handle:
        shown.append(("display", html.data))  # type: ignore[attr-defined]
        return Handle()

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr("weft.observe.view.LEAST", 0.0)
    view = LiveView()
    view.close()  # nothing has come
    assert shown == []
    view.show(batch(0, 10))
    view.tell(Notice("kind", "look here", "d", "h", "a"))
    view.show(batch(1, 20))
    view.close()
    assert [how for how, _ in shown] == ["display", "update", "update"]
    last = read(shown[-1][1])
    assert "ended: 2 batches" in last
    assert "look here" in last


@pytest.mark.parametrize(
    ("line", "cell", "message"),
    [
        ("", "SELECT a.k FROM a", "a SELECT needs a name"),
        ("q --colour red", "SELECT a.k FROM a", "unrecognized arguments"),
        ("q --session t", "SELECT a.k FROM a", "not clear which session"),
        ("q", "SELECT a.nothing FROM a", "nothing"),
        ("", "CREATE SOMETHING a;", "SOMETHING"),
    ],
)
def test_what_a_cell_may_not_say_is_refused(line: str, cell: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(weft.WeftError, match=message) as error:
        run_cell(line, cell, {"s": session(tmp_path)})
    assert error.value.hint or error.value.detail


def test_the_session_of_a_cell_is_found(tmp_path: Path) -> None:
    one, other = session(tmp_path / "1"), session(tmp_path / "2")
    assert find_session(None, {"x": one, "y": 7, "again": one}) is one
    assert find_session(None, {"s": one, "t": other}) is one
    assert find_session("t", {"s": one, "t": other}) is other
    with pytest.raises(weft.QueryError, match="not clear"):
        find_session(None, {"u": one, "t": other})
    with pytest.raises(weft.QueryError, match="no session"):
        find_session(None, {"u": 1})


def test_the_extension_brings_the_cell(tmp_path: Path) -> None:
    shell = InteractiveShell.instance()
    try:
        weft.load_ipython_extension(shell)
        shell.user_ns["s"] = session(tmp_path)
        plan = shell.run_cell_magic("weft", "pairs --plan", "SELECT a.k FROM a JOIN b ON a.k = b.k")
        assert "query pairs, in short" in plan
        assert shell.user_ns["pairs"].name == "pairs"
        again = shell.run_cell_magic("weft", "pairs --plan", "SELECT b.k FROM a JOIN b ON a.k = b.k")
        assert "query pairs, in short" in again
    finally:
        InteractiveShell.clear_instance()


@pytest.mark.spark
@pytest.mark.parametrize("name", ["first_steps", "from_spark_joins"])
def test_notebooks_of_the_examples_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    assert all(cell.outputs or cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
    kinds = [output.output_type for cell in notebook.cells for output in cell.get("outputs", ())]
    assert "error" not in kinds
    drawn = [output for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert any("<svg" in output["data"].get("text/html", "") for output in drawn)
    assert any("ended: 1 batch" in output["data"].get("text/html", "") for output in drawn)
