"""A job on a cluster: `python -m tests.spark._cluster_job ROOT MASTER CHECKPOINT MARKS`.

In batch 2 it makes a file in the folder MARKS, and goes on when it is sent a line.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import weft
from tests.spark._kit import QUERIES, make_session
from weft.launch.ship import ship

SETTINGS = {"spark.executor.memory": "600m", "spark.executor.cores": "1", "spark.cores.max": "2"}
EAGER = {
    "spark.speculation": "true",
    "spark.speculation.interval": "5ms",
    "spark.speculation.multiplier": "1.0",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}
"""A task that takes longer than another one of its wave is started a second time; the log of events says which."""


def main() -> None:
    root, master, checkpoint, marks = sys.argv[1:]
    spark = ship(weft.spark({**SETTINGS, **EAGER, "spark.eventLog.dir": marks}, master=master))
    here = {row.path for row in spark.range(4).repartition(4).mapInArrow(_where, "path STRING").collect()}
    print("weft at", *sorted(here), flush=True)

    def wait(_df: Any, batch: int) -> None:
        if batch == 2:
            Path(marks, "reached").touch()
            sys.stdin.readline()

    session = make_session(Path(root), 2, "kept", checkpoint=checkpoint, spark=spark)
    session.queries[next(iter(QUERIES))].foreach_batch(wait)
    print(session.run(), flush=True)


def _where(batches: Any) -> Any:
    import pyarrow as pa

    for _ in batches:
        import weft as found

        yield pa.RecordBatch.from_pydict({"path": [str(found.__file__)]})


if __name__ == "__main__":
    main()
