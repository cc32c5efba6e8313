"""Plays a story: lets input arrive, kills, starts again, and compares every sink with DuckDB in the end."""

from __future__ import annotations

import contextlib
import json
import pickle
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from bench.broker import Broker
from tests.chaos.compare import Comparison
from tests.chaos.harms import Disk, Shim, damage
from tests.chaos.job import JVM_GONE
from tests.chaos.outcome import Outcome
from tests.chaos.rows import Rows, as_json, drop
from tests.chaos.sinks import topic_of
from tests.chaos.story import ENDING, Input, Step, Story
from tests.chaos.victims import Running, survivors
from tests.objectstore import Store

PATIENCE = 300.0
"""Seconds in which a job must get on, on a machine that has other things to do."""

A_TICK = 0.02
A_MINUTE = 60.0
"""Seconds in which a driver must notice that its JVM is gone."""
A_WHILE = 20.0
REASONS = ("HostError", "SourceError", "SinkError")
"""Errors that kills and harm may lead to; state that does not fit is none of them."""
STORE_REASONS = ("cannot be used", "cannot be written", "cannot be read", "cannot be listed", "cannot be removed")
A_FEW = 0.005
"""The part of requests to an object store that fails, and of those that are slow, while nothing worse happens."""


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
        patience: float = 1.0,
    ) -> None:
        self.patience = patience
        self.say, self.outcome = say, outcome or Outcome(story.seed)
        self.outcome.is_remote = story.is_remote
        self.story, self.root, self.broker = story, root, broker
        self.rows = Rows(story)
        self.began, self.fed = time.monotonic(), 0
        self.left_out: set[tuple[str, int]] = set()
        self.damaged: list[tuple[Input, int]] = []
        self.disk = Disk(root / "disk", small=story.small_disk)
        self.shim = Shim(root / "trouble") if story.shim else None
        self.store = Store() if story.is_remote else None
        self.job: Running | None = None
        self.left_over: list[psutil.Process] = []
        (root / "story").write_bytes(pickle.dumps(story))

    def go(self) -> Outcome:
        """From the first row to the last comparison."""
        began = self.began
        self._make_topics()
        with self.disk, contextlib.ExitStack() as stack:
            self._open_store(stack)
            stack.callback(self._end)
            self._feed(2)
            for number, step in enumerate(self.story.steps):
                self.say(f"{time.monotonic() - began:.1f} s, batch {self._committed()}, step {number}: {step}")
                self._step(step)
            self.say(f"{time.monotonic() - began:.1f} s, batch {self._committed()}: the end")
            self._finish()
            self._compare()
        return self.outcome

    def _open_store(self, stack: contextlib.ExitStack) -> None:
        """Run the object store; all the time a few of its requests fail or are slow."""
        if self.store is not None:
            stack.enter_context(self.store.running())
            stack.callback(self.store.clear, self.root.name)
            (self.root / "store").write_text(self.store.url(f"{self.root.name}/{{}}"))
            self.store.failing = self.store.slow = A_FEW

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
        if not rows:
            return
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
        if step.trouble in ("disk", "clock", "slow", "store"):
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
                break
        job.mark.unlink(missing_ok=True)

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
        job.mark.unlink(missing_ok=True)  # whoever hangs at a crash point and was not killed goes on
        self.outcome.kills[kind] += 1
        if kind in ENDING:
            others = {one.pid for one in victims}
            self._wait_for_end(job, lambda: kind == "jvm" and (self._failures() > failed or _is_new(job, others)))

    def _wait_for_end(self, job: Running, noticed: Callable[[], bool]) -> None:
        """Wait until the driver has ended, or has noticed what is gone."""
        limit = time.monotonic() + A_MINUTE * self.patience
        while job.is_alive() and not noticed():
            if time.monotonic() > limit:
                raise self._stuck(f"life {job.life} goes on without what was killed")
            job.mark.unlink(missing_ok=True)  # it may come to its crash point only now
            self._tick()

    # ----------------------------------------------------------------------------------------------- harms

    def _harm(self, step: Step) -> None:
        dice, kind = random.Random(step.draw), step.trouble
        if kind == "disk":
            self._fill_disk()
        elif kind == "store":
            self._trouble_store(dice.uniform(0.03, 0.2))
        elif self.shim is None or not self.shim.works:
            self.outcome.missed[kind] += 1
            return
        elif kind == "clock":
            # Spark's own streams wait for the clock of the machine to reach the next trigger: if it goes back, so long.
            ways = (1,) if any(given.kind == "frame" for given in self.story.inputs) else (-1, 1)
            self.shim.jump(dice.choice(ways) * dice.choice((1, 60, 3600, 3 * 86_400)))
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

    def _trouble_store(self, part: float) -> None:
        """Let many requests fail or be slow, until a batch was committed in spite of it."""
        assert self.store is not None
        self.store.failing = self.store.slow = part
        before = self._committed()
        self._feed(1)
        self._until(lambda: self._committed() > before, "a batch with a store in trouble")
        self.store.failing = self.store.slow = A_FEW

    def _harm_file(self, step: Step) -> None:
        """A file arrives damaged.  It is repaired after the run has failed; or it is left out for ever."""
        known = [g for g in self.story.inputs if g.kind == "parquet" and (g.bad == "fail" or g.way == "plain")]
        known = [given for given in known if given.way != "once"]
        if not known or self.fed >= self.story.batches:
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
        environ = {**self._machine(), **(self.shim.environ if self.shim is not None else {})}
        servers = self.broker.servers if self.broker is not None and self.story.has_topics else ""
        if self.job is not None:
            self.job.let_go()
        self.job = Running(self.root, self.outcome.lives, servers, point, environ)
        self.outcome.lives += 1
        return self.job

    def _machine(self) -> dict[str, str]:
        """Where copies of the state are kept; now and then the job goes on on another machine, which has none."""
        dice = random.Random(f"machines {self.story.seed}")
        moves = sum(dice.random() < 0.4 for _ in range(self.outcome.lives))
        folder = self.root / f"machine{moves if self.store is not None else 0}"
        folder.mkdir(exist_ok=True)
        return {"TMPDIR": str(folder)}

    def _until(self, done: Callable[[], bool], what: str, restart: bool = True) -> None:
        """Wait for something; a job that was ended by a kill is started again."""
        limit = time.monotonic() + PATIENCE * self.patience
        while not done():
            if restart and (self.job is None or not self.job.is_alive()):
                code = None if self.job is None else self.job.process.returncode
                if done():  # it has ended since
                    return
                if code not in (None, JVM_GONE, -signal.SIGKILL):
                    raise self._stuck(f"the job ended with {code}, waiting for {what}")
                self._start()
            if time.monotonic() > limit:
                raise self._stuck(f"{PATIENCE * self.patience:.0f} s have passed without {what}")
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
        time.sleep(A_TICK)

    def _committed(self) -> int:
        names = [name for name in self._listed("manifests") if name[:1].isdigit() and ".json" in name]
        return max((int(name.partition(".")[0]) for name in names), default=-1)

    def _listed(self, part: str) -> list[str]:
        """The names of files in a folder of the checkpoint."""
        if self.store is not None:
            folder = f"{self.root.name}/state/{part}"
            return [rest for name in self.store.names(folder) if (rest := name.removeprefix(f"{folder}/"))]
        place = self.disk.path / "state" / part
        return [path.name for path in place.iterdir()] if place.exists() else []

    def _failures(self) -> int:
        place = self.root / "failures"
        return len(place.read_text().splitlines()) if place.exists() else 0

    def _stuck(self, what: str) -> StuckError:
        """An error with the last logs; a driver that lives adds where each of its threads is."""
        if self.job is not None and self.job.is_alive():
            self.job.process.send_signal(signal.SIGUSR1)
            self._pause(1.0)
        return StuckError(f"{what}:\n{self._log()}")

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
        unfit = [told for told in failures(self.root) if told["kind"] not in REASONS and not self._is_of_store(told)]
        assert not unfit, f"a run failed for a reason that nobody gave it: {unfit[0]}"

    def _is_of_store(self, told: dict[str, Any]) -> bool:
        """Whether a run ended because the object store did not answer."""
        return self.store is not None and any(words in told["said"] for words in STORE_REASONS)

    def _end(self) -> None:
        self.outcome.seconds = time.monotonic() - self.began
        if self.job is not None:
            self.job.end()
        alive = survivors(self.left_over)
        for process in alive:
            process.kill()
        assert not alive, f"still alive: {alive}"

    def _compare(self) -> None:
        tables, staged = self.rows.left(self.left_out), self._listed("results")
        Comparison(self.story, self.root, staged, tables, self._consume, self.outcome).run()

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
    patience: float = 1.0,
) -> Outcome:
    """Play a story; raise if anything was lost or doubled.  On a busy machine it needs more patience."""
    with folder(story.seed) as root:
        return Play(story, root, broker, say, outcome, patience).go()


__all__ = ["Outcome", "Play", "StuckError", "failures", "play"]
