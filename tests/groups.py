"""Random aggregate queries over random streams, compared with the oracle after every batch.

    python -m tests.groups --n 1000 --seed 0     many cases in this process
    python -m tests.groups --seed 4711 --n 1 -v  one case again, printed in full

Streams, rows, joins and plans are those of `tests.fuzz`; the SELECT list, GROUP BY and HAVING are drawn here.  After
every batch the view must be what the oracle says over the batches so far; what is said to have changed must have
changed, final rows must be those of windows that have closed, and the state must hold what is shown.

Floats are compared with a tolerance, since a sum of them depends on the order; no condition compares a sum of floats
with a number it may be near to.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import weft
from tests.fuzz import (
    FOREVER,
    Case,
    Limits,
    Planned,
    QueryMaker,
    Tables,
    cut,
    feed_through_a_crash,
    make_case,
    plain_functions,
    shuffled,
    small_limits,
    some_plans,
)
from tests.seeds import run_seeds
from weft.host.batch import Watermarks
from weft.host.groups import folding, known
from weft.host.groups.view import read_view
from weft.host.results.changes import Shape
from weft.query.grouping import OP, TimeWindow
from weft.testing import Trial, assert_same_rows, expected_after_each_batch
from weft.testing.compare import rows_of
from weft.topology.node import Emit, Groups

TOLERANCE = 1e-9
LENGTHS = ["'5 seconds'", "'20 seconds'", "'1500 milliseconds'", "'1 day'", "INTERVAL '7' SECOND"]
SLIDING = [("'10 seconds'", "'5 seconds'"), ("'7 seconds'", "'3 seconds'"), ("INTERVAL '3' DAY", "'1 day'")]


class GroupedMaker(QueryMaker):
    """Random SQL with groups."""

    functions = True
    """Whether Python functions may be called."""
    windows = True
    """Whether there may be windows of event time."""
    _after = ""

    def query(self, count: int) -> str:
        """A query over at most `count` aliases, often over one."""
        return super().query(1 if self.rng.random() < 0.25 else count) + self._after

    def _outputs(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        if rng.random() < 0.12:
            self._after = ""
            items = [f"{self._key(aliases)} AS g{i}" for i in range(rng.randint(1, 3))]
            return f"DISTINCT {', '.join(items)}"
        keys = [self._key(aliases) for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        values = [self._value(aliases) for _ in range(rng.choice([0, 1, 1, 2, 3, 4] if keys else [1, 1, 2, 4]))]
        window = self._event_window(aliases) if rng.random() < 0.3 else ""
        shown = [(key, f"g{i}") for i, key in enumerate(keys) if rng.random() < 0.8]
        shown += [(value, f"a{i}") for i, value in enumerate(values)]
        if window:
            shown += rng.sample([("window.start", "ws"), ("window.end", "we")], rng.randint(0, 2))
        rng.shuffle(shown)
        self._after = self._clauses(aliases, keys, values, window, shown)
        return ", ".join(f"{text} AS {name}" for text, name in shown) or "1 AS one"

    def _clauses(
        self, aliases: Sequence[str], keys: list[str], values: list[str], window: str, shown: list[tuple[str, str]]
    ) -> str:
        """GROUP BY, where a key may be written as it is, by its name or by its place, and HAVING."""
        rng = self.rng
        by = [self._written(key, shown) for key in keys] + ([window] if window else [])
        rng.shuffle(by)
        having = self._having(aliases, keys, values, shown) if rng.random() < 0.35 else ""
        return (f"\nGROUP BY {', '.join(by)}" if by else "") + (f"\nHAVING {having}" if having else "")

    def _written(self, key: str, shown: list[tuple[str, str]]) -> str:
        places = [at for at, (text, name) in enumerate(shown) if text == key and name.startswith("g")]
        if not places:
            return key
        at = self.rng.choice(places)
        return self.rng.choice([key, key, shown[at][1], str(at + 1)])

    def _key(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        a, b = rng.choice(aliases), rng.choice(aliases)
        return rng.choice([
            *(f"{a}.{column}" for column in ("k", "k", "j", "s", "b", "d", "day", "u", "f", "g", "ts")),
            f"{a}.j % 2", f"{a}.j + {b}.j", f"{a}.s || {b}.s", f"lower({a}.s)", f"({a}.k IS NULL)", f"{a}.j / 2",
            f"CASE WHEN {a}.b THEN {a}.j ELSE {b}.j END", f"{a}.day + 1", "'c'", f"coalesce({a}.s, 'none')",
            f"tagged({a}.s)" if self.functions else f"upper({a}.s)", f"({a}.j > {b}.j)", f"length({a}.s)",
        ])  # fmt: skip

    def _value(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        call = self._aggregate(aliases)
        if rng.random() < 0.75:
            return call
        a, other = rng.choice(aliases), self._aggregate(aliases)
        return rng.choice([
            f"count(*) * 2 + count({a}.s)", f"max({a}.j) - min({a}.j)", f"coalesce(sum({a}.j), 0) + count(*)",
            f"CASE WHEN count(*) > 2 THEN max({a}.s) ELSE min({a}.s) END", f"{call} IS NULL", f"sum({a}.d) / count(*)",
            f"CASE WHEN bool_or({a}.b) THEN 'yes' ELSE 'no' END", f"avg({a}.j) + avg({a}.d)", f"{other} IS NOT NULL",
            f"CAST(sum({a}.j) AS VARCHAR) || '!'", f"max({a}.u) - min({a}.u)", f"count(DISTINCT {a}.k) = count({a}.k)",
        ])  # fmt: skip

    def _aggregate(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        a, b = rng.choice(aliases), rng.choice(aliases)
        k = "j" if self.extremes else "k"
        call = rng.choice([
            "count(*)", "count(*)", f"count({a}.s)", f"count({a}.k)", f"count(DISTINCT {a}.{rng.choice('ksfbdgju')})",
            f"count(DISTINCT {a}.j + {b}.j)", f"approx_count_distinct({a}.day)",
            f"sum({a}.{k})", f"sum({a}.j)", f"sum({a}.j * {b}.j)", f"sum({a}.d)", f"sum({a}.f)", f"sum({a}.g)",
            f"sum({a}.b)", "sum(1)", f"sum({a}.j + 0.5)",
            f"avg({a}.k)", f"avg({a}.d)", f"avg({a}.f)", f"mean({a}.j)",
            *(f"min({a}.{column})" for column in ("k", "s", "f", "d", "b", "day", "u", "ts")),
            *(f"max({a}.{column})" for column in ("k", "s", "f", "d", "b", "day", "u", "ts")),
            f"max({a}.s || {b}.s)", f"min(lower({a}.s))", f"max({a}.g)",
            f"bool_and({a}.b)", f"bool_or({a}.b)", f"bool_and({a}.j > {b}.j)",
        ])  # fmt: skip
        return f"{call} FILTER (WHERE {self._selection(a)})" if rng.random() < 0.2 else call

    def _having(self, aliases: Sequence[str], keys: list[str], values: list[str], shown: list[tuple[str, str]]) -> str:
        rng = self.rng
        a = rng.choice(aliases)
        some = [
            f"count(*) > {rng.choice([0, 1, 2, 5])}", f"count(*) % 2 = {rng.choice([0, 1])}",
            f"count(DISTINCT {a}.s) > 1 OR count(*) < 4", f"bool_or({a}.b)", f"sum({a}.d) > 1",
            f"max({a}.j) >= min({a}.k)", f"sum({a}.f) IS NOT NULL", f"NOT (sum({a}.j) < 2)", f"avg({a}.j) > 0.777",
            *(f"{key} IS NOT NULL" for key in keys), *(f"{value} IS NOT NULL" for value in values),
            *(f"{name} IS NOT NULL" for _, name in shown if name[0] in "ag"),
        ]  # fmt: skip
        return " AND ".join(rng.sample(some, rng.choice([1, 1, 2])))

    def _event_window(self, aliases: Sequence[str]) -> str:
        rng = self.rng
        timed = [a for a in aliases if self.of[a].event_time]
        if not timed or not self.windows:
            return ""
        if rng.random() < 0.5:
            return f"window({rng.choice(timed)}.ts, {rng.choice(LENGTHS)})"
        length, slide = rng.choice(SLIDING)
        return f"window({rng.choice(timed)}.ts, {length}, {slide})"


class MixedMaker(QueryMaker):
    """Random SQL, with groups or without."""

    share = 0.8
    """How many queries have groups."""

    def query(self, count: int) -> str:
        """A query over at most `count` aliases."""
        maker = GroupedMaker if self.rng.random() < self.share else QueryMaker
        return maker(self.rng, self.streams, self.extremes).query(count)


@dataclass
class Tally:
    """What was compared."""

    views: int = 0
    """Views after a batch."""
    rows: int = 0
    final: int = 0
    """Final rows of windows."""
    late: int = 0
    """Rows that came too late for their window."""
    gone: int = 0
    """Rows that left a view."""
    deaths: int = 0
    taken_up: int = 0
    """Runs that another process took up."""
    mixed: int = 0
    """Sessions with views and with queries whose results are rows."""

    def __iadd__(self, other: Tally) -> Tally:
        for name, count in vars(other).items():
            setattr(self, name, getattr(self, name) + count)
        return self

    def __str__(self) -> str:
        return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in vars(self).items())


def make_grouped_case(seed: int) -> Case:
    """The case of a seed: one query with groups, or several, some of them without."""
    many = random.Random(seed).random() < 0.3
    return make_case(seed, queries=3, maker=MixedMaker) if many else make_case(seed, maker=GroupedMaker)


def check_groups(case: Case) -> Tally:
    """Run the case and compare after every batch; often again in another order, where nothing is late."""
    rng = random.Random(case.seed + 1)
    tally = check(rng, case, case.batches, None, case.workers)
    if rng.random() < 0.4:
        batches = rng.choice([cut, shuffled])(rng, case)
        tally += check(rng, case, batches, FOREVER, rng.randint(1, 5), most=1)
    return tally


def check(
    rng: random.Random, case: Case, batches: list[Tables], lateness: str | None, workers: int, most: int | None = None
) -> Tally:
    """The plans of all queries run in one session, which shares what it can, or each in a session of its own."""
    tally, functions = Tally(), plain_functions()
    queries = {name: handle.query for name, handle in case.session(lateness=lateness).queries.items()}
    wanted = {
        name: list(expected_after_each_batch(query, batches, functions, case.policy)) for name, query in queries.items()
    }
    plans = [
        Planned(f"{name}_{at}", name, wishes)
        for name, query in queries.items()
        for at, wishes in enumerate(some_plans(rng, query, workers)[:most])
    ]
    for some in [plans] if rng.random() < 0.6 else [[planned] for planned in plans]:
        session = case.session(lateness=lateness, workers=workers, plans=some)
        with small_limits(rng, GROUP_LIMITS):
            tally += GroupedRun(rng, session, batches, some, wanted).go()
    return tally


GROUP_LIMITS: Limits = (
    (folding, "MANY", (2, 10, 262_144)),
    (folding, "ESTIMATED", (2, 32_768)),
    (known, "CHUNK", (3, 20, 1 << 20)),
)
"""Tuples and parts of groups that wait for others, and rows that are looked at together."""


class GroupedRun:
    """Some plans in one session, from the first batch to the last."""

    def __init__(
        self,
        rng: random.Random,
        session: weft.Session,
        batches: list[Tables],
        plans: Sequence[Planned],
        wanted: Mapping[str, Sequence[pa.Table]],
    ) -> None:
        self.rng, self.session, self.batches, self.plans, self.wanted = rng, session, batches, plans, wanted
        self.folder = Path(tempfile.mkdtemp(prefix="weft-groups-")) if rng.random() < 0.15 else None
        self.trial = Trial(self.session, state=self.folder)
        self.seen: dict[str, int] = defaultdict(int)
        """Query -> how many changes there were before the batch."""
        self.marks: Watermarks = {}
        """The watermarks at the start of the batch."""
        self.tally = Tally(mixed=len({query.is_view for query in self.trial.queries.values()}) - 1)

    def go(self) -> Tally:
        """Feed all batches; sometimes one dies and comes again, sometimes a new process goes on from the files."""
        rng, count = self.rng, len(self.batches)
        fatal = rng.randrange(count) if rng.random() < 0.4 else None
        for number, batch in enumerate(self.batches):
            if self.folder is not None and rng.random() < 0.5:
                self._take_up(self.folder)
            self.marks = self.trial.manifest.watermarks(self.trial.topology)
            if number == fatal:
                feed_through_a_crash(rng, self.session, self.trial, batch)
                self.tally.deaths += 1
            else:
                self.trial.feed(batch)
            for planned in self.plans:
                self._compare(planned, number)
        self.tally.late += sum(self.trial.late.values())
        if self.folder is not None:
            shutil.rmtree(self.folder)
        return self.tally

    def _take_up(self, folder: Path) -> None:
        """Another process goes on; what was given out until now stays where it is."""
        before, self.trial = self.trial, Trial(self.session, state=folder)
        self.trial.running.results = before.running.results
        self.tally.taken_up += 1

    def _compare(self, planned: Planned, number: int) -> None:
        what = f"{planned.name} {planned.wishes}, batch {number}: "
        wanted, found = self.wanted[planned.query][number], self.trial.table(planned.name)
        assert_same_rows(found, wanted, what, tolerance=TOLERANCE)
        self.tally.views += 1
        self.tally.rows += found.num_rows
        emit = self.trial.topology.emit_of[planned.name]
        if emit.groups is not None and not emit.groups.grouping.is_distinct:
            self._compare_changes(emit, emit.groups, what)

    def _compare_changes(self, emit: Emit, groups: Groups, what: str) -> None:
        """What is said to have happened must have happened, and the state must hold what is shown."""
        shape = Shape.of_grouping(groups.grouping, emit.schema)
        changes = pa.Table.from_batches(self.trial.running.results[emit.query], schema=emit.schema)
        old, new = changes.slice(0, self.seen[emit.query]), changes.slice(self.seen[emit.query])
        self.seen[emit.query] = changes.num_rows
        before, now = (keys_of(shape.latest(table), shape) for table in (old, changes))
        told = {op: keys_of(with_op(new, op), shape) for op in ("insert", "update", "delete")}
        assert told["insert"] == now - before, f"{what}inserted"
        assert told["delete"] == before - now, f"{what}deleted"
        assert told["update"] <= before & now, f"{what}updated"
        self.tally.gone += told["delete"].total()
        latest, mark = shape.latest(changes), self.marks.get(groups.clock)
        is_closed = closed(groups.grouping.window, latest, mark)
        self._same(with_op(changes, "final"), latest.filter(is_closed), shape, f"{what}final rows: ")
        self.tally.final += pc.sum(is_closed).as_py() or 0
        running = self.trial.running
        kept = read_view(emit, running.topology, running.functions, running.manifest.segments, running.state)
        is_open = pc.invert(closed(groups.grouping.window, kept, mark))
        self._same(kept.filter(is_open), latest.filter(pc.invert(is_closed)), shape, f"{what}state: ")

    def _same(self, one: pa.Table, other: pa.Table, shape: Shape, what: str) -> None:
        names = [*shape.keys, *shape.outputs]
        assert_same_rows(one.select(names), other.select(names), what, tolerance=TOLERANCE)


def with_op(changes: pa.Table, op: str) -> pa.Table:
    """The changes of a kind."""
    return changes.filter(pc.equal(changes.column(OP), op))


def keys_of(rows: pa.Table, shape: Shape) -> Counter[Any]:
    """The groups of some rows; of a multiset, the rows themselves."""
    return Counter(rows_of(rows.select(list(shape.outputs if shape.multiset else shape.keys))))


def closed(window: TimeWindow | None, rows: pa.Table, mark: int | None) -> pa.Array:
    """Which rows belong to windows that have ended by the watermark."""
    if window is None or mark is None:
        return pa.repeat(False, rows.num_rows)
    ends = pc.add(rows.column(window.key).cast(pa.int64()), window.length)
    return pc.less_equal(ends.combine_chunks() if rows.num_rows else pa.array([], pa.int64()), mark)


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.groups", "random aggregates against the oracle",
        lambda seed, _spark: make_grouped_case(seed), lambda case, _spark: check_groups(case), Tally(), on_spark=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
