"""The page in a real browser, over checkpoints that were made without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.console.kit import Clock, Run, declare, make_checkpoint
from tests.console.viewing import PAGES, life, says, viewing, visit, visit_all
from weft.console.controls import Choice, Controls
from weft.console.serve import Console, serve
from weft.observe.notice import Notice

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_every_page_of_a_stopped_session(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        life(page, "stopped")
        says(page, "worker 1 has 3 times the work")
        visit_all(page)
        says(page, "the run was stopped")
        assert page.inner_text("main").count("the run was stopped") == 1
    served.close()


def test_numbers_move_as_batches_come_and_the_end_is_said(browser: Browser, tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    served = serve(run.root, Console(port=0))
    with viewing(browser, served) as page:
        life(page, "running")
        run.batch(1000, 5)
        page.wait_for_function("() => document.querySelector('.tile b')?.textContent === '3 k/s'")
        run.batch(3000, 5)
        page.wait_for_function("() => document.querySelector('.tile b')?.textContent === '6 k/s'")
        run.end()
        life(page, "stopped")
        run.history.begin(1.0)
        life(page, "running")
    served.close()


def test_lost_contact_is_said_and_found_again(browser: Browser, tmp_path: Path) -> None:
    run = Run(declare(tmp_path), Clock())
    run.batch()
    first = serve(run.root, Console(port=0, token="t"))
    with viewing(browser, first) as page:
        life(page, "running")
        first.close()
        life(page, "lost contact")
        page.wait_for_function("() => document.getElementById('life').dataset.state === 'lost'")


def test_a_stopped_session_is_not_called_lost(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        life(page, "stopped")
        served.close()
        page.wait_for_function("() => window.weft.contact === false")
        assert page.inner_text("#life").startswith("stopped")


def test_a_query_is_seen_alone_and_a_store_shows_its_users(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path, queries=3), Console(port=0))
    with viewing(browser, served) as page:
        visit(page, "plan")
        everything = page.locator(".node").count()
        page.click(".chip:has-text('q1')")
        page.wait_for_function(f"() => document.querySelectorAll('.node').length < {everything}")
        page.click(".chip:has-text('all')")
        page.locator(".node.store").first.focus()
        page.keyboard.press("Enter")
        side = page.inner_text("aside")
        assert "Rows by worker, skew 1.33" in side
        assert "Used by 3 queries" in side
        assert "segments" in side
    served.close()


def test_a_query_shows_its_text_and_what_was_weighed(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        visit(page, "queries")
        page.click("table .link >> nth=0")
        page.wait_for_selector("text=What else was weighed")
        assert "FROM a JOIN b ON a.k = b.k" in page.inner_text("main pre")
        page.fill("input[type=search]", "nothing")
        page.wait_for_selector("text=No query has such a name")
    served.close()


def test_keys_go_to_pages_and_tabs_can_be_reached(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        for number, name in enumerate(PAGES, 1):
            page.keyboard.press(str(number))
            page.wait_for_selector(f"#tabs a[aria-current][href='#{name}']")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "To the page"
    served.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_dark_and_light(browser: Browser, tmp_path: Path, scheme: str) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served, color_scheme=scheme) as page:
        for quiet in ("--text", "--quiet", "--warn", "--bad", "--good", "--accent"):
            assert (
                contrast(
                    page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('{quiet}')"),
                    page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--card')"),
                )
                >= 4.5
            )
        page.click("#theme")
        other = "light" if scheme == "dark" else "dark"
        assert page.evaluate("document.documentElement.dataset.theme") == other
    served.close()


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG has it."""

    def light(text: str) -> float:
        parts = (int(text.strip()[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_phone_shows_all_pages_without_scrolling_sideways(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        page.set_viewport_size({"width": 390, "height": 800})
        for name in PAGES:
            visit(page, name)
            page.wait_for_function("() => document.documentElement.scrollWidth <= 390")
    served.close()


def test_a_hundred_queries_are_drawn_and_found(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path, queries=100, batches=2), Console(port=0))
    with viewing(browser, served) as page:
        visit_all(page)
        visit(page, "plan")
        says(page, "100 queries")
        page.click(".chip:has-text('q99')")
        page.wait_for_selector(".node.probe")
        visit(page, "queries")
        page.fill("input[type=search]", "q42")
        page.wait_for_function("() => document.querySelectorAll('table .link').length === 1")
    served.close()


def test_what_users_write_is_text_and_nothing_else(browser: Browser, tmp_path: Path) -> None:
    session = declare(tmp_path, 0)
    session.query("q", "SELECT a.v, '<img src=x onerror=alert(1)>' AS t FROM a JOIN b ON a.k = b.k").to_memory()
    run = Run(session, Clock())
    run.batch(1, 1, Notice("k", "<img src=x onerror=alert(1)>", "<b>d</b>", "<b>h</b>", "<b>a</b>"))
    served = serve(run.root, Console(port=0))
    with viewing(browser, served) as page:
        says(page, "<img src=x")
        visit_all(page)
        visit(page, "queries/q")
        page.wait_for_selector("text=onerror=alert(1)")
        assert page.locator("main img").count() == 0
    served.close()


def test_changes_ask_first_and_say_what_was_refused(browser: Browser, tmp_path: Path) -> None:
    done: list[str] = []
    served = serve(
        make_checkpoint(tmp_path),
        Console(port=0, controls=Controls(drop=done.append, stop=lambda: done.append("stop"))),
    )
    with viewing(browser, served) as page:
        visit(page, "queries")
        page.click("text=Stop the run")
        page.click("dialog >> text=Cancel")
        assert done == []
        page.click("text=Stop the run")
        with page.expect_response("**/api/control/stop"):
            page.click("dialog >> text=Stop it")
        page.click("table .link >> nth=0")
        page.click("text=Drop this query")
        with page.expect_response("**/api/control/drop"):
            page.click("dialog >> text=Drop it")
        assert done == ["stop", "q0"]
    served.close()


def test_a_viewer_chooses_where_that_is_offered(browser: Browser, tmp_path: Path) -> None:
    chosen = {"workers": "2"}
    choices = (Choice("workers", "Workers", ("1", "2", "4"), lambda: chosen["workers"]),)
    served = serve(make_checkpoint(tmp_path), Console(port=0, controls=Controls(choices=choices, choose=chosen.update)))
    with viewing(browser, served) as page:
        assert page.input_value("select[name=workers]") == "2"
        with page.expect_response("**/api/control/choose"):
            page.select_option("select[name=workers]", "4")
        assert chosen == {"workers": "4"}
    served.close()


def test_a_link_is_shared_with_another_browser(browser: Browser, tmp_path: Path) -> None:
    served = serve(make_checkpoint(tmp_path), Console(port=0))
    with viewing(browser, served) as page:
        page.click("#share")
        link = page.inner_text("dialog pre")
        other = browser.new_context()
        seen = other.new_page()
        seen.goto(link)
        seen.wait_for_selector(".tile b")
        again = browser.new_context()
        assert again.new_page().goto(link).status == 401  # type: ignore[union-attr]
        other.close()
        again.close()
    served.close()


def test_parts_of_queries_have_no_names_but_are_drawn(browser: Browser, tmp_path: Path) -> None:
    session = declare(tmp_path, 1)
    session.query("g", "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k").to_memory()
    session.query(
        "d", "SELECT g.k, g.n, c.v FROM (SELECT a.k, count(*) AS n FROM a GROUP BY a.k) g JOIN c ON c.k = g.k"
    ).to_memory()
    session.query(
        "l", "SELECT a.v AS x, b.v AS y FROM a LEFT JOIN b ON a.k = b.k WITHIN INTERVAL '9' SECOND"
    ).to_memory()
    run = Run(session, Clock())
    run.batch()
    served = serve(run.root, Console(port=0))
    with viewing(browser, served) as page:
        assert "#" not in page.inner_text("main")
        visit(page, "plan")
        for name in ("all", "g", "d", "l"):
            page.click(f".chip >> text=/^{name}$/")
            page.wait_for_selector(".node.result")
            assert "#" not in page.inner_text("main")
        page.click(".chip >> text=/^d$/")
        page.wait_for_selector(".node.stream >> text=derived rows")
    served.close()
