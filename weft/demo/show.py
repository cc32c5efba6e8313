"""The demo as it is seen: streams, queries, plan, progress, results, and the check of every row."""

from __future__ import annotations

import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.live import Live
from rich.table import Table

from weft.demo.check import Oracle, Verdict
from weft.demo.data import LATENESS, DemoStream, write_streams
from weft.demo.queries import QUERIES, DemoQuery
from weft.errors import SinkError

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
        streams = write_streams(self._folder / "streams", orders=orders, seed=seed)
        oracle = Oracle(streams)
        self._tell_streams(streams)
        self._tell_queries()
        session = self._declare(streams, workers)
        self._title("The plan")
        self._console.print(str(session.explain()), soft_wrap=True)
        self._title("The run")
        start = time.perf_counter()
        with Live(_Progress(self._results), console=self._console, refresh_per_second=4):
            report = session.run()
        if not self._console.is_terminal:
            self._console.print()  # a live display ends its line only on a terminal
        rows = sum(stream.rows for stream in streams)
        self._console.print(f"{rows:,} rows in, done after {time.perf_counter() - start:.1f} s")
        self._console.print(str(report), soft_wrap=True)
        return self._tell_results(oracle)

    @property
    def _results(self) -> dict[str, Path]:
        return {query.name: self._folder / "results" / query.name for query in QUERIES}

    def _declare(self, streams: tuple[DemoStream, ...], workers: int | None) -> Any:
        import weft

        session = weft.Session(checkpoint=str(self._folder / "checkpoint"), workers=workers)
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


@dataclass
class _Progress:
    """Rows written so far, counted from the footers of the result files whenever it is drawn."""

    folders: dict[str, Path]
    _known: dict[Path, int] = field(default_factory=dict)

    def __rich__(self) -> str:
        written = [f"{name} {self._count(folder):,}" for name, folder in self.folders.items()]
        return "rows written: " + ", ".join(written)

    def _count(self, folder: Path) -> int:
        files = [path for path in folder.glob("*.parquet") if not path.name.startswith((".", "_"))]
        return sum(self._rows(path) for path in files)

    def _rows(self, path: Path) -> int:
        if path not in self._known:
            try:
                self._known[path] = pq.read_metadata(path).num_rows
            except (OSError, pa.ArrowInvalid):
                return 0  # still being written, or just replaced; the next drawing will see it
        return self._known[path]


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
