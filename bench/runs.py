"""One run of one plan: in this process or on Spark, counted and timed, its answer checked.

All hosts read the same files.  On Spark the clock runs from the start of the run to its end; the JVM and its Python
processes are running by then, because of a first run that is not timed.  In the process only the batches are timed.

A simulated cluster: the workers of a wave run one after the other, each alone on a core, and the slowest of them
counts.  Reading is divided evenly; the network costs nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import weft
from bench.byhand import tree_text
from bench.workload import Answer, Workload, answer_in, answer_of
from weft.optimizer.choose import Choice
from weft.testing import Trial
from weft.topology.model import Topology

STRATEGIES = ("flat", "left_deep", "tree", "auto")
QUERY = "joined"


@dataclass(frozen=True, slots=True)
class Setting:
    """How a workload is to be planned."""

    label: str
    strategy: Any
    """The name of a strategy, or a plan by hand."""
    workers: int = 2
    placement: str = "keyed"
    capacity: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome of a run."""

    workload: str
    label: str
    plan: str
    """The tree of stores; a join in inner brackets is kept."""
    workers: int
    placement: str
    capacity: float | None
    tasks: int
    """Of the store that has most of them."""
    rows: int
    results: int
    seconds: float
    stored: int
    """Rows ever stored, intermediate results among them."""
    sent: int
    """Tuples that probed a store, copies counted: what the papers call tuples sent."""
    exchanged: int
    """Tuples that went through the exchange."""
    messages: int
    """Payloads that carried them."""
    peak_rows: int
    peak_bytes: int
    model_stored: float
    model_sent: float
    model_seconds: float
    """By the prices of the host; what every plan of the workload pays alike is left out."""
    right: bool

    @property
    def speed(self) -> float:
        """Input rows per second."""
        return self.rows / self.seconds


Host = Callable[[Workload, Setting, Answer], Figures]
"""Runs a workload as the setting says; the right answer is given."""


def open_session(workload: Workload, setting: Setting, folder: Path, spark: Any = None) -> weft.Session:
    """A session with the workload's streams and its query."""
    s = weft.Session(checkpoint=folder / "state", workers=setting.workers, spark=spark, progress=False)
    s.options(
        statistics=workload.statistics,
        strategy=setting.strategy,
        placement=setting.placement,
        capacity=setting.capacity,
    )
    for name in workload.rows:
        s.stream(name, weft.read.parquet(workload.folder / name, max_files=1))
    s.query(QUERY, workload.sql).to_parquet(folder / "rows")
    return s


def in_process(workload: Workload, setting: Setting, truth: Answer) -> Figures:
    """The run without Spark."""
    return _feed(workload, setting, truth, lambda _trial, seconds: seconds)


def on_cluster(workload: Workload, setting: Setting, truth: Answer) -> Figures:
    """The run without Spark, timed as if every worker had a machine for itself."""
    return _feed(workload, setting, truth, lambda trial, _seconds: cluster_seconds(trial.spent, setting.workers))


def cluster_seconds(spent: Mapping[tuple[int, int], float], workers: int) -> float:
    """Reading divided by all workers, and of each wave the slowest worker."""
    waves: dict[int, float] = {}
    for (wave, _), seconds in spent.items():
        waves[wave] = max(waves.get(wave, 0.0), seconds)
    return waves.pop(0, 0.0) / workers + sum(waves.values())


def _feed(workload: Workload, setting: Setting, truth: Answer, timed: Callable[[Trial, float], float]) -> Figures:
    with tempfile.TemporaryDirectory() as folder, open_session(workload, setting, Path(folder)) as s:
        trial = Trial(s)
        seconds, states = 0.0, []
        for tables in workload.batches():
            began = time.perf_counter()
            trial.feed(tables)
            seconds += timed(trial, time.perf_counter() - began)
            states.append((sum(trial.state_rows.values()), sum(trial.state_bytes.values())))
        right = answer_of(trial.table(QUERY)) == truth
        return _figures(workload, setting, s.choices[0], trial.counters, seconds, states, right)


class OnSpark:
    """Runs in one local Spark session, one after the other."""

    def __init__(self, cores: int) -> None:
        from weft.launch.spark import local_session

        self.spark = local_session(cores)

    def __call__(self, workload: Workload, setting: Setting, truth: Answer) -> Figures:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with open_session(workload, setting, folder, self.spark) as s:
                choice = s.choices[0]
                began = time.perf_counter()
                report = s.run()
                seconds = time.perf_counter() - began
            states = [(batch.state_rows, batch.state_bytes) for batch in report.batches]
            right = answer_in(folder / "rows") == truth
            return _figures(workload, setting, choice, report.counters, seconds, states, right)

    def stop(self) -> None:
        """Stop Spark."""
        self.spark.stop()


def alternate(
    host: Host, workload: Workload, settings: Sequence[Setting], repeats: int, truth: Answer
) -> dict[str, Figures]:
    """Label -> the best of `repeats` runs, the plans taking turns.  Settings that lead to one plan share its runs."""
    topologies = {setting.label: topology_of(workload, setting) for setting in settings}
    first = {label: next(other for other in topologies if topologies[other] == t) for label, t in topologies.items()}
    best: dict[str, Figures] = {}
    for _ in range(repeats):
        for setting in settings:
            if first[setting.label] == setting.label:
                found = host(workload, setting, truth)
                before = best.get(setting.label, found)
                faster = min(before, found, key=lambda f: f.seconds)
                best[setting.label] = replace(faster, right=before.right and found.right)
    return {label: replace(best[same], label=label) for label, same in first.items()}


def topology_of(workload: Workload, setting: Setting) -> Topology:
    """The plan, without running it."""
    with tempfile.TemporaryDirectory() as folder, open_session(workload, setting, Path(folder)) as s:
        return s.topology


def _figures(
    workload: Workload,
    setting: Setting,
    choice: Choice,
    counters: weft.Counters,
    seconds: float,
    states: Sequence[tuple[int, int]],
    right: bool,
) -> Figures:
    model, layout = choice.chosen.bill, choice.chosen.layout
    return Figures(
        workload=workload.name,
        label=setting.label,
        plan=tree_text(choice.model.graph, layout.tree),
        workers=setting.workers,
        placement=setting.placement,
        capacity=setting.capacity,
        tasks=max(layout.tasks.values(), default=setting.workers),
        rows=sum(workload.rows.values()),
        results=sum(counters.results.values()),
        seconds=seconds,
        stored=counters.tuples_stored,
        sent=counters.tuples_sent,
        exchanged=sum(counters.sent.values()),
        messages=sum(counters.messages.values()),
        peak_rows=max(rows for rows, _ in states),
        peak_bytes=max(size for _, size in states),
        model_stored=model.scost,
        model_sent=model.pcost,
        model_seconds=model.seconds,
        right=right,
    )
