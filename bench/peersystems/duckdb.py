"""DuckDB, one query over all rows: no stream, no state, the limit of what is possible with these files."""

from __future__ import annotations

import time

import duckdb

from bench.peersystems.job import Job, main, tell


def run(job: Job) -> None:
    job.results.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as db:
        db.execute(f"SET threads = {job.workers}")
        db.execute("SET disabled_optimizers = 'join_order'")  # its own order for cycles takes minutes
        clock = time.time()
        tell(began=clock)
        for name in job.join.streams:
            db.execute(f"CREATE VIEW {name} AS FROM read_parquet('{job.folder(name)}/*.parquet')")
        db.execute(f"COPY ({job.join.sql()}) TO '{job.results}/all.parquet' (FORMAT parquet)")
        tell(done=time.time(), versions={"duckdb": duckdb.__version__})


if __name__ == "__main__":
    main(run)
