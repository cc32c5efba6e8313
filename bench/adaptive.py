"""Plans that follow the data beside those that do not: the same streams, three ways, in one run on Spark.

    python -m bench.adaptive [--scenarios orders tiny hot sizes mix stable] [--batches 60] [--rows 100000] [--epoch 1]

    static      the plan of the first seconds, for ever
    adaptive    `s.options(adapt=True)`
    hindsight   at every change the plan that is chosen by a sample of what is to come; the time to move is not counted

A way that takes longer than `--limit` seconds is stopped, and is compared as far as it came.
The time that a change of plan takes between two batches is added to the batch that waits for it.
Processor time stands beside the seconds: it tells more where other programs run.

Batches of the same plan differ by chance, short ones by more than a quarter.  So a way counts as back after a change
with the first batch that is fast enough, if the median of it and its next neighbours is, and that of all later ones.
How many later batches are slow all the same is printed, beside how many of hindsight's own are.

Every answer is compared with DuckDB's.  What statistics cost is printed first (`bench.watching`).  Writes the numbers
as JSON, and a picture over time of each scenario, to bench/results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from bench import watching
from bench.drift import SCENARIOS, Batch, Scenario
from bench.machine import machine_line, processor_seconds, versions
from bench.picture import ceiling, frame, head, key, text
from bench.saying import block, say
from weft.errors import WeftError
from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.optimizer.written.plan import write

RESULTS = Path(__file__).parent / "results"
WAYS = ("static", "adaptive", "hindsight")
COLOURS = {"static": "#ee6677", "adaptive": "#228833", "hindsight": "#4477aa"}
GOALS = {"orders": 3.0, "tiny": 3.0, "stable": 0.95, "hot": 0.95, "sizes": 0.95, "mix": 0.95}
"""How many times as fast as static adaptive should be over the whole run."""
NEAR = 1.25
"""After a change a batch should take no more than this many times hindsight's."""
NEIGHBOURS = 5
"""Batches whose median says whether a plan is fast, and not a batch by chance."""
WARM_UP = 12
"""Batches before anything is measured."""
BOX = (70, 50, 800, 280)


@dataclass
class Way:
    """One run of a scenario."""

    seconds: list[float] = field(default_factory=list)
    """Of each batch, with the change of plan before it."""
    processor: list[float] = field(default_factory=list)
    """Processor seconds from the end of a batch to that of the next one, of everything that works meanwhile."""
    switches: list[int] = field(default_factory=list)
    """Batches with which another plan began."""
    right: bool = False
    failed: str = ""
    epochs: list[str] = field(default_factory=list)

    @property
    def total(self) -> float:
        """Seconds of all batches."""
        return self.until(len(self.seconds))

    def until(self, batches: int) -> float:
        """Seconds of the first batches."""
        return sum(self.seconds[:batches])


@dataclass(frozen=True)
class Size:
    """How much is run."""

    batches: int = 60
    rows: int = 100_000
    """Of a usual stream in a batch, which is a second: the rate of the paper."""
    epoch: int = 1
    """Batches of an epoch: a second, as in the paper."""
    every: float = 0.5
    limit: float = 60.0
    """Seconds after which a way is stopped."""
    workers: int = 2


# ------------------------------------------------------------------------------------------------- runs


class Meter:
    """Reads the processor time at the end of every batch of a run."""

    def __init__(self, made: Way) -> None:
        self._made, self._before = made, processor_seconds()

    def show(self, _progress: Progress) -> None:
        """A batch is done."""
        now = processor_seconds()
        self._made.processor.append(now - self._before)
        self._before = now

    def tell(self, notice: Notice) -> None:
        """Notices take no time."""

    def close(self) -> None:
        """The run is over."""


def open_session(
    root: Path,
    scenario: Scenario,
    batches: Sequence[Batch],
    size: Size,
    plans: Mapping[str, Any],
    meter: Meter | None = None,
) -> Any:
    """The session of a scenario; queries without a plan are planned by what their streams show first."""
    s = weft.Session(root / "checkpoint", workers=size.workers, progress=meter or False)
    for name in batches[0]:
        s.stream(name, weft.read.batches([batch[name] for batch in batches]), event_time="ts")
    for name, sql in scenario.queries.items():
        windowed = f"{sql} WITHIN INTERVAL '{scenario.window}' SECOND"
        s.query(name, windowed, strategy=plans.get(name)).to_parquet(root / "out" / name)
    return s


def going_on(known: weft.Statistics) -> weft.Statistics:
    """Statistics of streams that go on: rates are known, and no number of rows at which they end."""
    parts = json.loads(known.to_json())
    return weft.Statistics.from_json(json.dumps({name: part for name, part in parts.items() if name != "rows"}))


def plan_by(scenario: Scenario, batches: Sequence[Batch], size: Size) -> dict[str, Any]:
    """The plans that fit some batches."""
    with tempfile.TemporaryDirectory() as folder:
        s = open_session(Path(folder), scenario, batches, size, {})
        s.analyze(20_000)
        return {choice.name: write(choice.query, choice.chosen.layout) for choice in s.choices}


