"""Stories of trouble, drawn from a seed: a job, its input, and what happens to it.

A story is plain data and a function of its seed alone: streams, queries, sinks, rows, and a list of steps.  A step lets
some input arrive, waits until the job has committed so many batches, waits a moment, and does something terrible.  What
is not in the seed is how fast the machine is, so a kill after 0.13 seconds may hit another instruction in a repetition;
a kill at a crash point hits the same one.

    kills   driver     the Python process of the job alone; its JVM and its workers are left to find out
            jvm        Spark's JVM; the driver is left to find out
            worker     one of the Python processes that run tasks
            daemon     the process that forks them
            executor   a JVM that runs tasks, where the job has some of its own
            group      all processes of the job at once
            broker     the Kafka broker, which comes back
    harms   disk       the disk of checkpoint and results is full, and has room again
            file       an input file is cut, empty or garbage; it is repaired, or left out
            clock      the clock of all processes jumps
            slow       every sync of a file takes long, for a while
            store      many requests to the object store fail or are slow, for a while
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal as OneOf

from tests.chaos.asked import Asked, ask, extra
from weft.host.crash import points

Kill = OneOf["driver", "jvm", "worker", "daemon", "executor", "group", "broker"]
Harm = OneOf["disk", "file", "clock", "slow", "store"]
Host = OneOf["local", "retries", "executors"]
"""Where a lost task ends the run; where Spark runs it again; where it does so in JVMs of their own."""
HOSTS: dict[Host, int] = {"local": 40, "retries": 45, "executors": 15}
KILLS: dict[Host, dict[Kill, int]] = {
    "local": {"worker": 33, "daemon": 10, "driver": 24, "group": 16, "jvm": 17},
    "retries": {"worker": 34, "daemon": 10, "driver": 24, "group": 16, "jvm": 16},
    "executors": {"executor": 44, "worker": 32, "daemon": 4, "driver": 10, "group": 10},
}
"""How often each kill is drawn; most kill more than a worker.  The broker comes on top where there is one."""
BROKER = 12
ENDING = ("driver", "group", "jvm")
"""Kills after which the job has to be started again."""
STRATEGIES = (None, None, "flat", "left_deep", "hypercube:hash")
ROWS = 60
"""Rows of a stream in a batch."""


@dataclass(frozen=True, slots=True)
class Input:
    """A stream of the job."""

    name: str
    kind: OneOf["parquet", "csv", "json", "topic", "frame"]
    way: OneOf["plain", "changes", "upserts", "once", "versions"] = "plain"
    """Tables are read once, or their rows replace each other by key, each with a time from which it holds."""
    bad: OneOf["fail", "skip"] = "fail"
    partitions: int = 1

    @property
    def is_timed(self) -> bool:
        """Whether it is a stream that has an event time."""
        return self.way == "plain"

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return self.way in ("once", "versions")

    @property
    def is_filed(self) -> bool:
        """Whether it comes as files."""
        return self.kind != "topic"


@dataclass(frozen=True, slots=True)
class Step:
    """Input that arrives, a moment, and what happens then."""

    batches: int
    commits: int
    delay: float
    trouble: Kill | Harm
    point: str | None = None
    """A crash point, at which the kill waits for the job instead."""
    draw: int = 0
    """Chooses among several victims or ways."""


@dataclass(frozen=True, slots=True)
class Story:
    """A job and its troubles."""

    seed: int
    host: Host
    inputs: tuple[Input, ...]
    queries: tuple[Asked, ...]
    extra: Asked | None
    """A query that comes and goes while the job runs; with it workers and strategies change too."""
    small_disk: bool
    shim: bool
    """Whether processes run with a library that can make clocks jump and disks slow."""
    is_remote: bool
    """Whether the checkpoint is in an object store."""
    steps: tuple[Step, ...]

    @property
    def has_topics(self) -> bool:
        """Whether a broker takes part."""
        sinks = (sink for query in self.queries for sink in query.sinks)
        return any(not given.is_filed for given in self.inputs) or "topic" in sinks

    @property
    def batches(self) -> int:
        """How many batches of input there are, for each stream."""
        return 2 + sum(step.batches + (step.trouble in ("disk", "slow", "store")) for step in self.steps)

    def describe(self) -> str:
        """The story in some lines."""
        where = "in an object store" if self.is_remote else "in a folder"
        lines = [
            f"story {self.seed}: {self.host}, checkpoint {where}, {self.batches} batches of {ROWS} rows for each of"
        ]
        lines += [f"  {given.name}: {given.kind}, {given.way}, bad files {given.bad}" for given in self.inputs]
        asked = [*self.queries, *([self.extra] if self.extra else [])]
        lines += [f"  {query.name} -> {', '.join(query.sinks)}: {' '.join(query.sql.split())}" for query in asked]
        lines += [f"  {number}. {step}" for number, step in enumerate(self.steps)]
        return "\n".join(lines)


def draw(
    seed: int, kills: int = 20, host: Host | None = None, topics: bool | None = None, remote: bool | None = None
) -> Story:
    """The story of a seed, with so many kills; its host, and whether it has topics or a store, may be given."""
    dice = random.Random(f"story {seed}")
    where = dice.choices(list(HOSTS), list(HOSTS.values()))[0]
    has_topics, is_remote = dice.random() < 0.25, dice.random() < 0.35
    where, has_topics = host or where, has_topics if topics is None else topics
    is_remote = is_remote if remote is None else remote
    inputs = _inputs(dice, has_topics, allow_frame=where != "executors" and not is_remote)
    framed = any(given.kind == "frame" for given in inputs)
    changing = not framed and dice.random() < 0.5
    names = {given.name: given for given in inputs}
    queries = ask(dice, names, has_topics, is_remote)
    is_own = where != "executors" and not is_remote
    has_disk = is_own and dice.random() < 0.4
    shim = is_own and not has_topics and dice.random() < 0.5
    harms = _harms(inputs, {"disk": has_disk, "clock": shim, "slow": shim, "store": is_remote})
    steps = _steps(dice, kills, where, harms, has_topics)
    more = extra(dice, names) if changing else None
    return Story(seed, where, inputs, queries, more, has_disk, shim, is_remote, steps)


def _inputs(dice: random.Random, has_topics: bool, allow_frame: bool) -> tuple[Input, ...]:
    """Two to five streams, of which the first two have an event time, and now and then a table or two."""
    made = []
    is_framed = allow_frame and not has_topics and dice.random() < 0.12
    for number in range(dice.choice((2, 2, 3, 3, 4, 5))):
        kind = dice.choice(("parquet", "parquet", "csv", "json"))
        if has_topics and dice.random() < 0.7:
            kind = "topic"
        if is_framed and number == 1:
            kind = "frame"
        way = "plain" if number < 2 or is_framed else dice.choice(("plain", "changes", "upserts"))
        bad = "skip" if kind == "parquet" and not is_framed and dice.random() < 0.4 else "fail"
        partitions = dice.choice((1, 2, 3)) if way == "plain" else 1
        made.append(Input("abcde"[number], kind, way, bad, partitions))  # type: ignore[arg-type]
    tables = [] if is_framed else dice.choice(([], ["once"], ["versions"], ["once", "versions"]))
    for name, way in zip("tu", tables, strict=False):
        kind = "topic" if has_topics and way == "versions" and dice.random() < 0.5 else dice.choice(("parquet", "csv"))
        made.insert(0, Input(name, kind, way))  # type: ignore[arg-type]
    return tuple(made)


def _harms(inputs: tuple[Input, ...], means: dict[Harm, bool]) -> list[Harm]:
    found: list[Harm] = [harm for harm, here in means.items() if here]
    return [*found, "file"] if any(given.kind == "parquet" for given in inputs) else found


def _steps(dice: random.Random, kills: int, host: Host, harms: list[Harm], has_topics: bool) -> tuple[Step, ...]:
    weights: dict[Kill, int] = dict(KILLS[host]) | ({"broker": BROKER} if has_topics else {})
    steps: list[Step] = []
    for _ in range(kills):
        if harms and dice.random() < 0.2:
            steps.append(Step(2, 1, dice.uniform(0, 0.2), dice.choice(harms), None, dice.randrange(1 << 30)))
        kill = dice.choices(list(weights), list(weights.values()))[0]
        # Where Spark runs a lost task again, a crash point on a worker would be reached again.
        fatal = (*ENDING, "worker") if host == "local" else ENDING
        is_new = bool(steps) and steps[-1].trouble in ENDING
        steps.append(_kill(dice, kill, is_new=is_new, has_points=is_new and kill in fatal))
    return tuple(steps)


def _kill(dice: random.Random, kill: Kill, is_new: bool, has_points: bool) -> Step:
    """A kill, and its moment: at a crash point where the job is started anew, now and then while it still starts."""
    which = dice.randrange(1 << 30)
    if has_points and dice.random() < 0.6:
        known = [name for name in points(2) if kill != "worker" or name.startswith(("wave", "segment"))]
        return Step(2, 0, 0.0, kill, dice.choice(known), which)
    if is_new and dice.random() < 0.3:
        return Step(1, 0, dice.uniform(0, 4), kill, None, which)
    commits = dice.choice((0, 0, 1))
    return Step(commits + dice.choice((0, 1)), commits, dice.uniform(0, 0.35), kill, None, which)
