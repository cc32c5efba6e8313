"""Random lives of sessions: queries come and go, workers and plans change between batches, and runs die.

    python -m tests.migrations --n 1000 --seed 0     many lives in this process
    python -m tests.migrations --seed 17 --n 1 -v    one of them again, printed in full

A life is a function of its seed: streams, tables, rows, batches, and what happens between them.  A session with a
checkpoint goes through it as it would on Spark: every change is fitted to the state and migrated.

What is compared:

    answers    each query with DuckDB.  Rows of a relation count from its `since` batch on.  A query that was added
               after batch N gives no results all of whose rows came up to N, unless it asked for them (`backfill`).
               If it says that it is complete from some time on, nothing may be missing from that time on.
    views      those of aggregate queries after every batch, too: what the same rows of the join make, by the same
               rules.  Old rows count for windows of event time that are open when the query is added.
    state      after each migration, store by store, with that of a run of the new plan over the same batches.

Rows are late only in lives in which no query is added: what was late for an earlier query cannot be had again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import weft
from tests.fuzz import (
    FOREVER,
    StreamCase,
    Tables,
    functions,
    make_stream,
    plain_functions,
    small_limits,
    some_plans,
)
from tests.groups import TOLERANCE, MixedMaker
from weft.expr.evaluate import evaluate
from weft.expr.model import Column, aliases
from weft.host.crash import CrashPoint, is_crash
from weft.host.groups.fold import fold
from weft.host.inprocess.run import InProcess
from weft.host.state.compaction import horizon
from weft.host.state.manifest import NEVER
from weft.kernels.codes import equality_codes
from weft.query.model import COPY, TIME, WEIGHT, Output, Query
from weft.query.timebounds import retention
from weft.session.fit import Fit
from weft.testing import Trial, assert_same_rows, oracle, survivors
from weft.testing.compare import rows_of
from weft.testing.oracle import aggregated, watermark
from weft.topology.clock import Policy
from weft.topology.label import since_of
from weft.topology.model import Topology
from weft.topology.spread import Cube, Regions
from weft.topology.store import Store

FEW = {2: 30, 3: 16, 4: 9}
"""Most rows of a stream, by the most aliases of a query."""
BATCH = "#batch"
"""A column that only the oracle sees: the batch in which a row came."""
DEATHS = (
    "migrate before", "wave 1 before", "wave 1 after", "wave 2 before", "segment write", "migrate commit before",
    "migrate commit after",
)  # fmt: skip
"""Where a change dies.  The last is not for restarts: what the dead process has committed is in its memory only."""


# ------------------------------------------------------------------------------------------------ lives


@dataclass
class Asked:
    """A query as it is declared."""

    text: str
    wishes: Mapping[str, Any]
    start: str = "state"
    backfill: bool = False
    complete: bool = False


@dataclass
class Added:
    """A query that is or was part of the session."""

    query: Query
    after: int
    """The last batch before it was added; -1 if it was there from the start."""
    backfill: bool
    complete_from: int | None
    """From which event time on it said it was complete, when it was added."""
    mark: int | None
    """The watermark of its streams at that time."""
    stored: bool
    """Whether the rows of all its relations are kept; if not, old ones are gone."""


@dataclass
class Tally:
    """What has happened."""

    changes: Counter[str] = field(default_factory=Counter)
    stores: Counter[str] = field(default_factory=Counter)
    """How stores were made."""
    queries: Counter[str] = field(default_factory=Counter)
    rows: int = 0
    deaths: Counter[str] = field(default_factory=Counter)

    def __iadd__(self, other: Tally) -> Tally:
        for name in ("changes", "stores", "queries", "deaths"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.rows += other.rows
        return self

    def __str__(self) -> str:
        parts = (self.changes, self.stores, self.queries, self.deaths)
        return (
            "; ".join(", ".join(f"{n} {k}" for k, n in sorted(part.items())) for part in parts) + f"; {self.rows} rows"
        )


class Life:
    """One session from its first batch to its last."""

    def __init__(self, seed: int, root: Path, say: Any = lambda _text: None) -> None:
        self.seed, self.root, self.say = seed, root, say
        self.rng = rng = random.Random(seed)
        self.kind = rng.choice(["late", "ordered", "ordered", "patient", "patient"])
        self.policy: Policy = "min" if self.kind == "ordered" else rng.choice(["min", "min", "max"])
        self.most = rng.choice([2, 3, 3, 4])
        keys = rng.choice([1, 2, 2, 3])
        names = [f"r{i}" for i in range(rng.randint(1, self.most))]
        self.streams = {name: make_stream(rng, name, FEW[self.most], keys) for name in names}
        if rng.random() < 0.3:
            self.streams["t0"] = replace(make_stream(rng, "t0", FEW[self.most] // 2, keys), event_time=None)
        self.maker = MixedMaker(rng, self.streams, extremes=True)
        self.maker.share = 0.4
        self.texts: list[str] = []
        self.workers, self.strategy = rng.randint(1, 4), "auto"
        self.waiting: dict[str, list[pa.Table]] = {name: [] for name in self.streams}
        """Rows of streams that no query reads yet."""
        self.fed: list[Tables] = []
        """What was fed, with the number of the batch as a column."""
        self.asked: dict[str, Asked] = {}
        self.added: dict[str, Added] = {}
        self.found: dict[str, list[pa.Table]] = {}
        self.newest: list[Mapping[str, int]] = []
        """The newest time of each stream before each batch."""
        self.numbers = iter(range(1000))
        self.tally = Tally()

    # ------------------------------------------------------------------------------------- what happens

    def live(self) -> Tally:
        """From the first batch to the last."""
        rng = self.rng
        for _ in range(rng.choice([1, 1, 2, 3]) if self.kind != "late" else rng.choice([1, 2, 3])):
            self.asked[f"q{next(self.numbers)}"] = self.draw()
        self.session = self.declare()
        self.trial = Trial(self.session, state=self.session.checkpoint.root)
        self.enter(self.asked, after=-1)
        with small_limits(rng):
            for batch in self.batches():
                self.feed(batch)
                for _ in range(rng.choice([0, 1, 1, 2])):
                    self.happen()
        for name in list(self.asked):
            self.leave(name)
        return self.tally

    def happen(self) -> None:
        """Something changes."""
        kinds = ["rescale", "replan", "options"] + (["add"] * 4 if self.kind != "late" else [])
        kinds += ["drop"] * (len(self.asked) > 1) * 2
        kind = self.rng.choice(kinds)
        self.tally.changes[kind] += 1
        getattr(self, f"do_{kind}")()

    def do_add(self) -> None:
        name, made = f"q{next(self.numbers)}", self.draw()
        made.start = self.rng.choice(["state", "state", "state", "now"])
        made.backfill, made.complete = self.rng.random() < 0.5, self.rng.random() < 0.1
        self.say(f"after batch {self.last}: add {name} {made.start} {made.backfill=} {made.wishes}\n{made.text}")
        self.asked[name] = made
        restarts = self.rng.random() < 0.3
        if not restarts:
            self.declare_query(self.session, name)
        try:
            self.change(restarts=restarts)
        except weft.StateError as error:
            self.refuse(name, error)
        else:
            self.enter({name: made}, after=self.last)

    def refuse(self, name: str, error: weft.StateError) -> None:
        """A query that must be complete and cannot be."""
        assert self.asked.pop(name).complete, error
        assert "cannot be complete" in str(error), error
        self.tally.queries["refused"] += 1
        self.restart()

    def do_drop(self) -> None:
        name = self.rng.choice(sorted(self.asked))
        self.say(f"after batch {self.last}: drop {name}")
        self.leave(name)
        del self.asked[name]
        if restarts := self.rng.random() < 0.3:
            self.tally.changes["drop at a restart"] += 1
        else:
            self.session.drop(name)
        self.change(restarts=restarts, drops=name)

    def do_rescale(self) -> None:
        before, self.workers = self.workers, self.rng.randint(1, 5)
        self.say(f"after batch {self.last}: {self.workers} workers")
        self.session.rescale(self.workers)
        if not self.is_changed(restarts=self.rng.random() < 0.3):
            self.workers = before
            self.restart()

    def do_replan(self) -> None:
        before = dict(self.asked)
        for name in self.rng.sample(sorted(self.asked), self.rng.randint(1, len(self.asked))):
            self.asked[name] = replace(before[name], wishes=self.plan(self.session.queries[name].asked))
            self.say(f"after batch {self.last}: {name} by {self.asked[name].wishes}")
        if not self.is_changed(restarts=True):
            self.asked = before
            self.restart()

    def do_options(self) -> None:
        before, self.strategy = self.strategy, self.rng.choice(["flat", "left_deep", "tree", "auto"])
        self.say(f"after batch {self.last}: {self.strategy} where nothing else was asked for")
        self.session.options(strategy=self.strategy)
        if not self.is_changed(restarts=False):
            self.strategy = before
            self.restart()

    def is_changed(self, *, restarts: bool) -> bool:
        """Whether another plan could be had.

        A stream that is joined with tables only is not kept by itself, and a budget may be too small for the sizes that
        a checkpoint remembers.
        """
        try:
            self.change(restarts=restarts)
        except weft.StateError as error:
            if "would lose rows" not in str(error) or "t0" not in self.streams:
                raise
            self.tally.changes["refused"] += 1
            return False
        except weft.PlanError as error:
            if "the storage budget is" not in str(error):
                raise
            self.tally.changes["over budget"] += 1
            return False
        return True

    # ---------------------------------------------------------------------------------------- sessions

    @property
    def last(self) -> int:
        """The newest batch."""
        return len(self.fed) - 1

    def declare(self, drops: str | None = None) -> weft.Session:
        """A session as it is now, as a new process would declare it."""
        session = weft.Session(self.root / "checkpoint", workers=self.workers, progress=False)
        session.options(watermark=self.policy, strategy=self.strategy)
        self._declare_inputs(session)
        if drops is not None and drops in session.checkpoint.queries():
            session.drop(drops)
        for name in self.asked:
            self.declare_query(session, name)
        return session

    def declare_query(self, session: weft.Session, name: str) -> None:
        asked = self.asked[name]
        more = {"start": asked.start, "backfill": asked.backfill, "complete": asked.complete}
        session.query(name, asked.text, **asked.wishes, **more)

    def restart(self, drops: str | None = None, dies_at: CrashPoint | None = None) -> None:
        """Another process goes on, or dies when it begins."""
        session = self.declare(drops)
        session.crash_point = dies_at
        trial = Trial(session, state=session.checkpoint.root, tables=self.trial.running.tables)
        session.crash_point = None
        for name in {*self.found} & {*self.trial.topology.emit_of}:
            if session.queries[name].query.is_view:  # changes go on where they were
                given = self.trial.running.results[name] + trial.running.results.get(name, [])
                trial.running.results[name] = given
            else:
                self.found[name].append(self.trial.table(name))
        self.session, self.trial = session, trial

    def change(self, *, restarts: bool, drops: str | None = None) -> None:
        """Go on with the session as it is asked for now; perhaps the change dies once."""
        done = self.rng.random() < 0.3 and self.is_done_before_death(restarts, drops)
        if not done and (restarts or self.rng.random() < 0.2):
            self.restart(drops)
        elif not done:
            summary = self.trial.change()
            self.tally.stores["taken"] += summary.taken
            self.tally.stores["rows moved"] += summary.moved
            self.tally.stores["rows filled"] += summary.filled
        self.check_state()

    def is_done_before_death(self, restarts: bool, drops: str | None) -> bool:
        """Let the change die somewhere; whether it was made."""
        point, epoch = (
            CrashPoint(self.rng.choice(DEATHS[: -1 if restarts else None]), self.last),
            self.trial.manifest.epoch,
        )
        try:
            if restarts:
                self.restart(drops, point)
            else:
                self.session.crash_point = point
                self.trial.change()
        except weft.HostError as error:
            if not is_crash(error):
                raise
            self.say(f"died at {point.name}")
            self.tally.deaths[point.name] += 1
        finally:
            self.session.crash_point = None
        return self.trial.manifest.epoch != epoch

    def _declare_inputs(self, session: weft.Session) -> None:
        for name, (returns, function) in functions().items():
            session.function(name, function, returns)
        for name, stream in self.streams.items():
            source = weft.read.batches([stream.schema.empty_table()])
            if name.startswith("t"):
                session.table(name, source)
            else:
                late = FOREVER if self.kind == "patient" else stream.lateness
                session.stream(name, source, event_time=stream.event_time, unit=stream.unit, lateness=late)  # type: ignore[arg-type]

    # -------------------------------------------------------------------------------------------- rows

    def draw(self) -> Asked:
        """A random query; sometimes one that was there before, or one like it."""
        rng = self.rng
        old = [asked.text for asked in self.asked.values()]
        text = rng.choice(old) if old and rng.random() < 0.15 else ""
        while not text:
            text = self.maker.query(rng.randint(1 if rng.random() < 0.05 else 2, self.most))
        query = self.read(text)
        return Asked(text, self.plan(query))

    def read(self, text: str) -> Query:
        session = weft.Session("never-made", workers=1)
        self._declare_inputs(session)
        return session.query("q", text).asked

    def plan(self, query: Query) -> Mapping[str, Any]:
        if self.rng.random() < 0.2:
            return {}
        return self.rng.choice(some_plans(self.rng, query, self.workers))

    def batches(self) -> Iterator[Tables]:
        """The rows of all streams in random micro-batches; tables come in the first."""
        rng, count = self.rng, self.rng.choice([2, 3, 4, 6, 9])
        batches: list[Tables] = [{} for _ in range(count)]
        for name, stream in self.streams.items():
            rows = self.order(stream)
            if name.startswith("t"):
                batches[0][name] = rows
                continue
            places = sorted(rng.randint(0, rows.num_rows) for _ in range(count - 1))
            for number, (start, end) in enumerate(zip([0, *places], [*places, rows.num_rows], strict=True)):
                if end > start:
                    batches[number][name] = rows.slice(start, end - start)
        return iter(batches)

    def order(self, stream: StreamCase) -> pa.Table:
        """Rows of a stream as they come: in the order of their times, if no row is to be late."""
        if self.kind != "ordered" or stream.event_time is None:
            return stream.rows
        return stream.rows.take(pc.sort_indices(stream.rows, [(stream.event_time, "ascending")]))

    def feed(self, batch: Tables) -> None:
        """A batch; rows of streams that no query reads wait in their sources."""
        for name, rows in batch.items():
            self.waiting[name].append(rows)
        read = {stream.name for stream in self.trial.topology.streams}
        now = {name: pa.concat_tables(rows) for name, rows in self.waiting.items() if name in read and rows}
        for name in now:
            self.waiting[name] = []
        self.newest.append(dict(self.trial.manifest.newest))
        self.trial.feed(now)
        number = self.last + 1
        self.say(f"batch {number}: " + ", ".join(f"{rows.num_rows} of {name}" for name, rows in now.items()))
        self.fed.append({name: with_batch(rows, number) for name, rows in now.items()})
        for name in self.asked:
            if self.added[name].query.is_view:
                self.compare_view(name)

    # ----------------------------------------------------------------------------------------- answers

    def enter(self, new: Mapping[str, Asked], after: int) -> None:
        """Queries are part of the session now."""
        fit = Fit.read(self.session.checkpoint.root)
        for name, asked in new.items():
            query = self.session.queries[name].query
            moments = {} if fit is None else fit.complete_from(fit.old, {name: query}, self.policy)
            plan = self.trial.topology
            kept = {label for probe in plan.probes if name in probe.users for label in probe.members}
            stored = kept == {*plan.aliases_of(name)}
            self.added[name] = Added(query, after, asked.backfill, moments.get(name), self.watermark(query), stored)
            self.found[name] = []
            kind = "from the start" if after < 0 else "incomplete" if moments else "complete"
            self.say(f"{name} is {kind} {moments.get(name)}")
            self.tally.queries[kind] += 1
            self.tally.queries["with backfill"] += asked.backfill and after >= 0

    def watermark(self, query: Query) -> int | None:
        streams = {relation.stream.name: relation.stream for relation in query.relations}
        newest = self.trial.manifest.newest
        return watermark(streams.values(), newest, self.policy)

    def leave(self, name: str) -> None:
        """Compare what a query has given with what it must give."""
        if self.added[name].query.grouping is not None:
            self.compare_view(name)
            del self.found[name], self.added[name]
            return
        found = pa.concat_tables([*self.found.pop(name), self.trial.table(name)])
        added = self.added.pop(name)
        begins = [[r.since for r in query.relations] for query in (self.session.queries[name].query, added.query)]
        assert begins[0] == begins[1], "its beginning has changed"
        must, may = self.expected(added)
        have = Counter(rows_of(found))
        self.tally.rows += have.total()
        missing, extra = must - have, have - may
        if missing or extra:
            raise AssertionError(
                f"{name}: {have.total()} rows, at least {must.total()} and at most {may.total()} expected\n"
                f"missing {missing.total()}: {list(missing.items())[:3]}\n"
                f"extra {extra.total()}: {list(extra.items())[:3]}"
            )

    def compare_view(self, name: str) -> None:
        """Compare the view of an aggregate query with what the rows of its join make, if these are known."""
        added, found = self.added[name], pa.concat_tables([*self.found[name], self.trial.table(name)])
        joined, must, may = self.joined(replace(added, query=replace(added.query, grouping=None)))
        if not np.array_equal(must, may):
            self.tally.queries["view of rows that may be missing"] += 1
            return
        query, rows = added.query, joined.filter(pa.array(may))
        assert query.grouping is not None
        if not query.grouping.keys and added.after == self.last:
            return  # the only group comes with the first batch
        born = every_column(rows, [f"#b{i}" for i in range(len(query.relations))]).max(axis=1, initial=-1)
        rows = rows.append_column("#b", pa.array(np.maximum(born, added.after + 1)))
        if (window := query.grouping.window) is not None:
            place = query.outputs.index(next(o for o in query.outputs if o.name == window.key))
            timed = query.position(min(aliases(query.outputs[place].expr)))
            rows = rows.set_column(place, window.key, rows.column(f"#t{timed}"))
            rows = rows.filter(pc.is_valid(rows.column(window.key)))
        newest = [*self.newest, self.trial.manifest.newest]
        streams = {relation.stream.name: relation.stream for relation in query.relations}
        marks = [watermark(streams.values(), seen, self.policy) for seen in newest]
        wanted = aggregated(query, rows, plain_functions(), marks)
        assert_same_rows(found, wanted, f"{name} after batch {self.last}: ", tolerance=TOLERANCE)
        self.tally.queries["views"] += 1
        self.tally.queries["rows of views"] += found.num_rows

    def expected(self, added: Added) -> tuple[Counter[Any], Counter[Any]]:
        """What must be and what may be in the results of a query."""
        every, must, may = self.joined(added)
        rows = rows_of(every.select(range(len(added.query.outputs))))
        return Counter(r for r, ok in zip(rows, must, strict=True) if ok), Counter(
            r for r, ok in zip(rows, may, strict=True) if ok
        )

    def joined(self, added: Added) -> tuple[pa.Table, Any, Any]:
        """All results of a query with the batches and times of their rows; which must be there, and which may."""
        query = tell_more(added.query)
        inputs = survivors(query, self.fed, self.policy) if self.kind == "late" else join_all(query, self.fed)
        every = oracle(query, inputs, plain_functions())
        counts = [relation.since for relation in query.relations]
        born = every_column(every, [f"#b{i}" for i in range(len(counts))])
        moments = every_column(every, [f"#t{i}" for i in range(len(counts))])
        valid = np.all(born >= np.array(counts), axis=1) if len(born) else np.zeros(0, bool)
        streams = [i for i, r in enumerate(query.relations) if not r.stream.table] or range(len(counts))
        new = born[:, streams].max(axis=1, initial=-1) > added.after  # rows of streams do not wait for tables
        past = born.max(axis=1, initial=-1) <= added.after
        may = valid & (new | (past & added.backfill))
        must = may & (new | (self.kept(added, moments) & added.stored))
        if added.complete_from is not None:
            late_enough = moments.max(axis=1, initial=-NEVER) >= added.complete_from
            must = must & new & late_enough & (added.complete_from < NEVER)
        return every, must, may

    def kept(self, added: Added, moments: Any) -> Any:
        """Which results have only rows that the state could not have dropped when the query was added."""
        held = np.ones(len(moments), bool)
        for place, keep in enumerate(retention(added.query).values()):
            timed = added.query.relations[place].stream.event_time is not None
            if keep is not None and timed and added.mark is not None:
                held &= moments[:, place] >= added.mark - keep
        return held

    # ------------------------------------------------------------------------------------------- state

    def check_state(self) -> None:
        """Compare the state with that of a run of the plan from the first batch on."""
        topology, manifest = self.trial.topology, self.trial.manifest
        fresh = InProcess(topology, plain_functions())
        for number, batch in enumerate(self.fed):
            fresh.topology = masked(topology, number)
            fresh.feed({name: rows.drop_columns([BATCH]) for name, rows in batch.items()})
        fresh.topology = topology
        marks = manifest.watermarks(topology)
        assert marks == fresh.manifest.watermarks(topology)
        for store in (store for store in topology.stores if store.counted != "groups"):
            oldest = horizon(store, marks)
            have, want = (contents(run, store, oldest) for run in (self.trial.running, fresh))
            self.compare_store(store, have, want, manifest.partial.get(store.id))

    def compare_store(self, store: Store, have: Contents, want: Contents, partial: int | None) -> None:
        self.tally.stores["compared"] += 1
        if partial is None or (store.since and not store.members):
            assert have.rows == want.rows, f"{store.id}: - {want.rows - have.rows} + {have.rows - want.rows}"
            moved = want.placed - have.placed
            assert have.placed == want.placed, f"{store.id}: elsewhere {moved}"
            return
        self.tally.stores["partial"] += 1
        if store.counted:  # rows that are missing make other sums
            return
        extra = have.rows - want.rows
        assert not extra, f"{store.id}: extra {extra}"
        times = [name for name in have.names if name in (TIME, *(f"{label}.{TIME}" for label in store.members))]
        if store.members:
            times = [name for name in times if name != TIME]
        if len(times) == max(1, len(store.members)):
            places = [have.names.index(name) for name in times]
            missing = Counter({r: n for r, n in (want.rows - have.rows).items() if all(r[i] > partial for i in places)})
            assert not missing, f"{store.id}, whole after {partial}: missing {missing}"


@dataclass(frozen=True)
class Contents:
    """What is in a store."""

    names: Sequence[str]
    rows: Counter[Any]
    """Rows on all workers; where copies depend on chance, without copies."""
    placed: Counter[Any]
    """(Worker, row) for rows whose place is a function of their values."""


def contents(run: InProcess, store: Store, oldest: int | None) -> Contents:
    """The rows of a store that have not expired."""
    rows: Counter[Any] = Counter()
    placed: Counter[Any] = Counter()
    names = [name for name in store.columns if name != COPY or isinstance(store.spread, Cube)]
    if store.counted:
        return counted_contents(run, store, oldest)
    for ref in run.manifest.segments:
        if ref.store != store.id:
            continue
        frame = run.state.open(ref).rows
        if oldest is not None:
            frame = frame.filter(pc.greater_equal(frame.column(TIME), oldest))
        if isinstance(store.spread, Regions):
            frame = frame.filter(pc.invert(frame.column(COPY)))
        table = pa.Table.from_batches([frame]).select(names)
        found = rows_of(table)
        rows.update(found)
        placed.update((ref.worker, row) for row, sure in zip(found, is_sure(run, store, frame), strict=True) if sure)
    return Contents(names, rows, placed)


def counted_contents(run: InProcess, store: Store, oldest: int | None) -> Contents:
    """The rows of a counted store, added up over its segments and workers, with weights and measures."""
    refs = [ref for ref in run.manifest.segments if ref.store == store.id]
    frames = [run.state.open(ref).rows for ref in refs]
    frames = [frame.filter(pc.invert(frame.column(COPY))) if COPY in store.columns else frame for frame in frames]
    names = [*(name for name in store.columns if name != COPY), WEIGHT, *store.measures]
    if not frames:
        return Contents(names, Counter(), Counter())
    rows = fold([frame.select(names) for frame in frames]).select(names)
    if oldest is not None:
        rows = rows.filter(pc.greater_equal(rows.column(TIME), oldest))
    return Contents(names, Counter(rows_of(pa.Table.from_batches([rows]))), Counter())


def is_sure(run: InProcess, store: Store, frame: pa.RecordBatch) -> Any:
    """Which rows have a place that is a function of their values."""
    keys = store.placement
    if isinstance(store.spread, Cube):
        if any(axis.kind == "random" or axis.heavy for axis in store.spread.axes):
            return np.zeros(frame.num_rows, bool)
        keys = store.spread.keys
    if not keys or isinstance(store.spread, Regions) or store.tasks == 1 or frame.num_rows == 0:
        return np.zeros(frame.num_rows, bool)
    valid = [equality_codes([evaluate(expr, frame, run.functions)]).valid for expr in keys]
    return np.logical_and.reduce([np.ones(frame.num_rows, bool), *(mask for mask in valid if mask is not None)])


def masked(topology: Topology, number: int) -> Topology:
    """The plan in a batch: rows of relations that begin later go nowhere."""
    edges = []
    for edge in topology.edges:
        stores = tuple(name for name in edge.stores if topology.store(name).since <= number)
        starts = tuple(name for name in edge.starts if since_of(topology.start_by_id[name].label) <= number)
        edges.append(replace(edge, stores=stores, starts=starts))
    return replace(topology, edges=tuple(edge for edge in edges if edge.stores or edge.starts))


def with_batch(rows: pa.Table, number: int) -> pa.Table:
    """Rows with the batch in which they came."""
    return rows.append_column(BATCH, pa.array([number] * rows.num_rows, pa.int64()))


def tell_more(query: Query) -> Query:
    """The query with the batch and the time of each row beside its outputs."""
    kind = pa.int64()
    streams = [replace(r.stream, schema=r.stream.schema.append(pa.field(BATCH, kind))) for r in query.relations]
    outputs = [Output(f"#b{i}", Column(alias, BATCH, kind)) for i, alias in enumerate(query.aliases)]
    outputs += [Output(f"#t{i}", Column(alias, TIME, kind)) for i, alias in enumerate(query.aliases)]
    relations = tuple(replace(r, stream=stream) for r, stream in zip(query.relations, streams, strict=True))
    return replace(query, relations=relations, outputs=(*query.outputs, *outputs))


def join_all(query: Query, batches: Sequence[Tables]) -> Tables:
    """All rows of the streams of a query."""
    streams = {relation.stream.name: relation.stream for relation in query.relations}
    return {
        name: pa.concat_tables([stream.schema.empty_table(), *(b[name] for b in batches if name in b)])
        for name, stream in streams.items()
    }


def every_column(table: pa.Table, names: Sequence[str]) -> Any:
    """Some whole-number columns as one array; NULL is the smallest number."""
    columns = [pc.fill_null(table.column(name), -NEVER).to_numpy() for name in names]
    return np.stack(columns, axis=1) if columns else np.zeros((table.num_rows, 0), np.int64)


# -------------------------------------------------------------------------------------------------- runs


@contextmanager
def quick_disk() -> Iterator[None]:
    """Nothing waits for the disk: no power fails here."""
    with patch.object(os, "fsync"):
        yield


def check(seed: int, say: Any = lambda _text: None) -> Tally:
    """Live one life.  What is wrong is an error."""
    root = Path(tempfile.mkdtemp(prefix="weft-life-"))
    try:
        with quick_disk():
            return Life(seed, root, say).live()
    except Exception as error:
        error.add_note(f"repeat: python -m tests.migrations --seed {seed} --n 1 -v")
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.migrations", description="sessions that change")
    parser.add_argument("--n", type=int, default=1000, help="how many lives")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what happens")
    args = parser.parse_args()
    began, tally, failed = time.perf_counter(), Tally(), 0
    for done, seed in enumerate(range(args.seed, args.seed + args.n), start=1):
        try:
            tally += check(seed, print if args.verbose else lambda _text: None)
        except Exception:  # noqa: BLE001 - whatever goes wrong is reported with its seed
            failed += 1
            print(f"\nFAILED seed {seed}\n{traceback.format_exc(limit=-6)}", flush=True)
            if not args.keep_going:
                return 1
        if done % 100 == 0 or done == args.n:
            print(f"{done} lives, {tally}, {failed} failed, {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
