"""A join as data that every system can be given, and the lines by which a system reports what it did.

Standard library only: each system runs this in its own environment.  What must hold: the SQL rendered here and what a
system builds from the same fields are the same query.  All columns of a job have different names, times are
milliseconds in 64-bit integers, and files taken in the order of their names are in the order of time.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Compare:
    """`left op right + plus`, columns of two streams; without `right`, a column and a number."""

    left: str
    op: str
    right: str | None = None
    plus: int = 0

    @property
    def sql(self) -> str:
        other = " + ".join(filter(None, [self.right, str(self.plus) if self.plus or not self.right else ""]))
        return f"{self.left} {self.op} {other.replace('+ -', '- ')}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """A text column with one of these values."""

    column: str
    values: tuple[str, ...]

    @property
    def sql(self) -> str:
        return f"{self.column} IN ({', '.join(repr(value) for value in self.values)})"


@dataclass(frozen=True, slots=True)
class Step:
    """One more stream: equal columns (earlier, this one's), and comparisons with earlier streams."""

    stream: str
    on: tuple[tuple[str, str], ...] = ()
    where: tuple[Compare, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        return (*(f"{mine} = {theirs}" for theirs, mine in self.on), *(c.sql for c in self.where))


@dataclass(frozen=True, slots=True)
class Measure:
    """An aggregate of whole numbers: the sum of a term; without one, the count of rows.

    A term has columns, numbers, + - * and parentheses: it is read by SQL and by Python alike.
    """

    name: str
    term: str | None = None

    @property
    def sql(self) -> str:
        return f"{'COUNT(*)' if self.term is None else f'SUM({self.term})'} AS {self.name}"


@dataclass(frozen=True, slots=True)
class Join:
    """A join of streams: the first one, then step by step; with measures, an aggregate by the selected columns."""

    first: str
    steps: tuple[Step, ...]
    select: tuple[str, ...]
    keep: tuple[Compare | OneOf, ...] = ()
    """Conditions on single streams."""
    times: tuple[tuple[str, str], ...] = ()
    """(stream, its column of time): only where there is a window."""
    within: int | None = None
    """Milliseconds: the oldest and the newest row of a result lie less than this apart."""
    measures: tuple[Measure, ...] = ()

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns of a result."""
        return (*self.select, *(measure.name for measure in self.measures))

    @property
    def terms(self) -> tuple[str, ...]:
        """The columns that are added up."""
        found = re.findall(r"[a-z]\w*", " ".join(measure.term or "" for measure in self.measures))
        return tuple(dict.fromkeys(found))

    @property
    def rows(self) -> Join:
        """The join alone, with all columns that the aggregate over it needs."""
        return replace(self, select=tuple(dict.fromkeys((*self.select, *self.terms))), measures=())

    @property
    def streams(self) -> tuple[str, ...]:
        return (self.first, *(step.stream for step in self.steps))

    def apart(self, stream: str) -> tuple[tuple[str, str], ...]:
        """Pairs of time columns that this step must bound: of earlier streams, and of this one."""
        if self.within is None:
            return ()
        times, at = dict(self.times), self.streams.index(stream)
        return tuple((times[earlier], times[stream]) for earlier in self.streams[:at])

    def window(self, stream: str) -> tuple[Compare, ...]:
        """The window as comparisons, for systems that have no word for it."""
        found = []
        for earlier, mine in self.apart(stream):
            assert self.within is not None
            found += [Compare(mine, ">", earlier, -self.within), Compare(mine, "<", earlier, self.within)]
        return tuple(found)

    def sql(self, bounds: Callable[[str], tuple[str, ...]] | None = None, tail: str = "") -> str:
        """The query; `bounds` says how a step's window is written, `tail` what follows."""
        bounds = bounds or (lambda stream: tuple(c.sql for c in self.window(stream)))
        joins = [f"JOIN {s.stream} ON {' AND '.join((*s.conditions, *bounds(s.stream)))}" for s in self.steps]
        where = [f"WHERE {' AND '.join(c.sql for c in self.keep)}"] if self.keep else []
        groups = [f"GROUP BY {', '.join(self.select)}"] if self.measures else []
        outputs = ", ".join((*self.select, *(measure.sql for measure in self.measures)))
        return "\n".join([f"SELECT {outputs}", f"FROM {self.first}", *joins, *where, *groups, tail]).rstrip()


@dataclass(frozen=True, slots=True)
class Job:
    """One join through one system."""

    workload: str
    system: str
    join: Join
    schemas: Mapping[str, Mapping[str, str]]
    """Stream -> column -> int, bigint, double or string."""
    rows: int
    batches: int
    data: str
    """A folder with a sub-folder of Parquet files for each stream; `csv` and `bare` in it hold the same as CSV, and
    `whole` as one Parquet file for each stream."""
    out: str
    workers: int
    span: int = 0
    """Milliseconds by which rows of one stream are out of order if its files are read in any order."""

    def folder(self, stream: str, kind: str = "parquet") -> Path:
        return Path(self.data) / stream if kind == "parquet" else Path(self.data) / kind / stream

    @property
    def results(self) -> Path:
        return Path(self.out) / "rows"

    @property
    def state(self) -> Path:
        return Path(self.out) / "state"

    def kind(self, column: str) -> str:
        if column in (measure.name for measure in self.join.measures):
            return "bigint"
        return next(schema[column] for schema in self.schemas.values() if column in schema)

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))


