"""Wave 0: rows of a stream become envelopes.

Rows are cast to the declared types and stamped with their event time.  Then, once per edge, they are selected, cut
to the needed columns and routed.  The newest event time is taken over all rows, also those that no selection
passes: the clock of a stream does not depend on the queries.  A row below a watermark is late for the queries of that
clock, and so is a row without event time, which cannot be in any window.  An edge drops rows that are late for all its
users and marks those that are late for some (`weft.host.marks`).  A row counts as late once, if it is so for any query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import SourceError
from weft.expr.evaluate import Functions, filter_mask
from weft.expr.model import Expr, columns
from weft.expr.types import TIMESTAMP_UTC, normalize
from weft.host.batch import Report, Watermarks
from weft.host.envelope import REPORT, Envelope, Frame, slices
from weft.host.hidden import cut
from weft.host.marks import drop_late, mark_late
from weft.host.ops import read_changes, source_columns
from weft.host.parts import left_out, lost, order_of, place_of
from weft.host.routing import TOGETHER, along
from weft.host.upserts import read_upserts
from weft.host.watch import Watcher
from weft.host.weights import attach_weights, product, weight_of
from weft.observe.counters import bump
from weft.observe.units import SIZES as MICROSECONDS
from weft.observe.watermark import as_time, say_time
from weft.query.model import BATCH, NOW, TIME, Stream
from weft.stats.drawn import Drawing
from weft.topology.clock import NEVER_LATE
from weft.topology.model import Edge, Topology

DAY = 86_400_000_000
FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The years 1 to 9999, in microseconds since 1970."""


