"""All kinds of sinks.  A new one is a module that defines it, and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from weft.host.results.foreach import ForeachSink
from weft.host.results.kafka import KafkaSink, KafkaView
from weft.host.results.memory import MemorySink
from weft.host.results.parquet import ParquetSink
from weft.host.results.partitioned import PartitionedFolder
from weft.host.results.sink import Sink
from weft.host.results.table import TableSink
from weft.host.results.views import MemoryView, folder_of_view

SINKS: Mapping[str, Callable[..., Sink]] = {
    "parquet": ParquetSink,
    "memory": MemorySink,
    "foreach": ForeachSink,
    "kafka": KafkaSink,
    "partitioned": PartitionedFolder,
    "table": TableSink,
}
"""Kind -> maker of such a sink, from the name of a query, the schema of its results, and the user's arguments."""

VIEW_SINKS: Mapping[str, Callable[..., Sink]] = {
    "parquet": folder_of_view,
    "memory": MemoryView,
    "foreach": ForeachSink,
    "kafka": KafkaView,
}
"""The same for views, from the shape of their changes instead of a schema."""
