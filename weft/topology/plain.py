"""A topology as plain data, so that a checkpoint can say which plan made its state.

Records become {"is": class, field: value, ...}, tuples become lists, types and schemas travel in Arrow's own form.
What must hold: reading gives back an equal topology.  Functions of the user are stored by name only.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from weft.expr import model as expr
from weft.query import grouping
from weft.query.changes import Changes
from weft.query.model import Output, Stream
from weft.topology import clock, matching, model, node, spread, store

_RECORDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        expr.Column, expr.Literal, expr.Call, expr.Udf, Output, Stream, Changes, spread.Heavy, spread.Axis, spread.Cube,
        spread.Regions, clock.Clock, store.Key, store.Store, node.Bound, node.Probe, node.Keep, node.Emit,
        model.Start, model.Edge, model.Topology, model.Epoch, node.Measure, node.Groups,
        matching.Matching, matching.Dimension, matching.End, matching.Sieve,
        grouping.Grouping, grouping.Aggregate, grouping.TimeWindow, grouping.Closing, grouping.Ranking, grouping.Sorted,
        grouping.Versions,
    )
}  # fmt: skip
_VALUES: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "bytes": (bytes, lambda v: base64.b64encode(v).decode(), base64.b64decode),
    "decimal": (Decimal, str, Decimal),
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "micros": (dt.timedelta, lambda v: v // dt.timedelta(microseconds=1), lambda v: dt.timedelta(microseconds=v)),
    "schema": (pa.Schema, lambda v: _pack(v), lambda v: _unpack(v)),
    "type": (pa.DataType, lambda v: _pack(pa.schema([("", v)])), lambda v: _unpack(v).field(0).type),
}
"""Name -> a kind of value, how it is written, and how it is read; the first that fits is used."""


def to_plain(value: Any) -> Any:
    """The value as JSON has it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return [to_plain(part) for part in value]
    if is_dataclass(value):
        stored = {f.name: to_plain(getattr(value, f.name)) for f in fields(value) if f.compare}
        return {"is": type(value).__name__, **stored}
    name = next(name for name, (kind, _, _) in _VALUES.items() if isinstance(value, kind))
    return {"is": name, "value": _VALUES[name][1](value)}


def from_plain(plain: Any) -> Any:
    """The value behind what :func:`to_plain` gave."""
    if isinstance(plain, list):
        return tuple(from_plain(part) for part in plain)
    if not isinstance(plain, dict):
        return plain
    rest = dict(plain)
    kind = rest.pop("is")
    if kind in _VALUES:
        return _VALUES[kind][2](rest["value"])
    return _RECORDS[kind](**{name: from_plain(value) for name, value in rest.items()})


def _pack(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def _unpack(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
