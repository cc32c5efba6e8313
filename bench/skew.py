"""Schemes compared on uneven keys: loads at the scale of Squall's tables, and runs at a scale that fits one machine.

    python -m bench.skew [--share 1] [--simulated 1] [--repeats 2]

First every row of the paper's queries is routed and none is joined: loads and copies as in Tables 1 and 2.  Then
small joins of the same kind are run: in this process on eight workers to count loads, on Spark on two to take the time.
Every answer is compared with DuckDB's; a different one is marked WRONG.  Writes the numbers as JSON to bench/results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from bench.machine import machine_line, versions
from bench.runs import QUERY, Figures, Host, OnSpark, Setting, alternate, open_session
from bench.saying import block, say
from bench.skewdata import MAKERS, workload
from bench.skewsim import Join, Simulated, joins, simulate
from bench.streams import SEED
from bench.workload import Answer, Workload, answer_of
from weft.explain.words import cells
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.testing import Trial
from weft.topology.spread import Cube

RESULTS = Path(__file__).parent / "results"
SCHEMES: Mapping[str, str] = {
    "hash": "hypercube:hash",
    "random": "hypercube:random",
    "hybrid": "hypercube:hybrid",
    "flat": "flat",
    "auto": "auto",
}
HASHED = ("hash", "hybrid")
"""Schemes that hash: random is even whatever comes, and pays for it with copies."""
TARGET = 1.15
"""How much slower than the best scheme the automatic choice may be."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    share: float = 1.0
    """Of the usual size of the joins that are run."""
    simulated: float = 1.0
    """Of the rows of the paper's joins."""
    batches: int = 5
    repeats: int = 2
    counted_workers: int = 8
    timed_workers: int = 2


@dataclass(frozen=True, slots=True)
class Load:
    """What the workers of one run had to do."""

    workload: str
    label: str
    plan: str
    workers: int
    most: float
    mean: float
    """Rows stored and tuples answered, of the fullest worker and on average."""
    most_rows: float
    mean_rows: float
    """Rows stored alone: what the paper calls load."""
    model_rows: float | None
    """Rows of the fullest worker as the optimizer has them; None for a plan that is no cube."""
    replication: float
    network: float
    results: int
    right: bool


@dataclass(frozen=True, slots=True)
class Found:
    """Everything."""

    simulated: Sequence[Simulated]
    loads: Mapping[str, Mapping[str, Load]]
    """Workload -> scheme -> loads."""
    timed: Mapping[str, Mapping[str, Figures]]
    plans: Mapping[str, Mapping[str, str]]
    """Workload -> scheme -> plan of the timed runs."""

    @property
    def right(self) -> bool:
        """Whether every answer was DuckDB's."""
        runs = [*(run for each in self.loads.values() for run in each.values())]
        return all(run.right for run in runs) and all(f.right for each in self.timed.values() for f in each.values())


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    usual = Size()
    parser.add_argument("--share", type=float, default=usual.share, help="of the usual size of the joins that are run")
    parser.add_argument("--simulated", type=float, default=usual.simulated, help="of the rows of the paper's joins")
    parser.add_argument("--repeats", type=int, default=usual.repeats)
    asked = parser.parse_args()
    size = replace(usual, share=asked.share, simulated=asked.simulated, repeats=asked.repeats)
    print(f"schemes on uneven keys, {size.batches} batches; {machine_line()}, load average {os.getloadavg()[0]:.1f}")
    began = time.perf_counter()
    simulated = route_all(joins(), size)
    show_simulated(simulated)
    workloads = [workload(name, size.share, size.batches) for name in MAKERS]
    host = OnSpark(cores=size.timed_workers)
    try:
        host(workloads[0], Setting("warm", "flat"), (0, 0))
        found = measure(host, workloads, size, simulated)
    finally:
        host.stop()
    show(found)
    seconds = time.perf_counter() - began
    print(f"\n{seconds:.0f} seconds in all; written: {save(found, size, seconds, RESULTS)}")
    if not found.right:
        sys.exit("some answers are WRONG")


# ----------------------------------------------------------------------------------------------- measuring


