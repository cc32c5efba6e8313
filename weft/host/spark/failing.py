"""What went wrong in a batch, for people: Weft's own error if there was one, else what Spark says without its noise."""

from __future__ import annotations

import itertools
import re
import traceback

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from weft.errors import HostError, QueryError, WeftError, first_line, from_wire
from weft.host.spark.lost import explain_lost
from weft.host.spark.missing import explain_missing


def cause_of(error: BaseException, number: int) -> WeftError:
    """The reason why a batch failed."""
    told = error if isinstance(error, WeftError) else from_wire(str(error))
    if told is not None:
        return told
    lost = explain_lost(error)
    if lost is not None:
        return lost.restate(detail=f"in batch {number}, {lost.detail}", hint=lost.hint)
    return explain_missing(str(error)) or HostError(
        f"batch {number} failed: {type(error).__name__}: {first_line(error)}",
        detail=quote_spark(error) if is_of_spark(error) else traceback.format_exc(limit=-3).rstrip(),
        hint="the batch will be run again by the next run on this checkpoint.",
    )


def is_of_spark(error: BaseException) -> bool:
    """Whether Spark has raised an error."""
    return isinstance(error, PySparkException | Py4JError)


def in_batch(error: WeftError, number: int) -> WeftError:
    """An error of a query on a worker, with the batch that it happened in."""
    if not isinstance(error, QueryError):
        return error
    detail = f"in batch {number}, {error.detail}" if error.detail else f"in batch {number}."
    return error.restate(detail=detail, hint=error.hint)


def quote_spark(error: BaseException) -> str:
    """Spark's message, without its plans and stack traces."""
    said = [
        line
        for line in itertools.takewhile(lambda line: not _NOISE.match(line), str(error).splitlines())
        if line.strip()
    ]
    return "\n".join(said if len(said) <= 6 else [*said[:2], "...", *said[-3:]])


_NOISE = re.compile(r"\s+at [\w$.]+|=== Streaming Query ===|JVM stacktrace")
