"""Random aggregate queries mean what DuckDB takes the same text to mean.

Weft resolves the text, and the oracle writes out what was resolved; DuckDB reads the text itself.  Comparisons with NaN
differ between the two on purpose, so there is no NaN here.
"""

import random

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.fuzz import StreamCase, make_stream
from tests.groups import TOLERANCE, GroupedMaker
from weft.query.model import Stream
from weft.sql import to_query
from weft.testing import assert_same_rows, oracle
from weft.testing.oracle import with_durations

CHUNKS, EACH = 4, 100


class PlainMaker(GroupedMaker):
    """Queries that DuckDB can read."""

    functions = False
    windows = False

    def query(self, count: int) -> str:
        """A query over one alias or two."""
        aliases = [f"x{i}" for i in range(count)]
        self.of = {alias: self.rng.choice(list(self.streams.values())) for alias in aliases}
        select = self._outputs(aliases)
        tables = ", ".join(f"{stream.name} {alias}" for alias, stream in self.of.items())
        where = [f"x0.{self.rng.choice('kj')} = x1.{self.rng.choice('kj')}"] if count > 1 else []
        where += [self._selection(alias) for alias in aliases if self.rng.random() < 0.2]
        return f"SELECT {select}\nFROM {tables}" + (f"\nWHERE {' AND '.join(where)}" if where else "") + self._after

    def _selection(self, a: str) -> str:
        return next(text for text in iter(lambda: super(PlainMaker, self)._selection(a), "") if "near" not in text)


def without_nan(stream: StreamCase) -> pa.Table:
    table = stream.rows
    for name in ("f", "g"):
        column = table[name]
        plain = pc.if_else(pc.or_(pc.is_nan(column), pc.equal(column, 0)), pa.scalar(None, column.type), column)
        table = table.set_column(table.schema.get_field_index(name), name, plain)
    return table


def check(seed: int) -> int:
    rng = random.Random(seed)
    made = [make_stream(rng, f"r{i}", 30, rng.choice([1, 2, 3, 6])) for i in range(2)]
    streams = {s.name: Stream(s.name, s.schema, s.event_time, s.unit) for s in made}  # type: ignore[arg-type]
    tables = {s.name: without_nan(s) for s in made}
    text = PlainMaker(rng, {s.name: s for s in made}, extremes=True).query(rng.choice([1, 2]))
    query = to_query(text, streams, cross_product=True)
    with duckdb.connect() as duck:
        duck.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            duck.register(name, table)
        try:
            expected = with_durations(duck.sql(text).to_arrow_table())
            assert_same_rows(oracle(query, tables), expected.cast(query.schema), tolerance=TOLERANCE)
        except Exception as error:
            error.add_note(f"seed {seed}\n{text}")
            raise
    return expected.num_rows


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_duckdb_gives_the_same_answer_to_the_same_text(chunk: int) -> None:
    assert sum(check(seed) for seed in range(chunk * EACH, (chunk + 1) * EACH)) > EACH
