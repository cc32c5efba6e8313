"""The job that is killed: `python -m tests.spark._job ROOT WORKERS PLANS CHANGES [POINT BATCH MARK]`.

If CHANGES is a number other than 0, it is the seed of what changes while the job runs: the number of workers, and
whether there is one more query.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import weft
from tests.spark._kit import PAIRS, hang_at, make_session

EXTRA = "extra"
"""A query that comes and goes."""


def main() -> None:
    root, workers, plans, changes, *crash = sys.argv[1:]
    session = make_session(Path(root), int(workers), plans, progress=True)
    if EXTRA in session.checkpoint.queries():
        session.drop(EXTRA)
    hang_at(session, crash)
    print(
        run_and_change(session, Path(root), random.Random(int(changes))) if int(changes) else session.run(), flush=True
    )


def run_and_change(session: weft.Session, root: Path, dice: random.Random) -> object:
    """Run until all input is read, and change the session all the while."""
    batches = len(list((root / "in" / "r").iterdir()))
    with session:
        handle = session.start(every=0.01)
        while session.checkpoint.last < batches - 1 and not handle.wait(dice.uniform(0.1, 0.6)):
            if EXTRA in session.queries and dice.random() < 0.5:
                session.drop(EXTRA)
            elif EXTRA not in session.queries and dice.random() < 0.5:
                session.query(EXTRA, PAIRS, backfill=True).to_memory()
            else:
                session.rescale(dice.randint(1, 3))
        return handle.stop()


if __name__ == "__main__":
    main()
