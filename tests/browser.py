"""A real browser for the tests of the page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MISSING = "there is no Chromium on PATH: make browser installs it"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, without a window.  Without one, tests fail in CI and are left out elsewhere.

    For one module at a time: while Playwright is open, this thread has an event loop that runs.
    """
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield made
        made.close()