def route_all(queries: Sequence[Join], size: Size) -> list[Simulated]:
    """Loads by routing alone."""
    found = []
    for join in queries:
        say(f"{join.name}: routing {sum(r.rows for r in join.relations.values()) * size.simulated:,.0f} rows")
        found += simulate(join, size.simulated)
    return found


def measure(host: Host, workloads: Sequence[Workload], size: Size, simulated: Sequence[Simulated]) -> Found:
    """All runs; `host` is where time is taken."""
    loads: dict[str, dict[str, Load]] = {}
    timed: dict[str, Mapping[str, Figures]] = {}
    plans: dict[str, dict[str, str]] = {}
    for each in workloads:
        truth = each.truth()
        say(f"{each.name}, {sum(each.rows.values()):,} rows, {truth[0]:,} results: {', '.join(SCHEMES)}")
        counted = [Setting(label, strategy, size.counted_workers) for label, strategy in SCHEMES.items()]
        loads[each.name] = {setting.label: count(each, setting, truth) for setting in counted}
        settings = [Setting(label, strategy, size.timed_workers) for label, strategy in SCHEMES.items()]
        plans[each.name] = {setting.label: plan_of(each, setting) for setting in settings}
        timed[each.name] = alternate(host, each, settings, size.repeats, truth)
    return Found(simulated, loads, timed, plans)


def count(each: Workload, setting: Setting, truth: Answer) -> Load:
    """A run in this process: who had to do how much."""
    with tempfile.TemporaryDirectory() as folder, open_session(each, setting, Path(folder)) as s:
        trial = Trial(s)
        for tables in each.batches():
            trial.feed(tables)
        counters, choice = trial.counters, s.choices[0]
        rows = [0] * setting.workers
        for ref in trial.segments:
            rows[ref.worker] += ref.rows
        load = [counters.load.get(str(worker), 0) for worker in range(setting.workers)]
        return Load(
            each.name, setting.label, _plan(choice), setting.workers,
            max(load), sum(load) / len(load), max(rows), sum(rows) / len(rows), _expected(choice),
            counters.replication_factor, counters.network_factor,
            sum(counters.results.values()), answer_of(trial.table(QUERY)) == truth,
        )  # fmt: skip


def plan_of(each: Workload, setting: Setting) -> str:
    """What a scheme comes to, in words."""
    with tempfile.TemporaryDirectory() as folder, open_session(each, setting, Path(folder)) as s:
        return _plan(s.choices[0])


def _plan(choice: Choice) -> str:
    layout = choice.chosen.layout
    spread = {alias: layout.spread.get(1 << i) for i, alias in enumerate(choice.query.aliases)}
    return "; ".join(f"{alias} {cells(s)}" for alias, s in spread.items() if s) or choice.chosen.name


def _expected(choice: Choice) -> float | None:
    """Rows of the fullest worker, if the plan is a cube."""
    spread = choice.chosen.layout.spread.values()
    if not spread or not all(isinstance(s, Cube) for s in spread):
        return None
    return choice.chosen.bill.scost * choice.chosen.bill.skew / choice.chosen.ways.workers


# ------------------------------------------------------------------------------------------------- showing


def show_simulated(simulated: Sequence[Simulated]) -> None:
    """Loads in millions, beside the paper's."""
    block("routing alone, millions of rows (parted: hypercube:hybrid as chosen here)", simulation_lines(simulated))


def show(found: Found) -> None:
    """Print what was run."""
    workers = max((run.workers for each in found.loads.values() for run in each.values()), default=0)
    block(f"loads on {workers} workers, in this process", load_lines(found.loads))
    block("seconds on Spark", time_lines(found))
    block("verdicts", verdicts(found))


