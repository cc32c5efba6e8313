"""Compares every sink of a story with DuckDB, as multisets of rows."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from tests.chaos.asked import Asked
from tests.chaos.job import EXTRA
from tests.chaos.outcome import Outcome
from tests.chaos.rows import LATENESS
from tests.chaos.sinks import Answer, expected, found, out
from tests.chaos.story import Story


@dataclass(frozen=True)
class Comparison:
    """What a story should have come to, beside what is there."""

    story: Story
    root: Path
    staged: Sequence[object]
    """What lies in the folder of staged results."""
    tables: dict[str, Any]
    """The rows of each stream that are left in the end."""
    consume: Callable[[str], list[Any]]
    """The records of a topic."""
    outcome: Outcome

    def run(self) -> None:
        """Raise if a sink has other rows than DuckDB."""
        extra = self.story.extra
        for query in [*self.story.queries, *([extra] if extra is not None else [])]:
            names, wanted = expected(query, self.tables)
            for sink in query.sinks:
                here = found(query, sink, self.root, names, self.consume)
                self._same(f"{query.name}, sink {sink}", here, self._final(query, wanted, sink))
            if query is extra and not query.is_view:
                self._compare_live(names, wanted)
        assert not self.staged, f"staged results stay behind: {self.staged}"

    def _compare_live(self, names: list[str], wanted: Answer) -> None:
        """What a query gave that came and went: a part of the answer, nothing twice."""
        for folder in sorted((out(self.root) / EXTRA).glob("*")):
            if not any(folder.rglob("*.parquet")):
                continue  # killed before its first batch, then dropped
            table = ds.dataset(folder, format="parquet").to_table().select(names)
            here = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
            assert here <= wanted, f"query {EXTRA} in {folder.name}: {len(here - wanted)} rows too often or wrong"
            self.outcome.sinks += 1
            self.outcome.rows += here.total()

    def _final(self, query: Asked, wanted: Answer, sink: str) -> Answer:
        """Of final rows, the groups of windows that have ended by the watermark, and rows whose time it has passed."""
        if query.waits:
            mark = min(map(self._mark, query.waits)).isoformat()
            return Counter({row: count for row, count in wanted.items() if row[-1] < mark})
        if sink != "final":
            return wanted
        assert query.closes is not None
        mark = (self._mark(query.closes) - datetime.timedelta(seconds=60)).isoformat()
        return Counter({row: count for row, count in wanted.items() if row[0] <= mark})

    def _mark(self, name: str) -> datetime.datetime:
        """The watermark of a stream or a table in the end."""
        newest: datetime.datetime = max(self.tables[name].column("ts").to_pylist())
        return newest - datetime.timedelta(seconds=LATENESS)

    def _same(self, what: str, here: Answer, wanted: Answer) -> None:
        missing, more = wanted - here, here - wanted
        if missing or more:
            some = {"missing": list(missing.items())[:3], "too many": list(more.items())[:3]}
            raise AssertionError(f"{what}: {missing.total()} rows missing, {more.total()} too many, e.g. {some}")
        self.outcome.sinks += 1
        self.outcome.rows += wanted.total()
