"""Random queries over streams that change, compared with the oracle after every batch.

    python -m tests.changing --n 1000 --seed 0     many cases in this process
    python -m tests.changing --seed 4711 --n 1 -v  one case again, printed in full

Streams, rows, queries and plans are those of `tests.fuzz` and `tests.groups`; some streams change here.  A batch brings
new rows, takes back some of what is there, replaces rows, brings back what was gone, and has rows more than once, all
in any order.  After every batch the view must be what DuckDB says of the rows that are left; what a batch is said to
have changed must be the difference to the batch before, and nothing more; the state must hold what is shown.
"""

from __future__ import annotations

import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

import weft
from tests.fuzz import FOREVER, Case, Planned, QueryMaker, StreamCase, make_case, plain_functions, some_plans
from tests.groups import TOLERANCE, GroupedMaker, Tally, check
from tests.seeds import run_seeds
from weft.testing import Trial, assert_same_rows, expected_after_each_batch
from weft.testing.oracle import expires

OP = "op"
WORDS: dict[str, dict[int, list[object]]] = {
    "words": {1: ["insert", "INSERT", "update_after"], -1: ["delete", "Delete", "update_before"]},
    "signs": {1: ["+I", "+U"], -1: ["-D", "-U"]},
    "numbers": {1: [1], -1: [-1]},
}


class ChangingMaker(QueryMaker):
    """Random SQL, with groups or without; windows of event time do not close here."""

    def query(self, count: int) -> str:
        """A query over at most `count` aliases."""
        if self.rng.random() < 0.45:
            return QueryMaker(self.rng, self.streams, self.extremes).query(count)
        maker = GroupedMaker(self.rng, self.streams, self.extremes)
        maker.windows = False
        return maker.query(count)


def make_changing_case(seed: int) -> Case:
    """The case of a seed."""
    case = make_case(seed, queries=2 if seed % 3 == 0 else 1, maker=ChangingMaker)
    rng = random.Random(seed + 2)
    names = [name for name in case.streams if rng.random() < 0.75] or [next(iter(case.streams))]
    for name in names:
        stream = case.streams[name]
        (_let_replace if stream.event_time is None and rng.random() < 0.6 else _let_change)(rng, case, stream)
    return case


def _let_change(rng: random.Random, case: Case, stream: StreamCase) -> None:
    """Make the rows of a stream changes: what it has, and now and then something else."""
    words = WORDS[rng.choice(list(WORDS))]
    schema = stream.schema.append(pa.field(OP, pa.int64() if words[1] == [1] else pa.string()))
    here: list[dict[str, Any]] = []
    gone: list[dict[str, Any]] = []
    for batch in case.batches:
        changes = _changes(rng, _tame(batch.pop(stream.name, stream.schema.empty_table())), here, gone)
        rows = [row | {OP: rng.choice(words[weight])} for row, weight in changes]
        if rows or rng.random() < 0.3:
            batch[stream.name] = pa.Table.from_pylist(rows, schema)
    case.streams[stream.name] = replace(stream, schema=schema)
    case.how[stream.name] = {"changes": OP}


def _let_replace(rng: random.Random, case: Case, stream: StreamCase) -> None:
    """Make the rows of a stream upserts: of few keys, so that most replace others, and with keys that go."""
    key, has_op = rng.choice([["n"], ["n", "j"]]), rng.random() < 0.5
    schema = stream.schema.append(pa.field(OP, pa.string())) if has_op else stream.schema
    for batch in case.batches:
        rows = _tame(batch.pop(stream.name, stream.schema.empty_table()))
        rows = [row | {"n": rng.randrange(8), "j": rng.randrange(2)} for row in rows for _ in range(rng.choice([1, 2]))]
        for row in rows:
            gone = rng.random() < 0.2
            if has_op:
                row[OP] = rng.choice(["delete", "-D"] if gone else ["insert", "+U", "u", "UPSERT"])
            elif gone:
                row |= {name: None for name in row if name not in key}
        if rows or rng.random() < 0.3:
            batch[stream.name] = pa.Table.from_pylist(rows, schema)
    case.streams[stream.name] = replace(stream, schema=schema)
    case.how[stream.name] = {"key": key, **({"changes": OP} if has_op else {})}


