"""Polars, one lazy query over all rows: no stream, no state, a limit like DuckDB."""

from __future__ import annotations

import operator
import os
import sys
import time
from pathlib import Path

from bench.peersystems.job import Compare, Job, OneOf, main, read, tell

os.environ["POLARS_MAX_THREADS"] = str(read(Path(sys.argv[1]).read_text()).workers)

import polars as pl

OPS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


def run(job: Job) -> None:
    job.results.mkdir(parents=True, exist_ok=True)
    clock = time.time()
    tell(began=clock)
    frames = {name: _scan(job, name) for name in job.join.streams}
    joined = frames[job.join.first]
    for step in job.join.steps:
        conditions = [_expression(c) for c in (*step.where, *job.join.window(step.stream))]
        right = frames[step.stream]
        if step.on:
            theirs, mine = ([pair[i] for pair in step.on] for i in (0, 1))
            joined = joined.join(right, left_on=theirs, right_on=mine, coalesce=False)
            joined = joined.filter(*conditions) if conditions else joined
        else:
            joined = joined.join_where(right, *conditions)
    joined.select(job.join.select).sink_parquet(job.results / "all.parquet")
    tell(done=time.time(), versions={"polars": pl.__version__})


def _scan(job: Job, name: str) -> pl.LazyFrame:
    found = pl.scan_parquet(f"{job.folder(name)}/*.parquet")
    mine = [c for c in job.join.keep if (c.column if isinstance(c, OneOf) else c.left) in job.schemas[name]]
    return found.filter(*map(_expression, mine)) if mine else found


def _expression(c: Compare | OneOf) -> pl.Expr:
    if isinstance(c, OneOf):
        return pl.col(c.column).is_in(list(c.values))
    other = pl.lit(c.plus) if c.right is None else pl.col(c.right) + c.plus
    return OPS[c.op](pl.col(c.left), other)


if __name__ == "__main__":
    main(run)