@dataclass(frozen=True)
class Ingest:
    """Everything wave 0 needs to know about one stream."""

    stream: Stream
    edges: tuple[Edge, ...]
    workers: int
    functions: Functions

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read from the source."""
        return source_columns(self.stream, self.wanted)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Columns of the stream that are needed; at least one, so that rows can be counted."""
        reads = _names(expr for edge in self.edges for expr in edge.filter).union(*map(_read_after, self.edges))
        if self.stream.event_time is not None:
            reads.add(self.stream.event_time)
        if self.stream.weight is not None:
            reads.add(self.stream.weight)
        wanted = tuple(name for name in self.stream.schema.names if name in reads)
        return wanted or (self.stream.schema.names[0],)

    def run(
        self,
        batches: Iterable[tuple[str, pa.RecordBatch]],
        task: int,
        watermarks: Watermarks,
        number: int = 0,
        now: int = 0,
        sample: int = 0,
    ) -> Iterator[Envelope]:
        """Envelopes of all rows of one task in micro-batch `number`, which began at `now`, then one report.

        Batches come with their place, for errors.  With `sample`, so many rows are drawn for statistics.
        """
        report, watcher = Report(), Watcher(partners=sample > 0)
        drawing = Drawing(0 if self.stream.table else sample, task)
        began = time.perf_counter()
        seq = task << 32
        came = task << 40  # rows of one task, in their order
        row = task  # spreads the first rows of different tasks over the workers
        for where, raw in batches:
            first = order_of(raw, came)
            came = first + raw.num_rows
            frame = self._date(self._read(raw, where, first), now)
            frame = self._stamp(frame, place_of(self.stream.name, raw), report, number)
            bump(report.rows_in, self.stream.name, raw.num_rows)
            self._count_left_out(raw, report)
            self._count_refused(frame, watermarks, report)
            drawing.see(frame)
            for edge, dest, piece in self._route(frame, row, watermarks, report, watcher):
                yield Envelope(dest, seq, edge.id, piece)
                seq += 1
            row += raw.num_rows
        report.sketches.update(watcher.plain())
        report.least.update(watcher.least())
        if drawn := drawing.plain():
            report.samples[self.stream.name] = drawn
        report.seconds["0"] = time.perf_counter() - began
        yield Envelope(task % self.workers, seq, REPORT, report=report.plain())

    def _read(self, raw: pa.RecordBatch, where: str, first: int) -> Frame:
        """The rows in the declared types; those of a stream that changes with their weights."""
        frame = conform(raw, self.stream, self.columns, where)
        if self.stream.changes is not None and self.stream.changes.is_log:
            return read_upserts(frame, self.stream, self.wanted, where, first)
        return read_changes(frame, self.stream, self.wanted, where)

    def _count_left_out(self, raw: pa.RecordBatch, report: Report) -> None:
        if count := left_out(raw):
            bump(report.unreadable, self.stream.name, count)
        if count := lost(raw):
            bump(report.lost, self.stream.name, count)

    def hand_on(
        self, rows: Frame, row: int, report: Report, number: int, now: int = 0
    ) -> Iterator[tuple[Edge, int, Frame]]:
        """Results of a query as rows of this derived stream, for its edges; `row` is how many there were before.

        They are never late: whatever they are made of was in time.
        """
        weights = weight_of(rows)
        frame = self._date(self._weigh(rows.select(self.stream.schema.names), weights), now)
        frame = self._number(frame, number)
        yield from self._route(frame, row, {}, report, Watcher())

    def _date(self, frame: Frame, now: int) -> Frame:
        """The frame with the time of the batch, if anyone asks for it."""
        if not any(map(is_dated, self.edges)):
            return frame
        return frame.append_column(NOW, pa.repeat(pa.scalar(now, TIMESTAMP_UTC), frame.num_rows))

    def _stamp(self, frame: Frame, place: str, report: Report, number: int) -> Frame:
        frame = self._number(self._weigh(frame), number)
        if self.stream.event_time is None or frame.num_rows == 0:
            return frame
        time = event_times(frame.column(self.stream.event_time), self.stream)
        newest = pc.max(time).as_py()
        if newest is not None:
            report.newest[place] = max(newest, report.newest.get(place, newest))
        return frame.append_column(TIME, time)

    def _number(self, frame: Frame, number: int) -> Frame:
        """The frame with the number of the batch in which its rows come, if somebody asks for it."""
        if all(BATCH not in edge.columns for edge in self.edges):
            return frame
        return frame.append_column(BATCH, pa.repeat(pa.scalar(number, pa.int64()), frame.num_rows))

    def _weigh(self, frame: Frame, known: pa.Array | None = None) -> Frame:
        """The frame with its weights, if it has any, without the rows of weight 0; each row may count several times."""
        if self.stream.weight is None:
            return attach_weights(frame, known)
        weights = pc.cast(frame.column(self.stream.weight), pa.int64())
        if weights.null_count:
            raise SourceError(
                f'weight "{self.stream.weight}" of stream "{self.stream.name}" is NULL in {weights.null_count} rows',
                detail="a weight says how often a row counts.",
                hint="nothing of this batch was joined; repair the input and run again.",
            )
        weights = weights if known is None else product(weights, known)
        return attach_weights(frame, weights).filter(pc.not_equal(weights, 0))

    def _count_refused(self, frame: Frame, watermarks: Watermarks, report: Report) -> None:
        clocks = {clock for edge in self.edges for clock in edge.clocks} - {NEVER_LATE}
        if frame.num_rows == 0 or not clocks:
            return
        if missing := frame.column(TIME).null_count:
            bump(report.untimed, self.stream.name, missing)
        marks = [mark for clock in clocks if (mark := watermarks.get(clock)) is not None]
        if marks and (late := pc.sum(pc.less(frame.column(TIME), max(marks))).as_py()):
            bump(report.late, self.stream.name, late)

    def _route(
        self, frame: Frame, row: int, watermarks: Watermarks, report: Report, watcher: Watcher
    ) -> Iterator[tuple[Edge, int, Frame]]:
        if frame.num_rows == 0:
            return
        selected: dict[tuple[tuple[Expr, ...], tuple[str, ...]], Frame] = {}
        for edge in self.edges:
            kind = (edge.filter, edge.clocks)
            if kind not in selected:
                selected[kind] = self._select(frame, edge, watermarks)
            rows = selected[kind]
            if rows.num_rows == 0:
                continue
            bump(report.routed, edge.id, rows.num_rows)
            watcher.see(edge, rows, self.functions)
            for dest, part in along(edge, rows, self.functions, TOGETHER if self.stream.is_looked_up else row):
                for piece in slices(cut(part, edge.columns)):
                    bump(report.sent, edge.id, piece.num_rows)
                    bump(report.messages, edge.id, 1)
                    yield edge, dest, piece

    def _select(self, frame: Frame, edge: Edge, watermarks: Watermarks) -> Frame:
        """The rows that pass the selections of an edge, for it and for all edges that have the same."""
        frame = drop_late(frame, edge.clocks, watermarks)
        if edge.filter:
            mask = filter_mask(edge.filter, frame, self.functions)
            frame = frame.select(self._left(frame.schema.names, edge.filter)).filter(mask)
        return mark_late(frame, edge.clocks, watermarks)

    def _left(self, names: Sequence[str], passed: Sequence[Expr]) -> list[str]:
        """The columns that are still read of rows which have passed selections; at least one, to count them."""
        reads = set[str]().union(*(_read_after(edge) for edge in self.edges if edge.filter == passed))
        return [name for name in names if name in reads or name.startswith("#")] or [names[0]]


def _read_after(edge: Edge) -> set[str]:
    """The columns of its stream that an edge reads after its selections."""
    watched = [expr for _, key, chosen in edge.watch for expr in (key, *chosen)]
    placed = edge.spread.keys if edge.spread is not None else ()
    return {*edge.columns} | _names((*edge.route_key, *placed, *watched))


def _names(exprs: Iterable[Expr]) -> set[str]:
    return {column.name for expr in exprs for column in columns(expr)}


def is_dated(edge: Edge) -> bool:
    """Whether an edge asks for the time of the batch."""
    exprs = (*edge.filter, *edge.route_key)
    return NOW in edge.columns or any(column.name == NOW for expr in exprs for column in columns(expr))


