"""Pathway: one join per step, two threads, from CSV because its Parquet connectors need a licence.

Windows and bands become interval joins.  Files are read in static mode: all input is there at the start, as for the
others; nothing is persisted, so there is no state on disk.
"""

from __future__ import annotations

import operator
import os
import sys
import time
from pathlib import Path
from typing import Any

from bench.peersystems.job import Compare, Job, OneOf, Step, main, read, tell

os.environ["PATHWAY_THREADS"] = str(read(Path(sys.argv[1]).read_text()).workers)

import pathway as pw

TYPES = {"int": int, "bigint": int, "double": float, "string": str}
OPS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}


def run(job: Job) -> None:
    tell(up=True)
    joined = _read(job, job.join.first)
    for step in job.join.steps:
        joined = _join_step(job, joined, _read(job, step.stream), step)
    job.results.mkdir(parents=True, exist_ok=True)
    pw.io.csv.write(_results(job, joined), job.results / "all.csv")
    clock = time.time()
    tell(began=clock, format="csv")
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    tell(done=time.time(), versions={"pathway": pw.__version__})


def _results(job: Job, joined: Any) -> Any:
    keys = [joined[column] for column in job.join.select]
    if not job.join.measures:
        return joined.select(*keys)
    columns = {column: joined[column] for column in job.join.terms}
    sums = {m.name: pw.reducers.sum(eval(m.term, {}, columns)) for m in job.join.measures if m.term is not None}
    counts = {m.name: pw.reducers.count() for m in job.join.measures if m.term is None}
    return joined.groupby(*keys).reduce(*keys, **sums, **counts)


def _read(job: Job, name: str) -> Any:
    schema = pw.schema_from_types(**{column: TYPES[kind] for column, kind in job.schemas[name].items()})
    found = pw.io.csv.read(str(job.folder(name, "csv")), schema=schema, mode="static")
    for c in job.join.keep:
        if (c.column if isinstance(c, OneOf) else c.left) in job.schemas[name]:
            found = found.filter(_condition(found, c))
    return found


def _join_step(job: Job, left: Any, right: Any, step: Step) -> Any:
    on = [left[theirs] == right[mine] for theirs, mine in step.on]
    bounds = _interval(job, step)
    rest = [c for c in (*step.where, *job.join.window(step.stream)) if bounds is None or c not in bounds[2]]
    if bounds is None:
        both = left.join(right, *on)
    else:
        earlier, mine, used = bounds
        low, high = (next(c.plus for c in used if c.op.startswith(op)) for op in (">", "<"))
        strict = [1 if c.op in "<>" else 0 for c in used]
        interval = pw.temporal.interval(low + strict[0], high - strict[1])
        both = left.interval_join(right, left[earlier], right[mine], interval, *on)
    columns = {c: left[c] for c in left.column_names()} | {c: right[c] for c in right.column_names()}
    found = both.select(**columns)
    for c in rest:
        found = found.filter(OPS[c.op](found[c.left], found[c.right] + c.plus))
    return found


def _interval(job: Job, step: Step) -> tuple[str, str, tuple[Compare, Compare]] | None:
    """(an earlier column, a column of this stream, the two comparisons that bound their distance), if there are any."""
    conditions = (*step.where, *job.join.window(step.stream))
    for low in conditions:
        for high in conditions:
            if (low.left, low.right) == (high.left, high.right) and low.op[0] == ">" and high.op[0] == "<":
                assert low.right is not None
                return low.right, low.left, (low, high)
    return None


def _condition(table: Any, c: Compare | OneOf) -> Any:
    if isinstance(c, Compare):
        return OPS[c.op](table[c.left], c.plus)
    first, *others = [table[c.column] == value for value in c.values]
    for other in others:
        first |= other
    return first


if __name__ == "__main__":
    main(run)
