"""Weft: its own local session by `s.start()`, one file of each stream per micro-batch.

    weft         the plan it chooses
    weft-flat    the flat plan: no join is kept
    weft-rows    of an aggregate the join alone, as rows

Spark is started as `weft run` starts it.  A batch lasts from one commit to the next, so what Spark does between batches
is counted.
"""

from __future__ import annotations

import time

import weft
from bench.peersystems.job import Job, main, tell
from weft.launch import ahead
from weft.launch.spark import local_session

POLL = 0.005


def run(job: Job) -> None:
    ahead.begin()
    spark = local_session(job.workers)
    tell(up=True)
    times = dict(job.join.times)
    session = weft.Session(checkpoint=job.state, workers=job.workers, spark=spark, progress=False)
    for name in job.join.streams:
        timed = {"event_time": times[name], "unit": "ms"} if name in times else {}
        session.stream(name, weft.read.parquet(job.folder(name), max_files=1), **timed)
    strategy = {"strategy": "flat"} if job.system == "weft-flat" else {}
    session.query("joined", sql(job), **strategy).to_parquet(job.results)
    clock = time.time()
    handle = session.start(every=0.001)
    tell(began=clock)
    seen = rows = 0
    while rows < job.rows and handle.active:
        time.sleep(POLL)
        for batch in handle.history(handle.report().count - seen):
            now = time.time()
            tell(batch={"seconds": now - clock, "end": now, "in": batch.total_in, "out": batch.total_out})
            clock, seen, rows = now, seen + 1, rows + batch.total_in
    done = time.time()
    handle.stop()
    tell(done=done, versions={"weft": weft.__version__, "pyspark": spark.version})
    spark.stop()


def sql(job: Job) -> str:
    """The query; a window is said once, at the end."""
    within = job.join.within
    tail = "" if within is None else f"WITHIN INTERVAL '{within}' MILLISECOND"
    join = job.join.rows if job.system == "weft-rows" else job.join
    return join.sql(lambda _: (), tail)


if __name__ == "__main__":
    main(run)
