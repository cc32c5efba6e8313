"""A person at the console: opens a link, goes to pages, and complains about everything the browser complains about."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from weft.console.serve import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PAGES = ("now", "plan", "queries", "workers", "history")
SHOWN = {
    "now": ".tile b", "plan": ".drawing .node", "queries": "table .link", "workers": ".bar i", "history": "canvas",
}  # fmt: skip
"""Page -> something that is there when it is drawn."""
PATIENCE = 60_000


@contextmanager
def viewing(browser: Browser, served: Served, **settings: Any) -> Iterator[Page]:
    """An open console.  At the end the browser must have had nothing to complain about."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, **settings)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(served.address) else said.append(request.url))
    page.goto(served.link())
    page.wait_for_selector(".tile b, .tiles p")
    yield page
    # A server that is gone is what some tests are about; Chromium reports the refused connection.
    left = [line for line in said if "net::ERR_CONNECTION_REFUSED" not in line and "ERR_INCOMPLETE" not in line]
    context.close()
    assert not left, left


def visit(page: Page, name: str) -> None:
    """Go to a page, and wait until it is drawn."""
    page.evaluate(f"location.hash = '{name}'")
    page.wait_for_selector(SHOWN[name.partition("/")[0]])


def visit_all(page: Page) -> None:
    """Go to all pages."""
    for name in PAGES:
        visit(page, name)


def life(page: Page, text: str) -> None:
    """Wait until the page says how the session is."""
    page.wait_for_function(f"() => document.getElementById('life').textContent.startsWith({text!r})")


def says(page: Page, text: str) -> None:
    """Wait until a text is on the page: what a page asks for may come after it is drawn."""
    page.wait_for_function(f"() => document.querySelector('main').innerText.includes({json.dumps(text)})")
