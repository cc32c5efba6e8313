"""The plan of a run on Spark: which one it is, and how another one takes over between two batches.

What must hold: a change is committed by one manifest.  Before it the old plan goes on, after it the new one; a change
that fails leaves the old one at work.  See docs/design on migration.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from weft.errors import StateError
from weft.expr.evaluate import Functions
from weft.host.batch import Batch, Report
from weft.host.crash import is_crash, reach
from weft.host.ingest import is_dated
from weft.host.migration.migrate import Job, Migration, Runner, Summary
from weft.host.migration.prepare import ROUNDS, Preparation
from weft.host.migration.reread import share
from weft.host.migration.when import LARGE, SLOWER, Rhythm
from weft.host.sources.feeds import Feeds, Offset
from weft.host.spark.delivery import Delivery
from weft.host.spark.exchange import Shipment
from weft.host.spark.failing import cause_of
from weft.host.spark.ground import Ground
from weft.host.spark.oldrows import OldRows
from weft.host.spark.reader import read_offset
from weft.host.spark.reading import Reading, Shares
from weft.host.spark.sources import open_feeds
from weft.host.spark.waves import Waves
from weft.host.state.checkpoint import is_same_query
from weft.host.state.manifest import Manifest
from weft.host.state.moment import fix_moment
from weft.host.work import Work
from weft.topology.model import Epoch, Topology


class Epochs:
    """The plan of the next batch, the state that it goes on from, and what a change to another plan has made so far."""

    def __init__(self, ground: Ground, work: Work, delivery: Delivery) -> None:
        self.spark, self.place, self.ledger = ground.spark, ground.place, ground.ledger
        self.changes, self.crash = ground.changes, ground.crash
        self.work, self.delivery = work, delivery
        self.manifest = ground.ledger.last()
        self._rhythm = Rhythm()
        self.waves = Waves(ground.spark.sparkContext, ground.place)
        self.preparing: Preparation | None = None

    @property
    def topology(self) -> Topology:
        """The plan of the next batch."""
        return self.work.topology

    def committed(self, manifest: Manifest, seconds: float) -> None:
        """A batch is done."""
        self.manifest = manifest
        self._rhythm.note(seconds, time.perf_counter())

    def begin(self, spark: SparkSession) -> None:
        """Finish what the last run left undone, and prepare for the next batch.  Jobs run in the given session."""
        self._jobs = spark
        self.ledger.begin()
        self.delivery.publish(self.work, self.manifest)
        self.ledger.collect()
        self.ledger.announce(self.manifest.batch)
        known = self.ledger.epoch()
        if known is None:
            self.epoch = Epoch(0, self.topology)
            self.ledger.propose(self.epoch, self.work.describe(self.manifest))
        else:
            self.epoch = known
            if known.topology != self.topology:
                self._resume()
        self.plan = self._ship(self.topology)
        self.delivery.restore(self.work, self.manifest)

    def _resume(self) -> None:
        """The session differs from the one that made the state."""
        began, before = time.perf_counter(), self.ledger.session()
        migration = self._plan_migration(self.work)
        migration.work(self._runner(self.work, migration.epoch))
        summary = self._migrate(self.work, migration)
        self.delivery.publish(self.work, self.manifest)
        self.ledger.collect()
        self.changes.made(before, self.work, summary, self.manifest, time.perf_counter() - began)

    def turn(self) -> None:
        """Change the plan, if that is wanted.  If it cannot be done, the old plan goes on.

        A change that has to read much is made ready in the background first: then batches go on under the old plan.
        """
        while (work := self.changes.wanted()) is not None:  # a change may be asked for while another one is made
            if not self._turn(work):
                return
        self.give_up()

    def _turn(self, work: Work) -> bool:
        """Make a change; return whether it is done, or refused."""
        began, before = time.perf_counter(), self.work.session
        try:
            if self.manifest.batch < 0 or work.topology == self.topology:
                summary = self._restate(work)
            elif (migration := self._prepare(work)) is not None:
                summary = self._migrate(work, migration)
            else:
                return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the old plan goes on
            cause = cause_of(error, self.manifest.batch)
            if is_crash(cause):
                raise cause from None
            self.give_up()
            self.changes.refused(work, cause)
        else:
            self.plan.unpersist()
            self.plan = self._ship(self.topology)
            self.delivery.publish(self.work, self.manifest)
            self.delivery.restore(self.work, self.manifest)
            self.ledger.collect()
            self.changes.made(before, work, summary, self.manifest, time.perf_counter() - began)
        return True

    def _prepare(self, work: Work) -> Migration | None:
        """The migration to other work, if it is so small or so far that it can be finished now; else None."""
        if self.preparing is not None and self.preparing.work is not work:
            self.give_up()
        at_once = self._rhythm.rows_at_once(work.saves)
        if self.preparing is None:
            migration = self._plan_migration(work)
            if migration.size <= at_once or not migration.can_catch_up:
                if migration.size > LARGE and migration.can_catch_up:
                    migration = self._plan_migration(work, LARGE)
                migration.work(self._runner(work, migration.epoch))
                return migration
            most = round(self._rhythm.rows_at_once())
            self.preparing = Preparation(
                work, self._plan_migration(work, most), self._runner(work, migration.epoch, tasks=1)
            )
            self._guard()
            return None
        made = self.preparing
        if not made.is_ready and SLOWER * made.migration.size > at_once:
            return None
        made.wait()
        if made.error is not None:
            raise made.error
        self._guard()
        if made.rows_behind(self.manifest) > at_once and made.rounds < ROUNDS:
            made.bring_up(self.manifest)
            return None
        made.migration.catch_up(self.manifest, self._runner(work, made.migration.epoch))
        return made.migration

    def _plan_migration(self, work: Work, most: int | None = None) -> Migration:
        number = self.epoch.number + 1
        self.ledger.unstage(self.manifest.batch, number)
        reach(self.crash, "migrate before", self.manifest.batch)
        dated = any(map(is_dated, work.topology.edges))
        now = fix_moment(self.ledger.root, self.manifest.batch, time.time) if dated else 0
        return Migration(
            self.epoch.topology, work.change, self.manifest, number, self.delivery.run, self.crash, most, now=now
        )

    def _runner(self, work: Work, epoch: int, tasks: int | None = None) -> Runner:
        return lambda job, batch: self._job(job, batch, work, epoch, tasks or 2 * job.topology.workers)

    def _guard(self) -> None:
        """Keep the files that the migration in the background needs."""
        assert self.preparing is not None
        made = self.preparing.migration
        mark = f"e{made.epoch}j"
        # What was taken of earlier batches, and what a round reads now: batches may merge both away meanwhile.
        needed = (*made.segments, *made.manifest.segments, *self.manifest.segments)
        self.ledger.guarded = {ref.name for ref in needed}
        self.ledger.young = lambda name: mark in name

    def give_up(self) -> None:
        """Throw away what was made in the background, if there is anything."""
        if self.preparing is not None:
            self.preparing.cancel()
        self.preparing, self.ledger.guarded, self.ledger.young = None, (), lambda _name: False

    def _restate(self, work: Work) -> Summary:
        """The same state under another description: nothing has to move."""
        self.epoch = Epoch(self.epoch.number if self.manifest.batch < 0 else self.epoch.number + 1, work.topology)
        self.ledger.propose(self.epoch, work.describe(self.manifest))
        if self.manifest.batch >= 0:
            self.manifest = self.manifest.under(self.epoch, self.manifest.segments, (), self.manifest.partial)
            self.ledger.commit(self.manifest)
        self.work = work
        return Summary(len(work.topology.stores))

    def _migrate(self, work: Work, migration: Migration) -> Summary:
        """Commit a migration, and go on with its plan."""
        number = self.manifest.batch
        epoch = Epoch(self.epoch.number + 1, work.topology)
        before, after = self.ledger.session()["queries"], work.session["queries"]
        gone = [query for query, said in before.items() if not is_same_query(said, after.get(query, {}))]
        manifest = migration.commit(epoch).recount(gone, migration.summary.results)
        manifest = replace(manifest, files=(*manifest.files, *self.delivery.stage_views(work, manifest)))
        self.delivery.hand_over(work, number, epoch.number, manifest.files, only=work.backfill)
        self.ledger.propose(epoch, work.describe(manifest))
        reach(self.crash, "migrate commit before", number)
        self.ledger.commit(manifest)
        self.manifest, self.epoch, self.work = manifest, epoch, work
        self.preparing = None
        self.give_up()
        reach(self.crash, "migrate commit after", number)
        return migration.summary

    def _job(self, job: Job, batch: Batch, work: Work, epoch: int, tasks: int) -> Report:
        """Run one part of a migration."""
        self._jobs.sparkContext.setJobDescription(f"Weft, {job.what}")
        plan = self._ship(job.topology, work.functions)
        try:
            rows = self._input(job, work, tasks)
            folder = self.ledger.staging_name(batch.number, epoch)
            return self.waves.run(rows, plan, job.topology, batch, folder)
        finally:
            plan.unpersist()

    def _input(self, job: Job, work: Work, tasks: int) -> Reading:
        """Old rows, or tables as far as they were read."""
        if not job.tables:
            return OldRows(self._jobs, self.place, share(job.pieces, tasks))
        read = [stream for stream in work.topology.streams if stream.name in job.tables]
        feeds = open_feeds(work.sources, read, str(self.ledger.root / "sources"))
        return Shares(
            self._jobs, self.spark.sparkContext.broadcast(feeds), feeds.deal({}, self._read_so_far(feeds), tasks)
        )

    def _read_so_far(self, feeds: Feeds) -> Offset:
        """How far tables were read."""
        known = {**self._kept_by_spark(feeds), **self.manifest.offsets}
        return {name: known.get(name, feed.reader.beginning()) for name, feed in feeds.by_stream.items()}

    def _kept_by_spark(self, feeds: Feeds) -> Offset:
        """The offset of the last batch, if Spark keeps it."""
        file = self.ledger.root / "spark" / "offsets" / str(self.manifest.batch)
        if not file.exists():
            return {}
        if (found := read_offset(file)) is not None:
            return found
        if changing := [name for name, feed in feeds.by_stream.items() if not feed.once]:
            raise StateError(
                f'table "{changing[0]}" cannot be read again',
                detail=f"{file} does not say how far it was read.",
                hint="add the query in a session with an empty checkpoint.",
            )
        return {name: feed.reader.discover() for name, feed in feeds.by_stream.items()}

    def _ship(self, topology: Topology, functions: Functions | None = None) -> Any:
        known = self.work.functions if functions is None else functions
        return self.spark.sparkContext.broadcast(Shipment.of(topology, known))
