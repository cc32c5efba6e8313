"""Takes the pictures of docs/console.md: python scripts/screenshots.py.  Needs Chromium; takes about two minutes.

They show the demonstration while it runs, so numbers differ from time to time.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from weft.console.serve import Console
from weft.demo.live import LiveDemo

OUT = Path(__file__).resolve().parents[1] / "docs" / "images"
WIDE, PHONE = {"width": 1200, "height": 820}, {"width": 390, "height": 780}


def main() -> None:
    """Run the demonstration, change its plan twice, and take a picture of every page."""
    OUT.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True) as folder,
        sync_playwright() as kit,
    ):
        browser = kit.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        demo = LiveDemo(Path(folder))
        with demo.session:
            demo.feeder.start()
            served = demo.session.start("1 second", console=Console(port=0, controls=demo.controls())).console
            assert served is not None
            light = browser.new_context(viewport=WIDE, color_scheme="light").new_page()
            light.goto(served.link())
            for batches, choice in ((10, {"scheme": "hash"}), (20, {"workers": "4", "skew": "always"}), (45, {})):
                light.wait_for_function(f"() => (window.weft.points.at(-1)?.batch ?? 0) >= {batches}", timeout=300_000)
                demo.choose(choice)
            take(light, "now", "plan", "queries/failing_machines", "workers", "history")
            dark = browser.new_context(viewport=WIDE, color_scheme="dark").new_page()
            dark.goto(served.link())
            take(dark, "plan", suffix="-dark")
            phone = browser.new_context(viewport=PHONE, color_scheme="light").new_page()
            phone.goto(served.link())
            take(phone, "now", suffix="-phone")
            demo.feeder.close()
        browser.close()


def take(page: Page, *names: str, suffix: str = "") -> None:
    """A picture of each page, a little after it was opened."""
    page.wait_for_selector(".tile b", timeout=60_000)
    for name in names:
        page.evaluate(f"location.hash = '{name}'")
        page.wait_for_timeout(2500)
        if name == "plan":
            page.click(".chip:has-text('failing_machines')")
            page.locator(".node.store", has_text="task").first.click()
        page.screenshot(path=OUT / f"console-{name.partition('/')[0]}{suffix}.png")


if __name__ == "__main__":
    main()
