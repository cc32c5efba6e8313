"""Runs the demo and prints it: streams, queries, plan, progress, results, and the check of every row."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds

from weft.demo.check import Oracle, Verdict, has_duckdb
from weft.demo.data import LATENESS, DemoStream, write_streams
from weft.demo.queries import QUERIES, DemoQuery
from weft.errors import SinkError

if TYPE_CHECKING:
    from weft import Session

_SAMPLE = 3


def run_demo(*, orders: int = 30_000, seed: int = 1, keep: Path | None = None, workers: int | None = None) -> bool:
    """Run the demo and return whether every row was right."""
    if keep is not None and keep.exists():
        raise SinkError(f'folder "{keep}" exists', hint="name a folder that does not exist yet")
    with _folder(keep) as folder:
        return _Demo(Path(folder)).run(orders, seed, workers)


def _folder(keep: Path | None) -> AbstractContextManager[str]:
    if keep is not None:
        return nullcontext(str(keep))
    # The JVM may still hold files in there when the demo ends.
    return tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True)


class _Demo:
    """One run, in one folder, printed on stdout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(self, orders: int, seed: int, workers: int | None) -> bool:
        streams = write_streams(self._folder / "streams", orders=orders, seed=seed)
        self._print_streams(streams)
        self._print_queries()
        with self._declare(streams, workers) as session:
            _print_title("The plan")
            print(session.explain(), flush=True)
            _print_title("The run")
            print(session.run(), flush=True)
        if not has_duckdb():
            return self._print_unchecked()
        with Oracle(streams) as oracle:
            return self._print_results(oracle)

    def _print_unchecked(self) -> bool:
        """Show results without the check, which needs DuckDB."""
        for query in QUERIES:
            rows = ds.dataset(self._results[query.name], format="parquet")
            _print_title(f"Results of {query.name}, the first {_SAMPLE} of {rows.count_rows():,}")
            print(_format_table(rows.head(_SAMPLE).to_pylist()))
        _print_title("The check of every row is skipped: it needs DuckDB (pip install duckdb)")
        return True

    @property
    def _results(self) -> dict[str, Path]:
        return {query.name: self._folder / "results" / query.name for query in QUERIES}

    def _declare(self, streams: tuple[DemoStream, ...], workers: int | None) -> Session:
        import weft

        session = weft.Session(checkpoint=str(self._folder / "checkpoint"), workers=workers, progress=True)
        for stream in streams:
            source = weft.read.parquet(str(stream.folder), max_files=1)
            if stream.event_time is None:
                session.stream(stream.name, source, static=True)
            else:
                session.stream(stream.name, source, event_time=stream.event_time, lateness=LATENESS)
        for query in QUERIES:
            session.query(query.name, query.sql).to_parquet(str(self._results[query.name]))
        return session

    def _print_streams(self, streams: tuple[DemoStream, ...]) -> None:
        _print_title("The streams: an hour in a shop, event times up to 5 seconds out of order")
        for stream in streams:
            kind = ", a table" if stream.event_time is None else ""
            print(f"  {stream.name:<10} {stream.rows:>9,} rows, Parquet files: {stream.files}{kind}")

    def _print_queries(self) -> None:
        for query in QUERIES:
            _print_title(f"Query {query.name}: {query.about}")
            print(indent(query.sql, "  "))

    def _print_results(self, oracle: Oracle) -> bool:
        verdicts = {}
        for query in QUERIES:
            verdicts[query] = oracle.check(query, self._results[query.name])
            _print_title(f"Results of {query.name}, the first {_SAMPLE} of {verdicts[query].rows:,}")
            print(_format_table(oracle.sample(self._results[query.name], _SAMPLE)))
        _print_title("The check: every row against one DuckDB statement over the same files")
        for query, verdict in verdicts.items():
            print(f"  {_judge(query, verdict)}")
        return all(verdict.equal for verdict in verdicts.values())


def _print_title(text: str) -> None:
    """Print an empty line, then the title; bold on a terminal."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    print(f"\n{bold}{text}{plain}", flush=True)


def _judge(query: DemoQuery, verdict: Verdict) -> str:
    if verdict.equal:
        return f"right  {query.name}: all {verdict.rows:,} rows, each exactly once"
    return (
        f"WRONG  {query.name}: {verdict.missing:,} of {verdict.expected:,} rows missing, "
        f"{verdict.extra:,} of {verdict.rows:,} rows too many"
    )


def _format_table(rows: list[dict[str, Any]]) -> str:
    """Columns side by side, each as wide as its longest value.

    >>> print(_format_table([{"id": 1, "name": "Ann"}, {"id": 20, "name": "Bo"}]))
      id  name
      --  ----
      1   Ann
      20  Bo
    """
    if not rows:
        return "  no rows"
    columns = [[name, *(str(row[name]) for row in rows)] for name in rows[0]]
    widths = [max(map(len, column)) for column in columns]
    lines = [*zip(*columns, strict=True)]
    lines.insert(1, tuple("-" * width for width in widths))
    padded = (map(str.ljust, line, widths) for line in lines)
    return "\n".join(f"  {'  '.join(line)}".rstrip() for line in padded)
