"""A workload: streams in files, one join over them, what is known of both, and the right answer.

Unqualified columns are found by name, in Weft and in DuckDB alike, so that one text serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from bench.byhand import join_graph
from weft.optimizer.graph.joingraph import JoinGraph
from weft.stats.model import Statistics

Pair = tuple[str, str]
Answer = tuple[int, int]
"""How many rows, and the sum of their hashes: a doubled row is as wrong as a missing one."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One join over streams that lie in a folder, one sub-folder each, one file a micro-batch."""

    name: str
    folder: Path
    sql: str
    rows: Mapping[str, int]
    """Stream -> rows in all; streams are called as in the query."""
    selectivities: Mapping[Pair, float]

    @property
    def statistics(self) -> Statistics:
        """What a planner may know: the truth."""
        return Statistics(dict(self.rows), selectivities=dict(self.selectivities))

    @property
    def graph(self) -> JoinGraph:
        """The same as a join graph, every store anywhere."""
        return join_graph(self.rows, self.selectivities)

    def batches(self) -> Iterator[dict[str, pa.Table]]:
        """The micro-batches, in order."""
        files = {name: sorted((self.folder / name).glob("*.parquet")) for name in self.rows}
        for number in range(max(map(len, files.values()))):
            yield {name: pq.read_table(found[number]) for name, found in files.items() if number < len(found)}

    def truth(self) -> Answer:
        """The answer by DuckDB, which joins in the order of the text: its own for the cycle of Q5 takes minutes."""
        with duckdb.connect() as oracle:
            oracle.execute("SET disabled_optimizers = 'join_order'")
            for name in self.rows:
                oracle.execute(f"CREATE VIEW {name} AS FROM read_parquet('{self.folder / name}/*.parquet')")
            return sum_answer(oracle, self.sql)


def answer_in(folder: Path) -> Answer:
    """The answer that lies in a folder of Parquet files; an empty folder is an empty answer."""
    if not list(folder.glob("*.parquet")):
        return 0, 0
    with duckdb.connect() as oracle:
        return sum_answer(oracle, f"FROM read_parquet('{folder}/*.parquet')")


def answer_of(table: pa.Table) -> Answer:
    """The answer that a table holds."""
    with duckdb.connect() as oracle:
        oracle.register("answer", table)
        return sum_answer(oracle, "FROM answer")


def sum_answer(oracle: duckdb.DuckDBPyConnection, rows: str) -> Answer:
    """The answer of a query."""
    names = ", ".join(column[0] for column in oracle.execute(f"FROM ({rows}) LIMIT 0").description)
    count, total = oracle.execute(f"SELECT count(*), sum(hash({names})::HUGEINT) FROM ({rows})").fetchall()[0]
    return int(count), int(total or 0)