def _changes(
    rng: random.Random, new: list[dict[str, Any]], here: list[dict[str, Any]], gone: list[dict[str, Any]]
) -> list[tuple[dict[str, Any], int]]:
    """What a batch brings: rows with +1 or -1, in any order.  `here` and `gone` are what there is after it."""
    changes = [(row, 1) for row in new]
    here += new
    rng.shuffle(here)
    for _ in range(rng.randint(0, max(1, len(here) // 2)) if here else 0):
        row = here.pop()
        changes.append((row, -1))
        gone.append(row)
        if rng.random() < 0.3:  # an update
            here.append(row | {"k": rng.choice([row["k"], 1, None]), "s": rng.choice(["a", "b"])})
            changes.append((here[-1], 1))
    for _ in range(rng.choice([0, 0, 1, 3]) if gone else 0):  # what was gone comes back, perhaps twice
        here.append(rng.choice(gone))
        changes.append((here[-1], 1))
    rng.shuffle(changes)
    return changes


def _tame(rows: pa.Table) -> list[dict[str, Any]]:
    """Rows without the large floats that swallow others: what is left of a sum then depends on the order."""

    def tamed(value: object) -> object:
        return 3.0 if isinstance(value, float) and 1e6 < abs(value) < 1e300 else value

    return [{name: tamed(value) for name, value in row.items()} for row in rows.to_pylist()]


def check_changing(case: Case) -> Tally:
    """Run the case under several plans and compare after every batch."""
    rng = random.Random(case.seed + 1)
    return check(rng, case, case.batches, rng.choice([None, None, FOREVER]), case.workers)


def check_moving(case: Case, root: Path) -> Tally:
    """Run the case while workers and plans change and queries are added; compare all of them after every batch."""
    rng, tally = random.Random(case.seed + 3), Tally()
    session = case.session(checkpoint=str(root / "state"), plans=[Planned("p0", "q0", {})])
    wanted = _answers(case, session)
    trial = Trial(session, state=session.checkpoint.root)
    for number, batch in enumerate(case.batches):
        if number and rng.random() < 0.7:
            _move(rng, case, session, trial, number)
            tally.taken_up += 1
        trial.feed(batch)
        for name in session.queries:
            assert_same_rows(trial.table(name), wanted[number], f"{name}, batch {number}: ", tolerance=TOLERANCE)
            tally.views += 1
            tally.rows += wanted[number].num_rows
    return tally


def _answers(case: Case, session: weft.Session) -> list[pa.Table]:
    query = session.queries["p0"].query
    return list(expected_after_each_batch(query, case.batches, plain_functions(), case.policy))


def _move(rng: random.Random, case: Case, session: weft.Session, trial: Trial, number: int) -> None:
    """Another number of workers, or the same query once more under another plan."""
    query = session.queries["p0"].query
    if rng.random() < 0.5 or expires(query) or not query.is_changing:  # then old results cannot all be made again
        session.rescale(rng.randint(1, 4))
    else:
        session.query(f"p{number}", case.queries["q0"], **rng.choice(some_plans(rng, query, session.workers)))
    try:
        trial.change()
    except weft.StateError:  # rows that it needs were not kept
        session.drop(f"p{number}")
        trial.change()


def _check_both(case: Case) -> Tally:
    tally = check_changing(case)
    with tempfile.TemporaryDirectory(prefix="weft-changing-") as folder:
        tally += check_moving(case, Path(folder))
    return tally


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.changing", "random changes against the oracle",
        lambda seed, _spark: make_changing_case(seed), lambda case, _spark: _check_both(case), Tally(), on_spark=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
