"""The job that is killed: `python -m tests.spark._job ROOT WORKERS PLANS [POINT BATCH MARK]`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark._kit import make_session
from weft.host.crash import CrashPoint


def main() -> None:
    root, workers, plans, *crash = sys.argv[1:]
    session = make_session(Path(root), int(workers), plans, progress=True)
    if crash:
        point, batch, mark = crash
        session.crash_point = CrashPoint(point, int(batch), "hang", mark)
    print(session.run(), flush=True)


if __name__ == "__main__":
    main()
