"""Random aggregate queries over random streams, compared with the oracle after every batch.

    python -m tests.groups --n 1000 --seed 0     many cases in this process
    python -m tests.groups --seed 4711 --n 1 -v  one case again, printed in full

Streams, rows, joins and plans are those of `tests.fuzz`; the SELECT list, GROUP BY and HAVING are drawn here.  After
every batch the view must be what the oracle says over the batches so far.  A case is run a second time with its rows in
another order, in other batches and on other workers, where nothing is late.  Either run may crash in the middle of a
batch and be started again, or continue from files in a new process.  Floats are compared with a tolerance, since
a sum of them depends on the order; no condition compares a sum of floats with a number it may be near to.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

import weft
from tests.fuzz import (
    FOREVER,
    Case,
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
from weft.testing import Trial, assert_same_rows, expected_after_each_batch

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


def make_grouped_case(seed: int) -> Case:
    """The case of a seed."""
    return make_case(seed, maker=GroupedMaker)


def check_groups(case: Case) -> int:
    """Run the case as it is, and again in another order where nothing is late; the number of views compared."""
    rng = random.Random(case.seed + 1)
    compared = _check(rng, case, case.batches, None, case.workers)
    return compared + _check(rng, case, rng.choice([cut, shuffled])(rng, case), FOREVER, rng.randint(1, 5))


def _check(rng: random.Random, case: Case, batches: list[Tables], lateness: str | None, workers: int) -> int:
    compared = 0
    for name, handle in case.session(lateness=lateness).queries.items():
        wanted = list(expected_after_each_batch(handle.query, batches, plain_functions(), case.policy))
        for wishes in some_plans(rng, handle.query, workers)[: None if lateness is None else 1]:
            session = case.session(lateness=lateness, workers=workers, plans=[Planned("q", name, wishes)])
            what = f"{name} {wishes}, {workers} workers, lateness {lateness}"
            with small_limits(rng):
                compared += _compare(rng, session, batches, wanted, what)
    return compared


def _compare(
    rng: random.Random, session: weft.Session, batches: list[Tables], wanted: list[pa.Table], what: str
) -> int:
    """Compare after every batch; sometimes one dies and comes again, sometimes a new process goes on from the files."""
    folder = Path(tempfile.mkdtemp(prefix="weft-groups-")) if rng.random() < 0.1 else None
    trial = Trial(session, state=folder)
    fatal = rng.randrange(len(batches)) if rng.random() < 0.3 else None
    moves = rng.randrange(len(batches)) if folder else None
    for number, (batch, view) in enumerate(zip(batches, wanted, strict=True)):
        if number == moves:
            trial, before = Trial(session, state=folder), trial
            trial.running.results = before.running.results
        if number == fatal:
            feed_through_a_crash(rng, session, trial, batch)
        else:
            trial.feed(batch)
        assert_same_rows(trial.table("q"), view, f"{what}, batch {number}: ", tolerance=TOLERANCE)
    if folder:
        shutil.rmtree(folder)
    return len(batches)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.groups", description="random aggregates against the oracle")
    parser.add_argument("--n", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case")
    args = parser.parse_args()
    began, compared, failed = time.perf_counter(), 0, 0
    for done, seed in enumerate(range(args.seed, args.seed + args.n), start=1):
        case = make_grouped_case(seed)
        if args.verbose:
            print(case.describe())
        try:
            compared += check_groups(case)
        except Exception:  # noqa: BLE001 - whatever goes wrong is reported with its case
            failed += 1
            print(f"\nFAILED seed {seed}\n{case.describe() if not args.verbose else ''}")
            print(traceback.format_exc(limit=-6))
            print(f"repeat: python -m tests.groups --seed {seed} --n 1 -v", flush=True)
            if not args.keep_going:
                return 1
        if done % 100 == 0 or done == args.n:
            print(f"{done} cases, {compared} views, {failed} failed, {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
