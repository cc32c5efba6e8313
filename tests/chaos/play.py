"""Plays a story: lets input arrive, kills, starts again, and compares every sink with DuckDB in the end."""

from __future__ import annotations

import contextlib
import datetime
import json
import pickle
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pyarrow.dataset as ds

from bench.broker import Broker
from tests.chaos.harms import Disk, Shim, damage
from tests.chaos.job import EXTRA, JVM_GONE
from tests.chaos.rows import LATENESS, Rows, as_json, drop
from tests.chaos.sinks import Answer, expected, found, out, topic_of
from tests.chaos.story import ENDING, Input, Step, Story
from tests.chaos.victims import Running, survivors

PATIENCE = 240.0
"""Seconds in which a job must get on, on a machine that has other things to do."""

A_WHILE = 20.0
REASONS = ("HostError", "SourceError", "SinkError")
"""Errors that kills and harm may lead to; state that does not fit is none of them."""


@dataclass
class Outcome:
    """What a story came to."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    """Processes that were killed, by kind."""
    harms: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    """Troubles that did not come about: there was no such process, or no such means on this machine."""
    failures: int = 0
    """Runs that said why they ended, and were started again."""
    lives: int = 0
    sinks: int = 0
    rows: int = 0
    """Rows compared."""
    seconds: float = 0.0
    difference: str | None = None


class StuckError(AssertionError):
    """The job does not get on, or ended when it should not."""


class Play:
    """A story while it is played."""

    def __init__(
        self,
        story: Story,
        root: Path,
        broker: Broker | None,
        say: Callable[[str], None] = lambda _line: None,
        outcome: Outcome | None = None,
    ) -> None:
        self.say, self.outcome = say, outcome or Outcome(story.seed)
        self.story, self.root, self.broker = story, root, broker
        self.rows = Rows(story)
        self.began, self.fed = time.monotonic(), 0
        self.left_out: set[tuple[str, int]] = set()
        self.damaged: list[tuple[Input, int]] = []
        self.disk = Disk(root / "disk", small=story.small_disk)
        self.shim = Shim(root / "trouble") if story.shim else None
        self.job: Running | None = None
        self.left_over: list[psutil.Process] = []
        (root / "story").write_bytes(pickle.dumps(story))

    def go(self) -> Outcome:
        """From the first row to the last comparison."""
        began = self.began
        self._make_topics()
        with self.disk, contextlib.ExitStack() as stack:
            stack.callback(self._end)
            self._feed(2)
            for number, step in enumerate(self.story.steps):
                self.say(f"{time.monotonic() - began:.1f} s, batch {self._committed()}, step {number}: {step}")
                self._step(step)
            self.say(f"{time.monotonic() - began:.1f} s, batch {self._committed()}: the end")
            self._finish()
            self._compare()
        return self.outcome

    # ----------------------------------------------------------------------------------------------- input

    def _make_topics(self) -> None:
        if not self.story.has_topics:
            return
        from tests.kafka._kit import make_topic

        assert self.broker is not None
        for given in self.story.inputs:
            if given.kind == "topic":
                make_topic(self.broker, given.partitions, name=topic_of(self.root, given.name))
        for asked in self.story.queries:
            if "topic" in asked.sinks:
                make_topic(self.broker, 2, name=topic_of(self.root, asked.name))

    def _feed(self, batches: int, harmed: str | None = None) -> None:
        """Let more input arrive; the first file of a stream may arrive damaged."""
        for batch in range(self.fed, min(self.fed + batches, self.story.batches)):
            for given in self.story.inputs:
                self._arrive(given, batch, is_damaged=given.name == harmed and batch == self.fed)
        self.fed = min(self.fed + batches, self.story.batches)

    def _arrive(self, given: Input, batch: int, is_damaged: bool = False) -> None:
        rows = self.rows.arriving[given.name][batch]
        if given.kind == "topic":
            self._produce(given, [as_json(row).encode() for row in rows])
        elif is_damaged:
            damage(self.root / "in" / given.name, given, batch, rows, random.Random(batch))
        else:
            drop(self.root / "in" / given.name, given, batch, rows)

    def _produce(self, given: Input, records: list[bytes]) -> None:
        """Send records to all partitions in turn."""
        from tests.kafka._kit import produce

        assert self.broker is not None
        for number in range(given.partitions):
            mine = records[number :: given.partitions]
            produce(self.broker, topic_of(self.root, given.name), mine, partition=number)

    # ----------------------------------------------------------------------------------------------- steps

    def _step(self, step: Step) -> None:
        before = self._committed()
        if step.trouble == "file":
            self._harm_file(step)
            return
        self._feed(step.batches)
        if step.point is not None:
            self._kill_at(step, step.point)
            return
        kind = {"group": "driver"}.get(step.trouble, step.trouble)
        self._until(lambda: self._committed() >= before + step.commits, f"{step.commits} more batches")
        if kind in ("worker", "daemon", "executor", "jvm", "driver"):
            self._soon(lambda: self.job is not None and bool(self.job.victims(kind)))
        self._pause(step.delay)
        if step.trouble in ("disk", "clock", "slow"):
            self._harm(step)
        else:
            self._kill(step)

    def _kill_at(self, step: Step, point: str) -> None:
        """Start the job with a crash point, and kill when it hangs there; a point may lie on no path."""
        if self.job is not None and self.job.is_alive():
            self._kill(step)
            return
        before = self._committed()
        job = self._start(point)
        ready = lambda: job.mark.exists() or self._committed() >= before + 2 or not job.is_alive()
        self._until(ready, f"crash point {point}", restart=False)
        if step.trouble == "worker" and job.mark.exists():
            self._kill_hanging(job)
        else:
            self._kill(step)

    def _kill_hanging(self, job: Running) -> None:
        """Kill workers one after the other, until it was the one that hangs."""
        failed = self._failures()
        for victim in job.victims("worker"):
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
                self.outcome.kills["worker"] += 1
            self._pause(0.3)
            if self._failures() > failed:
                return

    def _kill(self, step: Step) -> None:
        kind, job = step.trouble, self.job
        if kind == "broker":
            assert self.broker is not None
            self.broker.stop()
            self.outcome.kills[kind] += 1
            self.broker.start()
            return
        victims = job.victims("driver" if kind == "group" else kind) if job is not None else []
        if not victims or job is None:
            self.outcome.missed[kind] += 1
            return
        victim, failed = victims[step.draw % len(victims)], self._failures()
        if kind == "group":
            job.end()
        else:
            self.left_over += job.family()[1:]
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(signal.SIGKILL)
        self.outcome.kills[kind] += 1
        if kind in ENDING:
            others = {one.pid for one in victims}
            self._wait_for_end(job, lambda: kind == "jvm" and (self._failures() > failed or _is_new(job, others)))

    def _wait_for_end(self, job: Running, noticed: Callable[[], bool]) -> None:
        """Wait until the driver has ended, or has noticed what is gone."""
        limit = time.monotonic() + PATIENCE
        while job.is_alive() and not noticed():
            if time.monotonic() > limit:
                raise StuckError(f"life {job.life} goes on without what was killed:\n{self._log()}")
            self._tick()

    # ----------------------------------------------------------------------------------------------- harms

    def _harm(self, step: Step) -> None:
        dice, kind = random.Random(step.draw), step.trouble
        if kind == "disk":
            self._fill_disk()
        elif self.shim is None or not self.shim.works:
            self.outcome.missed[kind] += 1
            return
        elif kind == "clock":
            self.shim.jump(dice.choice((-1, 1)) * dice.choice((1, 60, 3600, 3 * 86_400)))
        else:
            self.shim.slow(dice.uniform(0.01, 0.12))
            before = self._committed()
            self._feed(1)
            self._until(lambda: self._committed() > before, "a batch on a slow disk")
            self.shim.slow(0.0)
        self.outcome.harms[kind] += 1

    def _fill_disk(self) -> None:
        """Let a run fail for want of room, then make room."""
        if not self.disk.is_small:
            self.outcome.missed["disk"] += 1
            return
        failed = self._failures()
        with self.disk.full():
            self._feed(1)
            self._until(lambda: self._failures() > failed, "an error about a full disk")

    def _harm_file(self, step: Step) -> None:
        """A file arrives damaged.  It is repaired after the run has failed; or it is left out for ever."""
        known = [g for g in self.story.inputs if g.kind == "parquet" and (g.bad == "fail" or g.way == "plain")]
        if not known:
            self.outcome.missed["file"] += 1
            return
        given, batch, failed = known[step.draw % len(known)], self.fed, self._failures()
        self._feed(step.batches, harmed=given.name)
        if given.bad == "skip":
            self.left_out.add((given.name, batch))
        else:
            self._until(lambda: self._failures() > failed, f"an error about file {batch} of {given.name}")
            self._arrive(given, batch)
        self.outcome.harms["file"] += 1

    # ---------------------------------------------------------------------------------------------- waiting

    def _start(self, point: str = "") -> Running:
        environ = self.shim.environ if self.shim is not None else {}
        servers = self.broker.servers if self.broker is not None and self.story.has_topics else ""
        if self.job is not None:
            self.job.let_go()
        self.job = Running(self.root, self.outcome.lives, servers, point, environ)
        self.outcome.lives += 1
        return self.job

    def _until(self, done: Callable[[], bool], what: str, restart: bool = True) -> None:
        """Wait for something; a job that was ended by a kill is started again."""
        limit = time.monotonic() + PATIENCE
        while not done():
            if restart and (self.job is None or not self.job.is_alive()):
                code = None if self.job is None else self.job.process.returncode
                if code not in (None, JVM_GONE, -signal.SIGKILL):
                    raise StuckError(f"the job ended with {code}, waiting for {what}:\n{self._log()}")
                self._start()
            if time.monotonic() > limit:
                raise StuckError(f"{PATIENCE:.0f} s have passed without {what}:\n{self._log()}")
            self._tick()

    def _soon(self, done: Callable[[], bool]) -> None:
        """Wait a while for something that may not come: a job that has nothing to do starts no workers."""
        limit = time.monotonic() + A_WHILE
        self._until(lambda: done() or time.monotonic() > limit, "a moment")

    def _pause(self, seconds: float) -> None:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            self._tick()

    def _tick(self) -> None:
        if self.job is not None and self.job.is_alive():
            with contextlib.suppress(Exception):
                self.job.process.wait(timeout=0.01)
        else:
            time.sleep(0.01)

    def _committed(self) -> int:
        folder = self.disk.path / "state" / "manifests"
        return max((int(p.stem) for p in folder.glob("[0-9]*.json")), default=-1) if folder.exists() else -1

    def _failures(self) -> int:
        place = self.root / "failures"
        return len(place.read_text().splitlines()) if place.exists() else 0

    def _log(self) -> str:
        logs = sorted(self.root.glob("log*"), key=lambda path: path.stat().st_mtime)[-2:]
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in logs)

    # ------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        self._feed(self.story.batches)
        (self.root / "finish").touch()
        ended = lambda: self.job is not None and self.job.process.poll() == 0
        self._until(ended, "the end of the job")
        self.outcome.failures = self._failures()
        unfit = [told for told in failures(self.root) if told["kind"] not in REASONS]
        assert not unfit, f"a run failed for a reason that nobody gave it: {unfit[0]}"

    def _end(self) -> None:
        self.outcome.seconds = time.monotonic() - self.began
        if self.job is not None:
            self.job.end()
        alive = survivors(self.left_over)
        for process in alive:
            process.kill()
        assert not alive, f"still alive: {alive}"

    def _compare(self) -> None:
        tables = self.rows.left(self.left_out)
        asked = [*self.story.queries, *([self.story.extra] if self.story.extra is not None else [])]
        for query in asked:
            names, wanted = expected(query, tables)
            for sink in query.sinks:
                here = found(query, sink, self.root, names, self._consume)
                wish = self._final(query.closes, tables, wanted) if sink == "final" else wanted
                self._same(f"{query.name}, sink {sink}", here, wish)
        if self.story.extra is not None and not self.story.extra.is_view:
            self._compare_live(names, wanted)
        staged = self.disk.path / "state" / "results"
        assert not any(staged.iterdir()), f"staged results stay behind: {list(staged.iterdir())}"

    def _compare_live(self, names: list[str], wanted: Answer) -> None:
        """What a query gave that came and went: a part of the answer, nothing twice."""
        for folder in sorted((out(self.root) / EXTRA).glob("*")):
            table = ds.dataset(folder, format="parquet").to_table().select(names)
            here = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
            assert here <= wanted, f"query {EXTRA} in {folder.name}: {len(here - wanted)} rows too often or wrong"
            self.outcome.sinks += 1
            self.outcome.rows += here.total()

    def _final(self, stream: str | None, tables: dict[str, Any], wanted: Answer) -> Answer:
        """The groups of windows that have ended by the watermark."""
        assert stream is not None
        newest = max(tables[stream].column("ts").to_pylist())
        mark = (newest - datetime.timedelta(seconds=LATENESS + 60)).isoformat()
        return Counter({row: count for row, count in wanted.items() if row[0] <= mark})

    def _same(self, what: str, here: Answer, wanted: Answer) -> None:
        missing, more = wanted - here, here - wanted
        if missing or more:
            some = {"missing": list(missing.items())[:3], "too many": list(more.items())[:3]}
            raise AssertionError(f"{what}: {missing.total()} rows missing, {more.total()} too many, e.g. {some}")
        self.outcome.sinks += 1
        self.outcome.rows += wanted.total()

    def _consume(self, topic: str) -> list[Any]:
        from tests.kafka._kit import consume_all

        assert self.broker is not None
        return consume_all(self.broker, topic)


def _is_new(job: Running, others: set[int]) -> bool:
    """Whether the job has another JVM: one that dies while it starts is started again, and nothing is said."""
    return any(one.pid not in others for one in job.victims("jvm"))


@contextlib.contextmanager
def folder(seed: int) -> Iterator[Path]:
    """A folder for a story; it stays if the story fails."""
    root = Path(tempfile.mkdtemp(prefix=f"weft-story-{seed}-"))
    yield root
    shutil.rmtree(root, ignore_errors=True)


def failures(root: Path) -> list[dict[str, Any]]:
    """What runs said when they failed."""
    place = root / "failures"
    return [json.loads(line) for line in place.read_text().splitlines()] if place.exists() else []


def play(
    story: Story,
    broker: Broker | None = None,
    say: Callable[[str], None] = lambda _line: None,
    outcome: Outcome | None = None,
) -> Outcome:
    """Play a story; raise if anything was lost or doubled."""
    with folder(story.seed) as root:
        return Play(story, root, broker, say, outcome).go()


__all__ = ["Outcome", "Play", "StuckError", "failures", "play"]
