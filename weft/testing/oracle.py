"""The oracle: what a query must answer, computed by DuckDB in one statement over all input rows.

The window rule is written out as it is defined: the newest event time of a combination minus a row's own time is less
than the row's window.  Event times are computed in SQL, not by Weft.  Nothing here knows of batches, plans or stores;
only `survivors` and `expected_after_lateness` compute the watermark again, to leave out the rows that arrive too late.
"""

from __future__ import annotations

import atexit
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from inspect import Parameter, Signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import HostError
from weft.expr.evaluate import Functions
from weft.expr.model import Expr, Udf, aliases, transform
from weft.expr.render import quote_name, to_sql
from weft.expr.types import normalize_schema, sql_name
from weft.query.grouping import TimeWindow
from weft.query.model import Output, Query, Relation, Stream
from weft.query.settled import in_one
from weft.query.timebounds import retention
from weft.query.whole import as_join
from weft.testing.grouped import BATCH, Marks, grouped_sql
from weft.testing.left import input_of, left
from weft.topology.clock import Policy

Rename = Callable[[Expr], Expr]
Tables = Mapping[str, pa.Table]
"""Rows by stream."""
Idle = Sequence[Collection[str]]
"""The streams that are idle when each batch begins; empty where none ever is."""

_TIME = '"#t"'
_BATCH = BATCH.strip('"')
_STEPS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def oracle(query: Query, tables: Tables, functions: Functions | None = None) -> pa.Table:
    """The answer of the query over all rows; no row is treated as late."""
    return _answer(query, tables, functions, ())


def _answer(query: Query, tables: Tables, functions: Functions | None, marks: Marks) -> pa.Table:
    """The answer over rows that have a batch if there are watermarks."""
    query = in_one(query)
    duck = _connect()
    registry = _Registry(duck, functions or {})
    try:
        for stream in {relation.stream.name: relation.stream for relation in query.relations}.values():
            duck.register(f"in {stream.name}", _rows(duck, tables.get(stream.name), stream))
        statement = _statement(query, registry.rename, marks)
        found: pa.Table = duck.sql(statement).to_arrow_table()
    finally:
        registry.clear()
        duck.close()
    return with_durations(found).cast(query.schema)


def aggregated(query: Query, rows: pa.Table, functions: Functions | None = None, marks: Marks = ()) -> pa.Table:
    """What an aggregate query makes of rows of its join, which have a batch in column `#b` if there are watermarks.

    The key that is a window of event time must be the event time, in microseconds.
    """
    assert query.grouping is not None
    duck = _connect()
    registry = _Registry(duck, functions or {})
    try:
        duck.register("in joined", rows)
        statement = grouped_sql(
            query.grouping, f"SELECT * FROM {_quote('in joined')}", lambda expr: _sql(expr, registry.rename), marks
        )
        found: pa.Table = duck.sql(statement).to_arrow_table()
    finally:
        registry.clear()
        duck.close()
    return with_durations(found).cast(query.schema)


