"""A session: streams, queries, sinks, one checkpoint, one run.

This is the face that users see.  Behind it are what was declared (`declarations`), the queries (`registering`) and
their plan (`roster`), and the run (`running`).

s = weft.Session(checkpoint="state")
s.stream("orders", weft.read.parquet("in/orders"), event_time="o_ts", lateness="10 seconds")
q = s.query("late_orders", "SELECT ...")
q.to_parquet("out/late_orders")
print(s.run())
"""

from __future__ import annotations

import datetime
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.host.crash import CrashPoint
from weft.host.state.checkpoint import Checkpoint
from weft.host.work import Work
from weft.observe.live import Live
from weft.observe.report import RunReport
from weft.optimizer.choose import Choice
from weft.optimizer.cost.papers import Arrival
from weft.optimizer.plan import SHARINGS, Sharing
from weft.optimizer.wishes import read_statistics, read_wishes
from weft.optimizer.written.plan import Plan
from weft.query.duration import parse_duration
from weft.session.adapting import Following
from weft.session.arguments import (
    check_choice,
    check_path,
    check_whole,
    check_workers,
    refuse_new_policy,
)
from weft.session.outlets import check_sinks, visit_sinks
from weft.session.planning import read_observed
from weft.session.registering import Registering
from weft.session.roster import Roster
from weft.session.run import Handle
from weft.session.running import Running
from weft.session.shown import explain_session, markup_session, show_session
from weft.stats.model import Statistics
from weft.topology.clock import Policy
from weft.topology.model import Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.console.serve import Console


POLICIES: tuple[Policy, ...] = ("min", "max")