def ingests(topology: Topology, functions: Functions) -> dict[str, Ingest]:
    """Wave 0 of every stream of a topology, by the name of the stream."""
    return _ingests(topology, topology.streams, functions)


def derived_ingests(topology: Topology, functions: Functions) -> dict[str, Ingest]:
    """How rows of derived streams reach their edges, by the name of the stream."""
    return _ingests(topology, topology.derived, functions)


def _ingests(topology: Topology, streams: Iterable[Stream], functions: Functions) -> dict[str, Ingest]:
    return {
        stream.name: Ingest(
            stream, tuple(e for e in topology.edges if e.stream == stream.name), topology.workers, functions
        )
        for stream in streams
    }


def event_times(column: pa.Array, stream: Stream) -> pa.Array:
    """A column of event times in microseconds."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64())
    if pa.types.is_date32(kind):
        return pc.multiply(pc.cast(column.view(pa.int32()), pa.int64()), DAY)
    return _scale(pc.cast(column, pa.int64()), stream)


def _scale(column: pa.Array, stream: Stream) -> pa.Array:
    """Whole numbers as microseconds.  A number that is no time of the calendar in the unit of the stream is refused."""
    found, size = pc.min_max(column), MICROSECONDS[stream.unit]
    for value in (found["max"].as_py(), found["min"].as_py()):
        if value is not None and not FIRST <= value * size <= LAST:
            raise SourceError(
                f'event time "{stream.event_time}" of stream "{stream.name}" is out of range: {value}',
                detail=f'read with unit="{stream.unit}" it is a time {_say_age(value * size)}.',
                hint=f"{_fitting(value)}; nothing of this batch was joined.",
            )
    return pc.multiply(column, size)


def _say_age(microseconds: int) -> str:
    years = round(abs(microseconds) / (365.2425 * DAY))
    return f"{years:,} years {'after' if microseconds > 0 else 'before'} 1970"


def _fitting(value: int) -> str:
    """What would make a time of a number, for people."""
    for unit, size in MICROSECONDS.items():
        if FIRST <= value * size <= LAST:
            return f'declare unit="{unit}": then it is {say_time(as_time(value * size))}'
    if FIRST <= value // 1000 <= LAST:
        return f'if it counts nanoseconds, divide it by 1000: with unit="us" it is {say_time(as_time(value // 1000))}'
    return "it is a time in none of the units; repair the input"


def event_values(times: pa.Array, stream: Stream) -> pa.Array:
    """The column of event times as the stream has it, from times in microseconds."""
    assert stream.event_time is not None
    kind = stream.schema.field(stream.event_time).type
    if pa.types.is_timestamp(kind):
        return times.view(kind)
    if pa.types.is_date32(kind):
        return pc.cast(pc.divide(times, DAY), pa.int32()).view(kind)
    return pc.cast(pc.divide(times, MICROSECONDS[stream.unit]), kind)


def conform(raw: pa.RecordBatch, stream: Stream, wanted: Sequence[str], where: str) -> Frame:
    """The wanted columns in their declared types, or an error that names the column and the place."""
    arrays = []
    for name in wanted:
        declared = stream.source.field(name).type
        if name not in raw.schema.names:
            raise SourceError(
                f'column "{name}" of stream "{stream.name}" is missing{where}',
                detail=f"columns found: {', '.join(raw.schema.names)}.",
                hint="nothing of this batch was joined; repair the input and run again.",
            )
        arrays.append(_cast(raw.column(name), declared, name, stream, where))
    return pa.RecordBatch.from_arrays(arrays, names=list(wanted))


def _cast(column: pa.Array, declared: pa.DataType, name: str, stream: Stream, where: str) -> pa.Array:
    if column.type == declared:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), declared)
    try:
        if normalize(column.type) != declared and not _widens(column.type, declared):
            raise pa.ArrowInvalid(f"it is {column.type}, declared is {declared}")
        return pc.cast(column, declared)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        same = normalize(column.type) == declared
        what = f"has a value that does not fit {declared}" if same else "has another type than declared"
        raise SourceError(
            f'column "{name}" of stream "{stream.name}" {what}{where}',
            detail=f"{str(error).splitlines()[0].rstrip('.')}.",
            hint="nothing of this batch was joined; cast the column where it is written, and run again.",
        ) from error


def _widens(found: pa.DataType, declared: pa.DataType) -> bool:
    """Whether every value found fits the declared type, or a checked cast finds the one that does not."""
    if pa.types.is_struct(found) and pa.types.is_struct(declared):
        pairs = zip(found, declared, strict=False)
        alike = [field.name for field in found] == [field.name for field in declared]
        return alike and all(one.type == other.type or _widens(one.type, other.type) for one, other in pairs)
    whole = pa.types.is_integer(found) and (pa.types.is_integer(declared) or pa.types.is_floating(declared))
    real = pa.types.is_floating(found) and pa.types.is_floating(declared) and found.bit_width <= declared.bit_width
    exact = pa.types.is_decimal(found) and pa.types.is_decimal(declared)
    empty = pa.types.is_null(found)
    return whole or real or exact or empty
