"""What the console costs a session: without one, with one that nobody looks at, and with three viewers.

    python -m bench.console [--batches 60] [--rows 20000] [--rounds 5]

Every round runs the same batches in each setting, in turn, so that a busy machine slows all of them.  A viewer is a
process of its own that does what the page does: it follows the events, and asks for the plan every two seconds.  The
first batches, which compile and warm up, are left out.  Also printed: processor time of the console's thread as a part
of the time of the run, which a busy machine does not change; how large the page is; and how soon it is painted first in
headless Chromium, if that is there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from weft.console.app import ASSETS
from weft.console.serve import Console

WARM = 5
VIEWERS = {"no console": None, "nobody looks": 0, "three viewers": 3}
SQL = """
    SELECT a.v AS x, b.v AS y, c.v AS z
    FROM a WITHIN INTERVAL '10' SECOND
    JOIN b WITHIN INTERVAL '10' SECOND ON a.k = b.k
    JOIN c WITHIN INTERVAL '10' SECOND ON c.m = b.m
"""


def write_input(folder: Path, batches: int, rows: int) -> None:
    random = np.random.default_rng(1)
    for name in "abc":
        (folder / name).mkdir(parents=True)
        for batch in range(batches):
            times = pa.array(batch * 1_000_000 + np.sort(random.integers(0, 1_000_000, rows)), pa.timestamp("us"))
            columns = {key: random.integers(0, 20 * rows, rows) for key in ("k", "m", "v")}
            pq.write_table(pa.table({**columns, "ts": times}), folder / name / f"{batch:05d}.parquet")


def run(root: Path, data: Path, viewers: int | None) -> tuple[float, float]:
    """Seconds in batches after the first ones, and the part of the run that the console's thread has used."""
    session = weft.Session(root / "state", workers=2, progress=False)
    session.options(statistics=weft.Statistics(rows=dict.fromkeys("abc", 1e6)))
    for name in "abc":
        source = weft.read.parquet(data / name, max_files=1)
        session.stream(name, source, event_time="ts", lateness="1 second")
    session.query("joined", SQL).to_parquet(root / "out")
    ended = threading.Event()
    with session:
        handle = session.start(0.001, console=False if viewers is None else Console(port=0))
        looking = []
        for _ in range(viewers or 0):
            assert handle.console is not None
            looking.append(subprocess.Popen([sys.executable, __file__, "--view", handle.console.link()]))
        last = len(list((data / "a").iterdir())) - 1
        while session.checkpoint.last < last:
            ended.wait(0.05)
        used = _processor_time(handle.console)
        report = handle.stop()
    for viewer in looking:
        viewer.terminate()
        viewer.wait()
    return sum(batch.seconds for batch in report.batches[WARM:]), used / report.seconds


def _processor_time(console: Any) -> float:
    """Seconds of a processor that the thread of a console has used."""
    if console is None:
        return 0.0
    fields = Path(f"/proc/self/task/{console._thread.native_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def view(link: str) -> None:
    """Do what the page does, until the console ends."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    opener.open(link).read()
    root = link.partition("?")[0]
    asked = 0.0
    with opener.open(root + "events") as events:
        opener.open(root + "api/state").read()
        for line in events:
            if line.startswith(b"data:") and time.monotonic() - asked > 2:
                opener.open(root + "api/plan").read()
                asked = time.monotonic()


def first_paint(root: Path) -> float | None:
    """Milliseconds until a browser has painted something, the best of five."""
    chromium = shutil.which("chromium")
    if chromium is None:
        return None
    from playwright.sync_api import sync_playwright

    from weft.console.serve import serve

    served = serve(root / "state", Console(port=0))
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for _ in range(5):
            page = browser.new_context().new_page()
            page.goto(served.link())
            page.wait_for_selector(".tile b")
            found.append(page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
        browser.close()
    served.close()
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--view")
    given = parser.parse_args()
    if given.view:
        view(given.view)
        return
    with tempfile.TemporaryDirectory(prefix="weft-bench-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        write_input(folder / "in", given.batches, given.rows)
        spent: dict[str, list[float]] = {name: [] for name in VIEWERS}
        for turn in range(given.rounds):
            for name, viewers in VIEWERS.items():
                seconds, part = run(folder / f"{turn}-{viewers}", folder / "in", viewers)
                spent[name].append(seconds)
                print(f"round {turn + 1}, {name}: {seconds:.2f} s, console thread {100 * part:.2f} %", flush=True)
        base = statistics.median(spent["no console"])
        for name, times in spent.items():
            middle = statistics.median(times)
            print(f"{name:<14} median {middle:.2f} s, {100 * (middle / base - 1):+.1f} %")
        size = sum(path.stat().st_size for path in ASSETS.iterdir())
        paint = first_paint(folder / "0-0")
        print(f"page {size / 1000:.0f} kB" + (f", first paint after {paint:.0f} ms" if paint is not None else ""))


if __name__ == "__main__":
    main()