def run(root: Path, scenario: Scenario, batches: Sequence[Batch], size: Size, way: str) -> Way:
    """One way to run a scenario."""
    made = Way()
    try:
        if way == "hindsight":
            _run_with_hindsight(root, scenario, batches, size, made)
        else:
            _run_through(root, scenario, batches, size, made, adapt=way == "adaptive")
    except WeftError as error:
        made.failed = error.message
    made.right = not made.failed and is_right(root, scenario, batches[: len(made.seconds)])
    return made


def _run_through(
    root: Path, scenario: Scenario, batches: Sequence[Batch], size: Size, made: Way, *, adapt: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = going_on(open_session(Path(folder), scenario, batches[:2], size, {}).analyze(20_000))
    with open_session(root, scenario, batches, size, {}, Meter(made)) as s:
        s._roster.statistics = first  # measured, not given by hand: so later measurements win
        s.options(adapt=adapt, epoch=f"{size.epoch} batches")
        report, changes = _paced(s, len(batches), size)
        made.seconds += [batch.seconds for batch in report.batches]
        for turn in changes:
            made.switches.append(turn.batch + 1)
            if turn.batch + 1 < len(made.seconds):
                made.seconds[turn.batch + 1] += turn.seconds
        made.epochs += [epoch.line() for epoch in report.epochs]


def _run_with_hindsight(root: Path, scenario: Scenario, batches: Sequence[Batch], size: Size, made: Way) -> None:
    phases = [scenario.phase(at, len(batches)) for at in range(len(batches))]
    for phase in sorted({*phases}):
        begin, end = phases.index(phase), len(phases) - phases[::-1].index(phase)
        plans = plan_by(scenario, batches[begin:end], size)
        with open_session(root, scenario, batches[:end], size, plans, Meter(made)) as s:
            s.options(adapt=False)
            report, _ = _paced(s, end - begin, size)
            made.seconds += [batch.seconds for batch in report.batches]
            made.switches += [begin] if begin else []


def _paced(s: Any, count: int, size: Size) -> tuple[Any, Sequence[Any]]:
    """Run so many batches as they come, and no longer than the limit; the report, and the changes of plan."""
    handle, end = s.start(every=size.every), time.monotonic() + size.limit
    while handle.active and handle.report().count < count and time.monotonic() < end:
        handle.wait(0.1)
    return handle.stop(), handle.changes()


def is_right(root: Path, scenario: Scenario, batches: Sequence[Batch]) -> bool:
    """Whether all results are DuckDB's."""
    tables = {name: pa.concat_tables([batch[name] for batch in batches]) for name in batches[0]}
    with tempfile.TemporaryDirectory() as folder, duckdb.connect() as duck:
        s = open_session(Path(folder), scenario, batches[:1], Size(), {})
        duck.sql("SET disabled_optimizers = 'join_order'")  # in some scenarios only the written order is quick
        for name, rows in tables.items():
            duck.register(name, rows)
        for name in scenario.queries:
            found = pq.read_table(root / "out" / name)
            duck.register("found", found)
            duck.sql(f"CREATE OR REPLACE TABLE wanted AS {windowed_sql(scenario, name, s.queries[name].query)}")
            different = "(FROM found EXCEPT ALL FROM wanted) UNION ALL (FROM wanted EXCEPT ALL FROM found)"
            if duck.sql(f"SELECT count(*) FROM ({different})").fetchall() != [(0,)]:
                return False
    return True


def windowed_sql(scenario: Scenario, name: str, query: Any) -> str:
    """The query as DuckDB knows it: every row is younger than the window when the newest one comes."""
    times = [f"{alias}.ts" for alias in query.aliases]
    sql = scenario.queries[name]
    joined = " AND ".join(f"abs({a} - {b}) < {scenario.window}" for a, b in itertools.combinations(times, 2))
    return f"{sql} {'AND' if 'WHERE' in sql else 'WHERE'} {joined}"


# ----------------------------------------------------------------------------------------------- verdicts


def recovered(adaptive: Sequence[float], fast: float) -> int | None:
    """After how many batches, of those since a change, they are as fast as they should be, and stay so.

    None if they are not in the end.
    """
    for at, seconds in enumerate(adaptive):
        later = adaptive[at:]
        if max(seconds, statistics.median(later[:NEIGHBOURS]), statistics.median(later)) <= fast:
            return at
    return None


def judge_change(ways: Mapping[str, Way], change: int, end: int) -> Iterator[str]:
    """How long adaptive took after a change, which lasts until another batch."""
    for clock in ("seconds", "processor"):
        adaptive, hindsight = (getattr(ways[name], clock)[change:end] for name in ("adaptive", "hindsight"))
        if not adaptive or not hindsight:
            yield f"    by {clock}: not reached"
            continue
        usual = statistics.median(hindsight)
        took = recovered(adaptive, NEAR * usual)
        later = [way[took or 0 :] for way in (adaptive, hindsight)]
        slow = [sum(seconds > NEAR * usual for seconds in way) for way in later]
        yield (
            f"    by {clock}: {'not back' if took is None else f'back after {took}'}; {slow[0]} of {len(later[0])} "
            f"batches from then on are slower than that, of hindsight's own {slow[1]} of {len(later[1])}"
        )


def judge(scenario: Scenario, ways: Mapping[str, Way], size: Size) -> Iterator[str]:
    """What came of a scenario, for people."""
    static, adaptive = ways["static"], ways["adaptive"]
    for name, way in ways.items():
        state = way.failed or ("right" if way.right else "WRONG")
        yield (
            f"  {name:<10} {way.total:8.2f} s, {sum(way.processor):8.2f} s of processor time, in {len(way.seconds)} "
            f"batches, plans changed at {way.switches}, {state}"
        )
    both, goal = min(len(static.seconds), len(adaptive.seconds)), GOALS.get(scenario.name)
    over = f" over {both} batches; then the limit of {size.limit:g} s was over" if both < size.batches else ""
    if both:
        times = static.until(both) / adaptive.until(both)
        worked = sum(static.processor[:both]) / sum(adaptive.processor[:both])
        said = f"  adaptive is {times:.2f} times as fast as static" + (f" (goal {goal:g})" if goal else "")
        yield f"{said}, {worked:.2f} times by processor time{over}"
    starts = [next(at for at in range(size.batches) if at >= begin * size.batches) for begin in scenario.phases]
    allowed = 2 * size.epoch + scenario.window
    for change, end in itertools.pairwise([*starts[1:], *([size.batches] if starts[1:] else [])]):
        yield f"  change at batch {change}: back within {NEAR} of hindsight's median (goal: after {allowed} batches)"
        yield from judge_change(ways, change, end)


def draw(scenario: Scenario, ways: Mapping[str, Way], size: Size) -> str:
    """Seconds of batches over time."""
    x, y, width, height = BOX
    most = ceiling(max(second for way in ways.values() for second in way.seconds))
    parts = [head(900, 390), text(450, 22, f"{scenario.name}: seconds of a batch", "middle", 14)]
    parts += frame(BOX, [(i / 4, f"{most * i / 4:g}") for i in range(5)])
    step = width / max(1, size.batches - 1)
    for begin in scenario.phases[1:]:
        at = x + begin * size.batches * step
        parts.append(f'<path d="M{at:.1f} {y}v{height}" stroke="#888888" stroke-dasharray="4"/>')
        parts.append(text(at + 4, y + 12, "change", "start", 11))
    for place, (name, way) in enumerate(ways.items()):
        points = " ".join(
            f"{x + at * step:.1f},{y + height * (1 - second / most):.1f}" for at, second in enumerate(way.seconds)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[name]}" stroke-width="1.5"/>')
        parts += [
            f'<circle cx="{x + at * step:.1f}" cy="{y + height}" r="4" fill="{COLOURS[name]}"/>' for at in way.switches
        ]
        parts.append(key(x + 150 * place, y + height + 36, COLOURS[name], name))
    parts.append(text(x + 470, y + height + 36, "dot: another plan begins", "start", 11))
    return "\n".join([*parts, "</svg>"])


def _warm_up(size: Size) -> None:
    """A few batches that do not count: the first run would pay for a JVM that has compiled nothing yet."""
    scenario = SCENARIOS["stable"]
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), scenario, scenario.batches(WARM_UP, size.rows), size, "static")


