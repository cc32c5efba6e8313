"""A demonstration to look at: a steady job over five streams in the console, whose plan the viewer chooses.

The scheme (how rows are spread over the workers), the local join and the number of workers can be changed while it
runs, as in the demonstration of Squall (6); so can the skew.  What they do is seen on the pages Workers and Now.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from weft.console.controls import Choice, Controls
from weft.console.serve import Console
from weft.demo.cluster import LATENESS, QUERIES, STREAMS, Feeder
from weft.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMES = ("by cost", "hash", "random", "hybrid")
LOCAL = ("traditional", "kept joins")
WORKERS = ("1", "2", "4", "8")
SKEWS = ("comes and goes", "never", "always")
ABOUT = (
    "The scheme says how rows are spread over the workers; kept joins are those of DBToaster. The plan changes with "
    "the next batch, and no result is lost. Look at the skew degree and the replication on the page Workers."
)


def strategy(scheme: str, local: str) -> str:
    """The strategy behind two choices."""
    if scheme == "by cost":
        return "auto" if local == "traditional" else "views"
    return f"hypercube:{scheme}" + ("" if local == "traditional" else "+views")


class LiveDemo:
    """A session that goes on until it is stopped."""

    def __init__(
        self,
        folder: Path,
        seed: int = 1,
        spark: SparkSession | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.feeder = Feeder(folder / "streams", seed, clock=clock)
        self.chosen = {"scheme": SCHEMES[0], "local": LOCAL[0], "workers": "2", "skew": SKEWS[0]}
        self.session = self._declare(folder, spark)

    def _declare(self, folder: Path, spark: SparkSession | None) -> Session:
        import weft

        workers = int(self.chosen["workers"])
        session = weft.Session(checkpoint=str(folder / "demo"), spark=spark, workers=workers, progress=False)
        for name in STREAMS:
            source = weft.read.parquet(str(folder / "streams" / name))
            session.stream(name, source, event_time="ts", lateness=LATENESS)
        for name, sql in QUERIES.items():
            session.query(name, sql).to_parquet(str(folder / "results" / name))
        session.analyze()
        return session

    def controls(self) -> Controls:
        """What a viewer may choose."""
        offers = {"scheme": ("Scheme", SCHEMES), "local": ("Local join", LOCAL), "workers": ("Workers", WORKERS)}
        offers["skew"] = "Skew", SKEWS
        choices = (Choice(name, label, values, self._reader(name)) for name, (label, values) in offers.items())
        return Controls(choices=tuple(choices), choose=self.choose, about=ABOUT)

    def _reader(self, name: str) -> Callable[[], str]:
        return lambda: self.chosen[name]

    def choose(self, wanted: Mapping[str, str]) -> None:
        """Change what was chosen; if the session refuses, nothing has changed."""
        new = {**self.chosen, **wanted}
        plan = strategy(new["scheme"], new["local"])
        if any(new[name] != self.chosen[name] for name in ("scheme", "local", "workers")):
            # A plan that spreads frequent values must know them.
            seen = self.session.observed() if self.session.checkpoint.last >= 0 else None
            self.session.options(strategy=plan, workers=int(new["workers"]), statistics=seen)
        self.feeder.skew = new["skew"]
        self.chosen = new


def run_live(
    *, seed: int = 1, keep: Path | None = None, port: int | None = None, bind: str = "127.0.0.1"
) -> int | None:
    """Show the demonstration until it is stopped; the signal that stopped it."""
    with tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True) as made:
        demo = LiveDemo(keep or Path(made), seed)
        with demo.session:
            demo.feeder.start()
            try:
                handle = demo.session.start("1 second", console=Console(bind=bind, port=port, controls=demo.controls()))
                sys.stderr.write("open the address above; Ctrl-C ends the demonstration\n")
                report = handle.finish()
            finally:
                demo.feeder.close()
            print(report)
    return report.signal
