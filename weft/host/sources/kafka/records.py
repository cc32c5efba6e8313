"""Records of a part become rows: columns of values and keys, and what Kafka says of each record.

Only the wanted columns are made.  A record without a value (a tombstone) is a row whose value columns are NULL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.host.parts import note
from weft.host.sources.kafka.fetching import Chunk
from weft.host.sources.kafka.positions import Stretch
from weft.host.sources.kafka.sifting import BAD, Policy, Sifted, keep_apart, refuse, sift
from weft.host.sources.kafka.values import Format, Plain

TEXT_KEY = "#key"
EXTRA: Mapping[str, pa.DataType] = {
    "#timestamp": pa.timestamp("us"),
    "#partition": pa.int32(),
    "#offset": pa.int64(),
    TEXT_KEY: pa.string(),
    "#headers": pa.string(),
    "#change": pa.string(),
}
"""Column -> its type: what Kafka says of a record.

`#headers` is JSON text; `#change` is upsert, or delete if the record has no value.
"""


@dataclass(frozen=True)
class Rows:
    """How records become rows."""

    value: Format
    key: Format | None
    key_columns: frozenset[str]
    """Columns that the key holds."""
    bad: Policy
    bad_folder: str

    def read(self, part: Stretch, chunks: Iterator[Chunk], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows of a part; bad records are raised, or left out, or written to a folder."""
        apart: list[pa.Table] = []
        for chunk in chunks:
            records = chunk.records
            rows, bad = self._rows(records, columns) if records else (pa.RecordBatch.from_pylist([], columns), {})
            if bad and self.bad == "fail":
                at, why = min(bad.items())
                raise refuse(part, records[at].offset(), why)
            if bad and self.bad == "sink":
                apart.append(_bad_rows(part, [(records[at], why) for at, why in sorted(bad.items())]))
            yield note(rows, str(part.partition), len(bad), chunk.lost)
        if apart:
            keep_apart(self.bad_folder, part, pa.concat_tables(apart))

    def _rows(self, records: Sequence[Any], columns: pa.Schema) -> tuple[pa.RecordBatch, dict[int, str]]:
        bad: dict[int, str] = {}
        good: Sequence[int] = range(len(records))
        made: dict[str, pa.Array] = {}
        own = [field for field in columns if field.name not in EXTRA]
        for form, wanted, read in (
            (Plain(), [field for field in columns if field.name == TEXT_KEY], _key),
            (self.key, [field for field in own if field.name in self.key_columns], _key),
            (self.value, [field for field in own if field.name not in self.key_columns], _value),
        ):
            if form is None or not wanted:
                continue
            found = _read(form, [read(records[at]) for at in good], pa.schema(wanted))
            bad |= {good[at]: why for at, why in found.bad.items()}
            if found.bad:
                kept = pa.array(found.good, pa.int64())
                made = {name: array.take(kept) for name, array in made.items()}
                good = [good[at] for at in found.good]
            made |= dict(zip(found.rows.schema.names, found.rows.columns, strict=True))
        chosen = records if len(good) == len(records) else [records[at] for at in good]
        made |= {field.name: _EXTRAS[field.name](chosen, field.type) for field in columns if field.name in _EXTRAS}
        return pa.RecordBatch.from_arrays([made[name] for name in columns.names], names=columns.names), bad


def _read(form: Format, values: Sequence[bytes | None], columns: pa.Schema) -> Sifted:
    """Read values of which some may be missing: those give rows of NULL."""
    if None not in values:
        return sift(form, values, columns)  # type: ignore[arg-type]
    there = [at for at, value in enumerate(values) if value is not None]
    found = sift(form, [value for value in values if value is not None], columns)
    place = {there[at]: row for row, at in enumerate(found.good)}
    bad = {there[at]: why for at, why in found.bad.items()}
    good = [at for at in range(len(values)) if at not in bad]
    rows = pa.array([place.get(at) for at in good], pa.int64())
    arrays = [pc.take(array, rows) for array in found.rows.columns]
    return Sifted(pa.RecordBatch.from_arrays(arrays, names=columns.names), good, bad)


def _key(record: Any) -> bytes | None:
    found: bytes | None = record.key()
    return found


def _value(record: Any) -> bytes | None:
    found: bytes | None = record.value()
    return found


def _headers(record: Any) -> str | None:
    """Headers as a JSON object; of several with one name the last counts."""
    found = record.headers()
    if not found:
        return None
    shown = {name: None if value is None else bytes(value).decode("utf-8", "replace") for name, value in found}
    return json.dumps(shown, ensure_ascii=False)


def _time(record: Any) -> int | None:
    kind, milliseconds = record.timestamp()
    return milliseconds * 1000 if kind else None  # kind 0: the record has no time


_EXTRAS: Mapping[str, Callable[[Sequence[Any], pa.DataType], pa.Array]] = {
    "#timestamp": lambda records, kind: pa.array(map(_time, records), pa.int64()).view(kind),
    "#partition": lambda records, kind: pa.array([record.partition() for record in records], kind),
    "#offset": lambda records, kind: pa.array([record.offset() for record in records], kind),
    "#headers": lambda records, kind: pa.array(map(_headers, records), kind),
    "#change": lambda records, kind: pa.array(
        ["delete" if record.value() is None else "upsert" for record in records], kind
    ),
}


def _bad_rows(part: Stretch, bad: Sequence[tuple[Any, str]]) -> pa.Table:
    found = [
        {
            "topic": part.topic, "partition": part.partition, "offset": record.offset(),
            "timestamp": record.timestamp()[1], "key": record.key(), "value": record.value(), "error": why,
        }
        for record, why in bad
    ]  # fmt: skip
    return pa.Table.from_pylist(found, schema=BAD)