class Session(Registering):
    """Streams and the queries that join them, run from one checkpoint."""

    def __init__(
        self,
        checkpoint: str | os.PathLike[str],
        spark: SparkSession | None = None,
        workers: int | None = None,
        *,
        progress: bool | Live | None = None,
    ) -> None:
        """Open a session on a checkpoint folder.

        If `spark` is None, a local Spark session is started.  If `workers` is None, the number is that of the
        checkpoint, or one worker per core.  `progress` shows a live line; None shows it on a terminal only.
        Or it is an object that shows the run: see `weft.observe.live.Live`.
        """
        super().__init__(spark)
        self.checkpoint = Checkpoint(check_path(checkpoint))
        self._roster = Roster(self.checkpoint, self._catalog, self.lock, self._cores)
        self._roster.asked_workers = None if workers is None else check_workers(workers)
        self._running = Running(self, self._roster, self._open_spark, progress)
        self.following = Following()
        """What is wished of plans that follow the data."""
        self.crash_point: CrashPoint | None = None
        """Where the next run dies; for tests."""

    def options(
        self,
        *,
        workers: int | None = None,
        watermark: Policy | None = None,
        sharing: Sharing | None = None,
        strategy: str | Plan | None = None,
        statistics: Statistics | None = None,
        budget: float | str | None = None,
        placement: str | None = None,
        capacity: float | None = None,
        arrival: Arrival | None = None,
        adapt: bool | None = None,
        epoch: str | datetime.timedelta | float | None = None,
        threshold: float | None = None,
    ) -> Session:
        """Set options for planning, for the whole session.  An option that is not given keeps its value.

        While the session runs, its plan changes with them, from the next batch on; `watermark` cannot change then.
        `watermark` says whether the slowest ("min", the default) or the fastest ("max") stream of a query decides
        which rows are late.  `sharing` says what queries have in common: "global" (the default) chooses the plans of
        all queries together, "local" gives each its own best plan and runs equal parts once, "none" runs every query as
        if it were alone.  The other options are explained at :meth:`query`.

        `adapt` says whether plans follow the data; without it they do in :meth:`start` and do not in :meth:`run`.  An
        `epoch` is what statistics are made of: "10 seconds", "1 minute of events" or "20 batches".  A plan is changed
        if another one is predicted to save more than the part `threshold` of the work.  These three count from the
        next run on.
        """
        self.following = self.following.having(adapt, epoch, threshold)
        others = (workers, watermark, sharing, strategy, statistics, budget, placement, capacity, arrival)
        if all(other is None for other in others):
            return self
        if watermark is not None and self.is_running:
            raise refuse_new_policy()
        with self._changing():
            if workers is not None:
                self._roster.asked_workers = check_workers(workers)
            if watermark is not None:
                self._roster.policy = check_choice("watermark", watermark, POLICIES)
            if sharing is not None:
                self._roster.sharing = check_choice("sharing", sharing, SHARINGS)
            self._roster.wishes = replace(
                self._roster.wishes, **read_wishes(strategy, budget, placement, capacity, arrival)
            )
            if (given := read_statistics(statistics)) is not None:
                self._roster.given = self._roster.statistics = given
        return self

    def rescale(self, workers: int) -> None:
        """Go on with another number of workers: from the next batch on, or from the next run on."""
        self.options(workers=workers)

    def analyze(self, sample: int = 100_000, seed: int = 0) -> Statistics:
        """Measure statistics for the queries registered so far, use them for planning, and return them.

        At most `sample` rows of each stream are kept; the same seed draws the same rows.  What was given by
        `options(statistics=...)` wins.  A Spark DataFrame cannot be sampled: its statistics stay unknown.
        """
        queries = [handle.query for handle in self._roster.queries.values()]
        found = self._roster.inputs().measure(queries, self._roster.given, check_whole("sample", sample), seed)
        self._roster.statistics, self._roster.planned = found, None
        return found

    def observed(self) -> Statistics:
        """Statistics from committed batches: rows of all streams, and frequent and distinct values of join keys.

        Pass them to a later session, directly or as JSON: `s.options(statistics=earlier.observed())`.
        """
        return read_observed(self.checkpoint)

    @property
    def watermark(self) -> Policy:
        """Whether the slowest ("min") or the fastest ("max") stream of a query decides which rows are late."""
        return self._roster.policy

    @property
    def sharing(self) -> Sharing:
        """What queries have in common."""
        return self._roster.sharing

    @property
    def workers(self) -> int:
        """How many workers the plan is made for."""
        return self._roster.workers

    @property
    def topology(self) -> Topology:
        """The plan of all queries."""
        return self._roster.topology

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        return self._roster.choices

    def explain(self, stage: str = "topology", format: str = "text", analyze: bool = False) -> str:  # noqa: A002
        """The plan after a stage of planning, in a format for people or programs.

        Stages are "parsed" (the query as written), "resolved" (what it means), "candidates" (the plans that were
        considered, and why one won), "chosen" (that plan as a tree) and "topology" (stores, how long they keep rows
        and why, and what each arriving tuple does).  Formats are "text", "json", "mermaid", "svg" and "html".  In the
        stages "chosen" and "topology", `analyze` shows what the committed batches of the checkpoint did, beside what
        was expected.
        """
        return explain_session(self, stage, format, analyze)

    def run(self, *, console: bool | Console = False) -> RunReport:
        """Join everything that is available now, then return.  Ctrl-C or SIGTERM stops after the current batch.

        `console` shows the run in a browser, see :meth:`start`.
        """
        return self._running.begin(None, console).finish()

    def start(self, every: str | datetime.timedelta | float = "1 second", *, console: bool | Console = False) -> Handle:
        """Run in the background until stopped, looking for new input this often.

        `console=True` shows the session in a browser: the address is printed, and is `h.console.url`.  With
        `weft.Console(...)` you choose the port, the address, and whether the page may change the session.  The console
        stays open when the run has ended, until `s.close()` or the end of the process.
        """
        return self._running.begin(parse_duration(every) / 1_000_000, console)

    def close(self) -> None:
        """Stop the run, if there is one, release the checkpoint, and close the console."""
        self._running.close()

    def __repr__(self) -> str:
        return show_session(self)

    def _repr_html_(self) -> str:
        return markup_session(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self) -> None:
        """Take the checkpoint for this session, as a run does, or refuse.  `s.checkpoint.release()` releases it."""
        self.checkpoint.claim(self._roster.describe(), self._roster.dropped)

    def check(self) -> None:
        """Refuse what a run would refuse because of the checkpoint or the places of results.  Writes nothing."""
        check_sinks(self._roster.queries)
        self.checkpoint.check(self._roster.describe(), self._roster.dropped)
        self.fit()
        if self.checkpoint.exists():
            visit_sinks(self.checkpoint, self._roster.queries, self._roster.kept(), lambda sink: sink.check)

    def adopt(self, found: tuple[Choice, ...]) -> bool:
        """Go on with other plans of the same queries; if they do not fit the state, nothing changes."""
        return self._roster.adopt(found)

    def work(self) -> Work:
        """What a run works on now."""
        return self._roster.work()

    def _open_spark(self) -> SparkSession:
        """The Spark session that was given, or a local one."""
        from weft.launch.spark import local_session

        if self._spark is None:
            self._spark = local_session(self.workers)
        return self._spark
