"""A job on a cluster that says what was fetched: `python -m tests.spark._homes_job ROOT MASTER CHECKPOINT MARKS HOSTS`.

In batch HALF it makes a file in the folder MARKS, and goes on when it is sent a line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import weft
from tests.spark._kit import QUERIES, make_session

WORKERS, HALF = 6, 5
SETTINGS = {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def main() -> None:
    root, master, checkpoint, marks, hosts = sys.argv[1:]
    more = {"spark.cores.max": str(2 * int(hosts)), "spark.eventLog.dir": f"file://{marks}"}
    spark = weft.spark({**SETTINGS, **more}, master=master)

    def wait(_df: Any, batch: int) -> None:
        if batch == HALF:
            Path(marks, "reached").touch()
            sys.stdin.readline()

    session = make_session(Path(root), WORKERS, "kept", checkpoint=checkpoint, spark=spark)
    session.queries[next(iter(QUERIES))].foreach_batch(wait)
    report = session.run()
    fetched = {progress.batch: dict(progress.counters.fetched) for progress in report.batches}
    Path(marks, "fetched.json").write_text(json.dumps(fetched))
    spark.stop()


if __name__ == "__main__":
    main()
