"""The job that is killed: `python -m tests.spark._subscriptions ROOT WORKERS SEED _ [POINT BATCH MARK]`.

A batch of a case is a file of each stream and some changes of subscriptions.  All of them are there before the batch
begins and none comes while it is planned, so a batch of the job is a batch of the case, however often it is killed.
"""

from __future__ import annotations

import random
import sys
from itertools import groupby
from pathlib import Path

import weft
from tests.spark._kit import drop, hang_at
from tests.subscribing import NAME, STREAM, Case, draw, table
from weft.session.subscriptions import Subscriptions


def make_case(seed: int) -> Case:
    """A case of two streams or more."""
    rng = random.Random(seed)
    return next(case for case in (draw(rng, batches=4, rows=20) for _ in range(100)) if case.streams > 1)


def open_session(root: Path, case: Case, workers: int) -> tuple[weft.Session, Subscriptions]:
    """The session of the job."""
    session = weft.Session(checkpoint=root / "checkpoint", workers=workers)
    for i in range(case.streams):
        source = weft.read.parquet(root / "in" / f"r{i}", max_files=1, schema=STREAM)
        session.stream(f"r{i}", source, event_time="ts", lateness="1 hour")
    handle = session.subscriptions(
        NAME, case.sql, parameters=weft.read.batches([case.schema.empty_table()]), key=case.key, start=case.start,
        window="within" if case.own_windows else None,
    )  # fmt: skip
    handle.to_parquet(root / "out")
    return session, handle


def put_changes(handle: Subscriptions, case: Case, number: int) -> None:
    """Ask for the changes of a batch, in their order."""
    for kind, found in groupby(case.changes[number], key=lambda change: change[0]):
        rows = [row for _, row in found]
        if kind == "add":
            handle.add(table(rows, case.schema))
        else:
            handle.remove([row[: len(case.key)] for row in rows])


def put_rows(root: Path, case: Case, number: int) -> None:
    """Let the rows of a batch arrive."""
    for name, rows in case.batches[number].items():
        drop(root / "in" / name, f"{number:06}.parquet", rows)


def main() -> None:
    root, workers, seed, _, *crash = sys.argv[1:]
    session, _ = open_session(Path(root), make_case(int(seed)), int(workers))
    hang_at(session, crash)
    print(session.run(), flush=True)


if __name__ == "__main__":
    main()
