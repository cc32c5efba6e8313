"""A bounded sample of a topic, for `Session.analyze`.

At most the wanted number of records is read, in stretches that are spread over all partitions and all of their offsets.
Every row of the stretches is in the sample, and the sample says which row is from which stretch, since neighbours are
often alike.  Records that cannot be read are left out: the run will say what is wrong with them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from weft.host.ingest import conform, event_times
from weft.host.sources.kafka.cluster import Topic
from weft.host.sources.kafka.positions import Stretch
from weft.query.model import TIME, Stream
from weft.stats.sample import Sample

if TYPE_CHECKING:
    from weft.host.sources.kafka.source import KafkaSource

PARTS = 8
"""A large topic is sampled in so many stretches, and at least one of each partition."""


def draw(source: KafkaSource, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample:
    """At most `most` rows of a topic, with their event times."""
    topic = Topic(source.connection, source.topic)
    partitions = topic.partitions()
    lows, ends = topic.earliest(partitions), topic.latest(partitions)
    total = sum(ends[p] - lows[p] for p in partitions)
    dice = np.random.default_rng([seed, zlib.crc32(stream.name.encode())])
    reader = replace(source, bad="skip", on_loss="continue").open(stream.name, "")
    found, parts = [], []
    for number, part in enumerate(_stretches(source.topic, lows, ends, most, total, dice)):
        rows = [conform(batch, stream, columns, "") for batch in reader.read(part, columns, stream.schema)]
        found += rows
        parts.append(np.full(sum(batch.num_rows for batch in rows), number, dtype=np.int64))
    schema = pa.schema([stream.schema.field(name) for name in columns]).remove_metadata()
    table = pa.Table.from_batches(found, pa.schema([(field.name, field.type) for field in schema])).combine_chunks()
    if stream.event_time is not None:
        times = [event_times(chunk, stream) for chunk in table.column(stream.event_time).chunks]
        table = table.append_column(TIME, pa.chunked_array(times, pa.int64()))
    if total <= most:
        return Sample(table, float(table.num_rows))
    return Sample(table, float(total), float(table.num_rows), np.concatenate(parts))


def _stretches(
    topic: str, lows: dict[int, int], ends: dict[int, int], most: int, total: int, dice: np.random.Generator
) -> list[Stretch]:
    """Stretches of records: all of a small topic, else some, in equal distances with a random shift."""
    found = []
    for partition, low in lows.items():
        waiting = ends[partition] - low
        if waiting <= 0:
            continue
        mine = waiting if total <= most else max(1, most * waiting // total)
        parts = 1 if total <= most else min(mine, max(1, round(PARTS * waiting / total)))
        room = waiting // parts
        for at in range(parts):
            count = min(room, mine // parts)
            first = low + at * room + int(dice.integers(0, room - count + 1))
            found.append(
                Stretch(
                    file=f"topic {topic}, partition {partition}", groups=(first,), bytes=0,
                    topic=topic, partition=partition, start=first, end=first + count,
                )
            )  # fmt: skip
    return found
