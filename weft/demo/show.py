"""The demo as it is seen: streams, queries, plan, progress, results, and the check of every row."""

from __future__ import annotations

import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from weft.demo.check import Oracle, Verdict, require_duckdb
from weft.demo.data import LATENESS, DemoStream, write_streams
from weft.demo.queries import QUERIES, DemoQuery
from weft.errors import SinkError

if TYPE_CHECKING:
    from weft import Session

_SAMPLE = 3


def run_demo(*, orders: int = 30_000, seed: int = 1, keep: Path | None = None, workers: int | None = None) -> bool:
    """Run the demo and say whether every row was right."""
    if keep is not None and keep.exists():
        raise SinkError(f'folder "{keep}" exists', hint="name a folder that does not exist yet")
    with _folder(keep) as folder:
        return _Demo(Path(folder), Console(highlight=False, markup=False)).run(orders, seed, workers)


def _folder(keep: Path | None) -> AbstractContextManager[str]:
    if keep is not None:
        return nullcontext(str(keep))
    # The JVM may still hold files in there when the demo ends.
    return tempfile.TemporaryDirectory(prefix="weft-demo-", ignore_cleanup_errors=True)


class _Demo:
    """One run, in one folder, told on one console."""

    def __init__(self, folder: Path, console: Console) -> None:
        self._folder, self._console = folder, console

    def run(self, orders: int, seed: int, workers: int | None) -> bool:
        require_duckdb()
        streams = write_streams(self._folder / "streams", orders=orders, seed=seed)
        self._tell_streams(streams)
        self._tell_queries()
        with self._declare(streams, workers) as session:
            self._title("The plan")
            self._console.print(session.explain(), soft_wrap=True)
            self._title("The run")
            self._console.print(str(session.run()), soft_wrap=True)
        with Oracle(streams) as oracle:
            return self._tell_results(oracle)

    @property
    def _results(self) -> dict[str, Path]:
        return {query.name: self._folder / "results" / query.name for query in QUERIES}

    def _declare(self, streams: tuple[DemoStream, ...], workers: int | None) -> Session:
        import weft

        session = weft.Session(checkpoint=str(self._folder / "checkpoint"), workers=workers, progress=True)
        for stream in streams:
            source = weft.read.parquet(str(stream.folder), max_files=1)
            session.stream(stream.name, source, event_time=stream.event_time, lateness=LATENESS)
        for query in QUERIES:
            session.query(query.name, query.sql).to_parquet(str(self._results[query.name]))
        return session

    def _tell_streams(self, streams: tuple[DemoStream, ...]) -> None:
        self._title("The streams: an hour in a shop, event times up to 5 seconds out of order")
        for stream in streams:
            self._console.print(f"  {stream.name:<10} {stream.rows:>9,} rows, Parquet files: {stream.files}")

    def _tell_queries(self) -> None:
        for query in QUERIES:
            self._title(f"Query {query.name}: {query.about}")
            self._console.print(_indent(query.sql), soft_wrap=True)

    def _tell_results(self, oracle: Oracle) -> bool:
        verdicts = {}
        for query in QUERIES:
            verdicts[query] = oracle.check(query, self._results[query.name])
            self._title(f"Results of {query.name}, the first {_SAMPLE} of {verdicts[query].rows:,}")
            self._console.print(_as_table(oracle.sample(self._results[query.name], _SAMPLE)))
        self._title("The check: every row against one DuckDB statement over the same files")
        for query, verdict in verdicts.items():
            self._console.print(f"  {_judge(query, verdict)}", soft_wrap=True)
        return all(verdict.equal for verdict in verdicts.values())

    def _title(self, text: str) -> None:
        self._console.print(f"\n{text}", style="bold", soft_wrap=True)


def _judge(query: DemoQuery, verdict: Verdict) -> str:
    if verdict.equal:
        return f"right  {query.name}: all {verdict.rows:,} rows, each exactly once"
    return (
        f"WRONG  {query.name}: {verdict.missing:,} of {verdict.expected:,} rows missing, "
        f"{verdict.extra:,} of {verdict.rows:,} rows too many"
    )


def _as_table(rows: list[dict[str, Any]]) -> Table:
    table = Table(*(rows[0] if rows else ("no rows",)))
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    return table


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