def simulation_lines(simulated: Sequence[Simulated]) -> Iterator[str]:
    """One line for each query and scheme."""
    yield (
        f"  {'query':<15} {'machines':>8} {'scheme':<7} {'cube':<9} {'max':>7} {'model':>7} {'average':>8} "
        f"{'copies':>7}   {'max':>6} {'average':>8} {'copies':>7} of the paper"
    )
    for s in simulated:
        most, mean, copies = (_number(value) for value in s.paper)
        yield (
            f"  {s.join:<15} {s.machines:>8} {s.scheme:<7} {' x '.join(map(str, s.dims)):<9} {s.most / 1e6:>7.2f} "
            f"{s.model / 1e6:>7.2f} {s.mean / 1e6:>8.2f} {s.replication:>7.2f}   {most:>6} {mean:>8} {copies:>7}"
        )


def load_lines(loads: Mapping[str, Mapping[str, Load]]) -> Iterator[str]:
    """One line for each workload and scheme."""
    yield (
        f"  {'workload':<8} {'scheme':<7} {'max load':>10} {'average':>10} {'skew':>5} {'max rows':>9} {'model':>9} "
        f"{'average':>9} {'copies':>6} {'network':>7} {'results':>9}  answer  plan"
    )
    for each in loads.values():
        for run in each.values():
            model = "" if run.model_rows is None else f"{run.model_rows:,.0f}"
            yield (
                f"  {run.workload:<8} {run.label:<7} {run.most:>10,.0f} {run.mean:>10,.0f} {run.most / run.mean:>5.2f} "
                f"{run.most_rows:>9,.0f} {model:>9} {run.mean_rows:>9,.0f} {run.replication:>6.2f} {run.network:>7.2f} "
                f"{run.results:>9,}  {_answer(run.right)}   {run.plan}"
            )


def time_lines(found: Found) -> Iterator[str]:
    """One line for each workload and scheme."""
    yield f"  {'workload':<8} {'scheme':<7} {'seconds':>8} {'rows/s':>10} {'model':>7}  answer  plan"
    for name, each in found.timed.items():
        for label, f in each.items():
            yield (
                f"  {name:<8} {label:<7} {f.seconds:>8.2f} {f.speed:>10,.0f} {f.model_seconds:>7.2f}  "
                f"{_answer(f.right)}   {found.plans[name][label]}"
            )


def verdicts(found: Found) -> Iterator[str]:
    """What the issue asks for, and whether it holds."""
    for name in dict.fromkeys(s.join for s in found.simulated):
        most = {s.scheme: s.most / 1e6 for s in found.simulated if s.join == name and s.scheme != "random"}
        yield _lowest(f"{name}, simulated", most, "parted")
    for name, each in found.loads.items():
        yield _lowest(f"{name}, rows", {label: each[label].most_rows for label in HASHED}, "hybrid")
        yield _lowest(f"{name}, load", {label: each[label].most for label in HASHED}, "hybrid")
    for name, timed in found.timed.items():
        best = min(timed.values(), key=lambda f: f.seconds)
        ratio = timed["auto"].seconds / best.seconds
        mark = "" if ratio <= TARGET else f"   MISSED, at most {TARGET:.2f}"
        plan = found.plans[name]["auto"]
        yield f"  {name}: auto takes {ratio:.2f} times the best scheme's time ({best.label}); auto is {plan}{mark}"


def _lowest(what: str, most: Mapping[str, float], label: str) -> str:
    said = ", ".join(f"{scheme} {load:,.4g}" for scheme, load in most.items())
    mark = "" if most[label] <= min(most.values()) * 1.001 else f"   MISSED, {label} is not the lowest"
    return f"  {what}: largest load {said}{mark}"


def save(found: Found, size: Size, seconds: float, folder: Path) -> Path:
    """Write the numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine_line(),
        "versions": versions(),
        "seed": SEED,
        "prices": Prices.load().plain(),
        "seconds": seconds,
        "size": asdict(size),
        "simulated": [asdict(s) for s in found.simulated],
        "loads": [asdict(run) for each in found.loads.values() for run in each.values()],
        "timed": [asdict(f) for each in found.timed.values() for f in each.values()],
        "plans": found.plans,
        "verdicts": [line.strip() for line in verdicts(found)],
    }
    path = folder / f"skew-{size.share:g}.json"
    path.write_text(json.dumps(content, indent=1))
    return path


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _answer(right: bool) -> str:
    return "right" if right else "WRONG"


if __name__ == "__main__":
    main()