def read(text: str) -> Job:
    """The job that `Job.text` wrote."""
    raw = json.loads(text)
    raw["join"] = _join(raw["join"])
    return Job(**raw)


def _join(raw: dict[str, Any]) -> Join:
    steps = tuple(
        Step(s["stream"], tuple(tuple(pair) for pair in s["on"]), tuple(Compare(**c) for c in s["where"]))
        for s in raw["steps"]
    )
    keep = tuple(OneOf(c["column"], tuple(c["values"])) if "values" in c else Compare(**c) for c in raw["keep"])
    times = tuple((stream, column) for stream, column in raw["times"])
    measures = tuple(Measure(**measure) for measure in raw["measures"])
    return Join(raw["first"], steps, tuple(raw["select"]), keep, times, raw["within"], measures)


def needed_columns(join: Join, schemas: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Stream -> the columns that anything in the join names."""
    compared = [*join.keep, *(c for step in join.steps for c in step.where)]
    named = {*join.select, *join.terms, *(column for _, column in join.times)}
    named |= {column for step in join.steps for pair in step.on for column in pair}
    for c in compared:
        named |= {c.column} if isinstance(c, OneOf) else {c.left, c.right or c.left}
    return {stream: tuple(c for c in schemas[stream] if c in named) for stream in join.streams}


def unescaped_uri(folder: Path) -> str:
    """A folder as Flink takes it: it would look for a folder that has %20 in its name."""
    return f"file://{folder.absolute()}"


# ------------------------------------------------------------------------------------------------ telling


def tell(**what: Any) -> None:
    """One line for the harness.

    `up` when the system itself has started, `began` when it has the query, `batch` for each batch, `done` at the end,
    `error` if it comes to nothing.
    """
    print(json.dumps(what), flush=True)


def main(run: Callable[[Job], None]) -> None:
    """Run one system on the job in the file that is named on the command line."""
    job = read(Path(sys.argv[1]).read_text())
    try:
        run(job)
    except Exception as error:  # noqa: BLE001 - a peer may raise anything; its message is the finding
        tell(error=f"{type(error).__name__}: {message(error)}")
        sys.exit(1)


def message(error: BaseException) -> str:
    """The line of an error that says most: what ended a stream, of a Java stack the innermost cause."""
    said = str(error).rpartition("terminated with exception:")[2]
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    said = causes[-1].removeprefix("Caused by:").strip() if causes else lines[0] if lines else ""
    return said[:300]
