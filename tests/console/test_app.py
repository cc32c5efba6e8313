"""The server: who may look, what it answers, and that it changes nothing unless asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from tests.console.kit import Answer, Clock, Run, declare, make_checkpoint
from weft.console.app import ASSETS
from weft.console.controls import Choice, Controls
from weft.console.serve import Console, Served, serve
from weft.errors import QueryError

PAGE = 300_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = serve(make_checkpoint(tmp_path), Console(port=0))
    yield made
    made.close()


def enter(served: Served) -> dict[str, str]:
    """The cookie of a browser that has opened a link."""
    answer = Answer(served.link())
    assert answer.status == 303
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


def test_a_link_works_once(served: Served) -> None:
    link = served.link()
    first, second = Answer(link), Answer(link)
    assert (first.status, first.headers["location"]) == (303, "/")
    assert "HttpOnly" in first.headers["set-cookie"]
    assert "samesite=strict" in first.headers["set-cookie"].lower()
    assert second.status == 401


@pytest.mark.parametrize(
    "path", ["", "api/state", "api/plan", "api/queries", "api/rows", "api/history", "events", "grafana.json"]
)
def test_nothing_is_shown_without_a_cookie(served: Served, path: str) -> None:
    assert Answer(served.address + path).status == 401


def test_a_cookie_or_the_token_opens_everything(served: Served) -> None:
    for headers in (enter(served), {"authorization": f"Bearer {served.token}"}):
        for path in (
            "",
            "api/state",
            "api/plan",
            "api/queries",
            "api/rows?query=q0",
            "api/history?seconds=60",
            "grafana.json",
        ):
            assert Answer(served.address + path, headers).status == 200
    assert Answer(served.address + "api/state", {"authorization": "Bearer wrong"}).status == 401
    assert Answer(served.address + "api/history?seconds=x", enter(served)).status == 400


def test_metrics_are_open_on_loopback_only(tmp_path: Path, served: Served) -> None:
    assert 'weft_rows_total{stream="a"} 500.0' in Answer(served.address + "metrics").text
    wide = serve(make_checkpoint(tmp_path / "other"), Console(bind="0.0.0.0", port=0, token="known"))
    try:
        assert Answer(wide.address + "metrics").status == 401
        assert Answer(wide.address + "metrics", {"authorization": "Bearer known"}).status == 200
    finally:
        wide.close()


def test_a_name_that_is_not_ours_is_refused(served: Served) -> None:
    assert Answer(served.address + "metrics", {"host": "evil.example"}).status == 421


def test_the_browser_is_told_to_load_nothing_from_elsewhere(served: Served) -> None:
    answer = Answer(served.address, enter(served))
    assert "default-src 'self'" in answer.headers["content-security-policy"]
    assert "http" not in answer.text.replace("http://www.w3.org", "")


@pytest.mark.parametrize("name", ["../app.py", "..%2Fapp.py", "nothing.js", "grafana.json"])
def test_only_files_of_the_page_are_given_out(served: Served, name: str) -> None:
    assert Answer(f"{served.address}assets/{name}", enter(served)).status == 404


def test_the_page_is_small_and_its_parts_have_licences() -> None:
    assert sum(path.stat().st_size for path in ASSETS.iterdir()) < PAGE
    assert "MIT" in (ASSETS / "uplot.LICENSE.txt").read_text()


def test_new_batches_are_told_as_they_come(tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    made = serve(run.root, Console(port=0))
    try:
        request = urllib.request.Request(made.address + "events", headers=enter(made))
        with urllib.request.urlopen(request, timeout=30) as stream:
            assert stream.readline() == b"retry: 1000\n"
            assert made.viewers == 1
            run.batch(123)
            assert [line["batch"] for line in messages(stream)["lines"]] == [0]
            run.end()
            assert messages(stream)["life"]["state"] == "stopped"
    finally:
        made.close()


def messages(stream: Any) -> Any:
    """The next message that has lines."""
    for line in stream:
        if line.startswith(b"data: ") and (found := json.loads(line[6:]))["lines"]:
            return found
    raise AssertionError("the stream has ended")


# ------------------------------------------------------------------------------------------------ changes


def ask(served: Served, what: str, body: dict[str, str], **headers: str) -> Answer:
    known = {**enter(served), "x-weft": "1", "content-type": "application/json", **headers}
    return Answer(f"{served.address}api/control/{what}", known, json.dumps(body).encode())


def test_a_console_without_control_changes_nothing(served: Served) -> None:
    answer = ask(served, "stop", {"confirm": "stop"})
    assert answer.status == 409
    assert "cannot stop" in answer.text
    assert json.loads(Answer(served.address + "api/state", enter(served)).text)["control"]["offers"] == []


def test_changes_need_our_header_and_a_second_word(tmp_path: Path) -> None:
    done: list[str] = []
    controls = Controls(drop=done.append, stop=lambda: done.append("stop"))
    made = serve(make_checkpoint(tmp_path), Console(port=0, controls=controls))
    try:
        assert ask(made, "drop", {"query": "q0", "confirm": "q0"}, **{"x-weft": "0"}).status == 403
        assert ask(made, "drop", {"query": "q0"}).status == 409
        assert ask(made, "add", {"query": "q0", "confirm": "q0"}).status == 409
        assert done == []
        assert ask(made, "drop", {"query": "q0", "confirm": "q0"}).status == 200
        assert ask(made, "stop", {"confirm": "stop"}).status == 200
        assert done == ["q0", "stop"]
    finally:
        made.close()


def test_what_the_session_refuses_is_said_with_its_hint(tmp_path: Path) -> None:
    def add(name: str, sql: str, into: str) -> None:
        raise QueryError(f"no {name}", detail=sql, hint=into)

    made = serve(make_checkpoint(tmp_path), Console(port=0, controls=Controls(add=add)))
    try:
        answer = ask(made, "add", {"query": "n", "sql": "SELECT", "into": "out", "confirm": "n"})
        assert (answer.status, json.loads(answer.text)) == (409, {"error": "no n", "detail": "SELECT", "hint": "out"})
        assert ask(made, "add", {"query": "n", "confirm": "n"}).status == 400
    finally:
        made.close()


def test_only_values_that_are_offered_are_chosen(tmp_path: Path) -> None:
    chosen: dict[str, str] = {"scheme": "hash"}
    choices = (Choice("scheme", "Scheme", ("hash", "random"), lambda: chosen["scheme"]),)
    made = serve(make_checkpoint(tmp_path), Console(port=0, controls=Controls(choices=choices, choose=chosen.update)))
    try:
        assert ask(made, "choose", {"scheme": "evil", "other": "x"}).status == 200
        assert chosen == {"scheme": "hash"}
        answer = ask(made, "choose", {"scheme": "random"})
        assert json.loads(answer.text)["control"]["choices"][0]["value"] == "random"
    finally:
        made.close()


def test_a_link_for_another_browser_comes_from_an_open_page(served: Served) -> None:
    answer = Answer(served.address + "api/link", {**enter(served), "x-weft": "1"}, b"{}")
    assert Answer(json.loads(answer.text)["link"]).status == 303


# ------------------------------------------------------------------------------------------------ starting


def test_a_port_that_is_taken_is_said(served: Served, tmp_path: Path) -> None:
    with pytest.raises(weft.HostError, match="cannot answer") as refused:
        serve(tmp_path, Console(port=served.port))
    assert refused.value.hint


def test_without_a_port_another_console_takes_a_free_one(tmp_path: Path) -> None:
    root = make_checkpoint(tmp_path)
    one, two = serve(root), serve(root)
    try:
        assert one.port != two.port
    finally:
        one.close()
        two.close()


def test_the_core_loads_nothing_of_the_web() -> None:
    code = """
import sys, weft, weft.session, weft.cli, weft.console.serve
weft.Session, weft.Console
found = [name for name in ("starlette", "uvicorn", "anyio", "opentelemetry") if name in sys.modules]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
