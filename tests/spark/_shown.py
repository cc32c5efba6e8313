"""The job that is shown and killed: `python -m tests.spark._shown ROOT`.  Says "begun" after its first batch."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark._kit import make_session


def main() -> None:
    session = make_session(Path(sys.argv[1]), 2, "flat", progress=False)
    handle = session.start(every=0.2)
    while handle.progress() is None:
        handle.wait(0.1)
    print("begun", flush=True)
    handle.wait()


if __name__ == "__main__":
    main()
