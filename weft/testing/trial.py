"""A session's queries, run in this process over micro-batches given by hand.

The same plan, waves and kernels as on Spark; the exchange is a list, and state lives in memory or in a folder.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from weft.adapt.adaptation import Adaptation
from weft.errors import HostError, QueryError
from weft.explain import Subject, explain
from weft.expr.evaluate import Functions
from weft.host.batch import Report
from weft.host.inprocess.run import InProcess
from weft.host.migration.migrate import Summary
from weft.host.state.manifest import FileState, Ledger, Manifest
from weft.host.state.segment import SegmentRef
from weft.host.work import Work
from weft.observe.counters import Counters
from weft.optimizer.choose import Choice
from weft.optimizer.known import Known
from weft.optimizer.plan import choices, topology
from weft.optimizer.wishes import Wishes
from weft.query.model import Query
from weft.session import Session
from weft.session.adapting import open_adaptation, see_batch
from weft.topology.model import Epoch, Topology


class Trial:
    """Queries under test, fed by hand.

    `queries` is a session or queries by name.  Of a session, the declarations are used and the sources are not read.
    `state` is a folder for file-backed state; a trial given the same folder again goes on from the last batch.  If it
    is the checkpoint of the session, the trial treats it as a run does: it claims it, and migrates its state to the
    plan of the session.  `tables` is what the tables held in earlier batches: a change may read them again.
    `now` is the clock, in seconds, by which streams become idle.
    With `adapt` plans follow the data, as in `s.start()`; decisions are made between two batches, not beside them.
    """

    def __init__(
        self,
        queries: Session | Mapping[str, Query],
        *,
        workers: int | None = None,
        functions: Functions | None = None,
        sizes: Mapping[str, float] | None = None,
        state: str | Path | None = None,
        tables: Mapping[str, pa.Table] | None = None,
        now: Callable[[], float] = time.monotonic,
        adapt: bool = False,
    ) -> None:
        self._session = queries if isinstance(queries, Session) else None
        root = None if state is None else Path(state)
        self._ledger = None if root is None else Ledger(root)
        self._is_bound = self._session is not None and root == self._session.checkpoint.root
        if self._is_bound:
            self._fit()
        self.queries = _queries(queries)
        self.functions: Functions = {**_functions(self._session), **(functions or {})}
        self.choices, self.topology = _plan(queries, self.queries, workers, sizes)
        files = None if self._ledger is None else FileState(str(self._ledger.segments), str(self._ledger.notes))
        self._run = InProcess(self.topology, self.functions, files, now)
        self._run.tables |= tables or {}
        self.reports: list[Report] = []
        if self._ledger is not None:
            self._resume(self._ledger)
        self.adaptation = self._follow(now) if adapt else None

    def _follow(self, now: Callable[[], float]) -> Adaptation:
        if self._session is None or not self._is_bound:
            raise _unbound("plans follow the data in the checkpoint of a session.")
        return open_adaptation(
            self._session, self._session.following, lambda *_: None, start=lambda work: work(), now=now
        )

    def _resume(self, ledger: Ledger) -> None:
        """Go on from the last batch in the folder."""
        ledger.begin()
        self._run.manifest = ledger.last()
        known = ledger.epoch()
        if known is None:
            said = self._session.work().describe(self.manifest) if self._session else {}
            ledger.propose(self._run.epoch, said)
        elif self._session is not None and self._is_bound:
            self._run.epoch, self._run.topology = known, known.topology
            if known.topology != self.topology:
                self._migrate(self._session.work())

    def feed(self, tables: Mapping[str, pa.Table]) -> Report:
        """Run one micro-batch; streams that are not named get no rows.

        A crash before the commit leaves everything as it was; the same rows may be fed again.
        """
        declared = set(tables) if self._session is None else set(self._session.streams)
        if unknown := sorted(set(tables) - declared):
            raise QueryError(
                f'the session has no stream "{unknown[0]}"',
                detail=f"its streams are {', '.join(sorted(declared))}.",
                hint="feed tables by the names of streams.",
            )
        crash = self._session.crash_point if self._session is not None else None
        before = self._run.manifest
        self._run.sample = 0 if self.adaptation is None else self.adaptation.sample(self.topology.workers)
        try:
            report = self._run.feed(tables, crash)
        finally:
            self._commit(before)
        self.reports.append(report)
        if self.adaptation is not None:
            self._adapt(self.adaptation, report)
        return report

    def _adapt(self, adaptation: Adaptation, report: Report) -> None:
        """Follow the data: the plan may change before the next batch."""
        assert self._session is not None
        adaptation.see(see_batch(self.manifest, report, sum(self.spent.values())))
        if self._session.topology != self.topology:
            self.change()

    def change(self) -> Summary:
        """Go on with the session as it is now, as a run does between two batches; the trial must use its checkpoint.

        A crash before the commit leaves everything as it was.
        """
        if self._session is None or not self._is_bound:
            raise _unbound("queries come and go in the checkpoint of a session.")
        self._fit()
        return self._migrate(self._session.work())

    def _fit(self) -> None:
        """Fit the session to its checkpoint, as a run does before it begins."""
        assert self._session is not None
        self._session.claim()
        try:
            self._session.fit()
        finally:
            self._session.checkpoint.release()

    def _migrate(self, work: Work) -> Summary:
        assert self._ledger is not None
        assert self._session is not None
        before = self._run.manifest
        self._ledger.propose(Epoch(self._run.epoch.number + 1, work.topology), work.describe(before))
        self._run.functions = {**self.functions, **work.functions}
        try:
            return self._run.migrate(work.change, self._session.crash_point).summary
        finally:
            if self._run.manifest is not before:
                self.queries, self.choices = _queries(self._session), self._session.choices
                self.topology = work.topology
            self._commit(before)

    def _commit(self, before: Manifest) -> None:
        """Commit what has been done since a manifest, if anything has."""
        if self._ledger is not None and self._run.manifest is not before:
            self._ledger.commit(self._run.manifest)
            self._ledger.collect()
            self._run.state.forget(ref.name for ref in self.segments)  # type: ignore[attr-defined]

    def table(self, query: str) -> pa.Table:
        """All results of a query so far."""
        return self._run.table(query)

    def explain(self, stage: str = "topology", format: str = "text", analyze: bool = False) -> str:  # noqa: A002
        """The plan, as `Session.explain` gives it; `analyze` shows what the fed batches did."""
        handles = {} if self._session is None else self._session.queries
        subject = Subject(
            self.queries,
            {name: handle.draft for name, handle in handles.items()},
            lambda: self.choices,
            lambda: self.topology,
            analyze,
            self.manifest.measured if analyze else None,
        )
        return explain(subject, stage, format)

    @property
    def running(self) -> InProcess:
        """The host, for tests that look into its state."""
        return self._run

    @property
    def manifest(self) -> Manifest:
        """What a checkpoint would hold now."""
        return self._run.manifest

    @property
    def counters(self) -> Counters:
        """The counters of all batches so far."""
        return Counters.total(self.reports)

    @property
    def spent(self) -> Mapping[tuple[int, int], float]:
        """(Wave, worker) -> seconds of the last batch; wave 0 reads the input."""
        return dict(self._run.spent)

    @property
    def late(self) -> dict[str, int]:
        """Stream -> rows that were dropped because they came below the watermark."""
        return self.counters.late

    @property
    def untimed(self) -> dict[str, int]:
        """Stream -> rows that were dropped because they have no event time."""
        return self.counters.untimed

    @property
    def segments(self) -> tuple[SegmentRef, ...]:
        """The live segments of all stores and workers."""
        return self._run.manifest.segments

    @property
    def state_rows(self) -> dict[str, int]:
        """Store -> rows it holds now."""
        return self.manifest.held

    @property
    def state_bytes(self) -> dict[str, int]:
        """Store -> bytes it holds now."""
        return self._sum(lambda ref: ref.bytes)

    def _sum(self, measure: Callable[[SegmentRef], int]) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for ref in self.segments:
            found[ref.store] += measure(ref)
        return dict(found)


def _unbound(detail: str) -> HostError:
    hint = "make the trial with it: Trial(session, state=session.checkpoint.root)."
    return HostError("the trial has no checkpoint to change", detail=detail, hint=hint)


def _queries(given: Session | Mapping[str, Query]) -> dict[str, Query]:
    if isinstance(given, Session):
        return {name: handle.query for name, handle in given.queries.items()}
    return dict(given)


def _functions(session: Session | None) -> Functions:
    return {} if session is None else session.functions


def _plan(
    given: Session | Mapping[str, Query],
    queries: Mapping[str, Query],
    workers: int | None,
    sizes: Mapping[str, float] | None,
) -> tuple[tuple[Choice, ...], Topology]:
    if isinstance(given, Session) and workers is None and sizes is None:
        return given.choices, given.topology
    workers = workers or (given.workers if isinstance(given, Session) else 1)
    made = choices(queries, workers, dict.fromkeys(queries, Wishes()), dict.fromkeys(queries, Known(sizes=sizes or {})))
    return made, topology(made)