def measure(names: Sequence[str], size: Size, into: Path) -> dict[str, Any]:
    """Run scenarios; write numbers and pictures."""
    into.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    _warm_up(size)
    for name in names:
        scenario = SCENARIOS[name]
        batches = scenario.batches(size.batches, size.rows)
        ways = {}
        for way in WAYS:
            say(f"{name}, {way}")
            with tempfile.TemporaryDirectory() as folder:
                ways[way] = run(Path(folder), scenario, batches, size, way)
        block(name, judge(scenario, ways, size))
        (into / f"adaptive-{name}.svg").write_text(draw(scenario, ways, size))
        found[name] = {way: asdict(made) for way, made in ways.items()}
        said = {"machine": machine_line(), "versions": versions(), "size": asdict(size), "scenarios": found}
        (into / "adaptive.json").write_text(json.dumps(said, indent=1))
    return found


def main() -> None:
    """Measure what is asked for."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--scenarios", nargs="+", default=[*SCENARIOS], choices=[*SCENARIOS])
    asked.add_argument("--batches", type=int, default=Size.batches)
    asked.add_argument("--rows", type=int, default=Size.rows)
    asked.add_argument("--epoch", type=int, default=Size.epoch)
    asked.add_argument("--every", type=float, default=0.5)
    asked.add_argument("--limit", type=float, default=Size.limit)
    given = asked.parse_args()
    print(machine_line())
    print(watching.measure(SCENARIOS["stable"], given.rows, given.epoch).line())
    size = Size(given.batches, given.rows, given.epoch, given.every, given.limit)
    measure(given.scenarios, size, RESULTS)


if __name__ == "__main__":
    main()