def with_durations(table: pa.Table) -> pa.Table:
    """DuckDB's intervals as durations: a difference of times is one without months."""
    for at, field in enumerate(table.schema):
        if pa.types.is_interval(field.type):
            values = table.column(at).to_pylist()
            micros = [None if v is None else v.days * 86_400_000_000 + v.nanoseconds // 1000 for v in values]
            table = table.set_column(at, field.name, pa.array(micros, pa.int64()).cast(pa.duration("us")))
    return table


def oracle_sql(query: Query, rename: Rename = lambda expr: expr) -> str:
    """The statement that DuckDB answers; its tables are named "in stream"."""
    return _statement(query, rename, ())


def _statement(query: Query, rename: Rename, marks: Marks) -> str:
    query = in_one(as_join(query))
    if query.grouping is None:
        return _join_sql(query, [f"{_sql(o.expr, rename)} AS {_quote(o.name)}" for o in query.outputs], rename)
    window = query.grouping.window
    batch = [f"greatest({', '.join(f'{_quote(a)}.{BATCH}' for a in query.aliases)}) AS {BATCH}"] if marks else []
    outputs = [f"{_key_sql(o, window, rename)} AS {_quote(o.name)}" for o in query.outputs]
    joined = _join_sql(query, [*outputs, *batch] or ["1"], rename)
    return grouped_sql(query.grouping, joined, lambda expr: _sql(expr, rename), marks)


def _key_sql(output: Output, window: TimeWindow | None, rename: Rename) -> str:
    """An output of the join; the key of a window is the event time of its stream, in microseconds."""
    if window is None or output.name != window.key:
        return _sql(output.expr, rename)
    return f"{_quote(min(aliases(output.expr)))}.{_TIME}"


def _join_sql(query: Query, outputs: Sequence[str], rename: Rename) -> str:
    sources = ", ".join(_source(relation) for relation in query.relations)
    predicates = [f"({_sql(p, rename)})" for p in query.predicates]
    where = " AND ".join([*predicates, *_time_conditions(query), *_window_conditions(query)])
    return f"SELECT {', '.join(outputs)}\nFROM {sources}" + (f"\nWHERE {where}" if where else "")


def expires(query: Query) -> bool:
    """Whether state of the query ever expires, so that rows can be late for it."""
    query = in_one(query)
    return len(query.relations) > 1 and any(keep is not None for keep in retention(query).values())


def survivors(query: Query, batches: Sequence[Tables], policy: Policy = "min", idle: Idle = ()) -> dict[str, pa.Table]:
    """The rows of all micro-batches that are not late for the query when they arrive.

    A row is late if it lies below the watermark at the start of its batch: the least (or with policy "max" the
    greatest), over the query's streams with an event time, of the newest time seen in earlier batches minus the
    stream's lateness.  `idle` says, for each batch, which streams are idle when it begins.
    """
    kept, _ = _accept(query, batches, policy, idle)
    return {name: table.drop_columns([_BATCH]) for name, table in kept.items()}


def _accept(
    query: Query, batches: Sequence[Tables], policy: Policy, idle: Idle = ()
) -> tuple[dict[str, pa.Table], Marks]:
    """The rows that are not late, each with its batch, and the watermark at the start of each batch."""
    streams = {relation.stream.name: relation.stream for relation in in_one(query).relations}
    kept = {name: [_number(_given(None, stream), 0)] for name, stream in streams.items()}
    newest: dict[str, int] = {}
    marks: list[int | None] = []
    for number, batch in enumerate(batches):
        found = watermark(streams.values(), newest, policy, idle[number] if idle else ())
        reached = [mark for mark in (*marks[-1:], found) if mark is not None]
        marks.append(max(reached, default=None))
        for name, stream in streams.items():
            if (fed := input_of(stream).name) in batch:
                table = _given(batch[fed], stream)
                mark = marks[-1] if expires(query) else None
                in_time = table if mark is None else table.filter(_in_time(table, stream, mark))
                kept[name].append(_number(in_time, number))
                _advance(newest, stream, table)
    return {name: pa.concat_tables(tables) for name, tables in kept.items()}, marks


def _number(table: pa.Table, batch: int) -> pa.Table:
    return table.append_column(_BATCH, pa.repeat(pa.scalar(batch, pa.int64()), table.num_rows))


def expected_after_lateness(
    query: Query,
    batches: Sequence[Tables],
    functions: Functions | None = None,
    policy: Policy = "min",
    idle: Idle = (),
) -> pa.Table:
    """The answer over the rows that are not late, and over windows of event time that were open when they came."""
    kept, marks = _accept(query, batches, policy, idle)
    return _answer(query, kept, functions, marks)


def expected_after_each_batch(
    query: Query, batches: Sequence[Tables], functions: Functions | None = None, policy: Policy = "min"
) -> Iterator[pa.Table]:
    """What `expected_after_lateness` says of the first batch, of the first two, and so on."""
    kept, marks = _accept(query, batches, policy)
    for number in range(len(batches)):
        so_far = {name: rows.filter(pc.less_equal(rows[_BATCH], number)) for name, rows in kept.items()}
        yield _answer(query, so_far, functions, marks)


def watermark(
    streams: Iterable[Stream], newest: Mapping[str, int], policy: Policy, idle: Collection[str] = ()
) -> int | None:
    """The event time below which rows are late, given the newest time of each stream; None if there is none yet.

    It does not wait for idle streams; if all are idle, the greatest counts.
    """
    timed = [stream for stream in streams if stream.event_time is not None]
    awake = [stream for stream in timed if stream.name not in idle]
    if not timed or any(stream.name not in newest for stream in awake):
        return None
    marks = [newest[stream.name] - stream.lateness for stream in awake or timed if stream.name in newest]
    return min(marks) if policy == "min" and awake else max(marks, default=None)


def _in_time(table: pa.Table, stream: Stream, mark: int) -> pa.ChunkedArray | pa.Scalar:
    if stream.event_time is None:
        return pa.chunked_array([pa.repeat(True, table.num_rows)])
    return pc.fill_null(pc.greater_equal(_times(table, stream), mark), False)


def _advance(newest: dict[str, int], stream: Stream, table: pa.Table) -> None:
    if stream.event_time is None:
        return
    found = pc.max(_times(table, stream)).as_py()
    if found is not None:
        newest[stream.name] = max(found, newest.get(stream.name, found))


def _times(table: pa.Table, stream: Stream) -> pa.ChunkedArray:
    duck = _connect()
    try:
        duck.register("t", table)
        times: pa.ChunkedArray = duck.sql(f"SELECT {_time_sql(stream)} AS t FROM t").to_arrow_table().column("t")
        return times
    finally:
        duck.close()


def _connect() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise HostError("the oracle needs DuckDB", hint='pip install "weft[testing]"') from error
    global _database
    if _database is None:
        _database = duckdb.connect(config={"threads": 1})
        atexit.register(_database.close)
    duck = _database.cursor()
    duck.execute("SET TimeZone = 'UTC'")
    return duck


_database: Any = None
"""One database per process; every call has a cursor of its own."""


def _rows(duck: Any, table: pa.Table | None, stream: Stream) -> pa.Table:
    """The rows of a stream with their types, and with their batch if they have one; of changes, what is left."""
    if table is not None and stream.changes is not None:
        table = left(duck, table, stream)
    found = _cast(table, stream)
    return found.append_column(_BATCH, table[_BATCH]) if table is not None and _BATCH in table.schema.names else found


def _cast(table: pa.Table | None, stream: Stream) -> pa.Table:
    schema = normalize_schema(stream.schema)
    return schema.empty_table() if table is None else table.select(schema.names).cast(schema)


def _given(table: pa.Table | None, stream: Stream) -> pa.Table:
    """The rows as the source gives them."""
    schema = normalize_schema(input_of(stream).source)
    return schema.empty_table() if table is None else table.select(schema.names).cast(schema)


def _source(relation: Relation) -> str:
    time = _time_sql(relation.stream) if relation.stream.event_time is not None else "NULL"
    return f"(SELECT *, {time} AS {_TIME} FROM {_quote('in ' + relation.stream.name)}) AS {_quote(relation.alias)}"


def _time_sql(stream: Stream) -> str:
    assert stream.event_time is not None
    column, kind = _quote(stream.event_time), stream.schema.field(stream.event_time).type
    if pa.types.is_timestamp(kind):
        return f"epoch_us({column})"
    if pa.types.is_date(kind):
        return f"CAST({column} - DATE '1970-01-01' AS BIGINT) * 86400000000"
    return f"CAST({column} AS BIGINT) * {_STEPS[stream.unit]}"


def _time_conditions(query: Query) -> list[str]:
    """Where there is a window or rows expire, a row of a stream with event times takes part only if it has one."""
    timed = [r for r in query.relations if r.stream.event_time is not None]
    matters = len(query.relations) > 1 and any(r.window is not None for r in timed)
    return [f"{_quote(r.alias)}.{_TIME} IS NOT NULL" for r in timed] if matters or expires(query) else []


def _window_conditions(query: Query) -> list[str]:
    timed = [r for r in query.relations if r.stream.event_time is not None]
    newest = f"greatest({', '.join(f'{_quote(r.alias)}.{_TIME}' for r in timed)})"
    windowed = [r for r in timed if r.window is not None]
    return [f"{newest} - {_quote(r.alias)}.{_TIME} < {r.window}" for r in windowed] if len(query.relations) > 1 else []


def _sql(expr: Expr, rename: Rename) -> str:
    return to_sql(transform(expr, rename), nan_is_null=True)


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if name != quote_name(name) or "#" in name or " " in name else name


_numbers = itertools.count()


class _Registry:
    """Python functions as DuckDB functions, one for every signature they are called with."""

    def __init__(self, duck: Any, functions: Functions) -> None:
        self.duck, self.functions = duck, functions
        self.known: dict[tuple[str, tuple[str, ...]], str] = {}

    def rename(self, expr: Expr) -> Expr:
        """A call of a Python function under the name DuckDB knows it by."""
        if not isinstance(expr, Udf):
            return expr
        kinds = [arg.type for arg in expr.args]
        key = (expr.name, tuple(map(str, kinds)))
        if key not in self.known:
            self.known[key] = f"{expr.name}_{next(_numbers)}"
            self._create(self.known[key], self.functions[expr.name], kinds, expr.type)
        return Udf(self.known[key], expr.args, expr.type)

    def clear(self) -> None:
        """Remove the functions from DuckDB."""
        for name in self.known.values():
            self.duck.remove_function(name)

    def _create(self, name: str, function: Callable[..., pa.Array], kinds: Sequence[pa.DataType], gives: Any) -> None:
        def call(*args: pa.ChunkedArray) -> pa.Array:
            arrays = [pa.concat_arrays(a.chunks) if a.num_chunks else pa.array([], a.type) for a in args]
            return function(*(array.cast(kind) for array, kind in zip(arrays, kinds, strict=True)))

        # DuckDB counts the parameters of the function it is given.
        parameters = [Parameter(f"a{i}", Parameter.POSITIONAL_ONLY) for i in range(len(kinds))]
        call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        self.duck.create_function(
            name, call, [sql_name(kind) for kind in kinds], sql_name(gives), type="arrow", null_handling="special"
        )
