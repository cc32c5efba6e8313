"""`DataFrame.mapInArrow` for frames whose columns are known, with few calls to the JVM.

PySpark asks the JVM for the schema and for each column of a frame, for the session and for settings, again for each
wave of each batch: some fifty calls.  The names of the columns are known here, and what does not change is kept.

What must hold: the frame is the one that `mapInArrow` makes.  The classes used are not part of Spark's public face:
where one is missing or takes other arguments, `mapInArrow` is called.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.classic.column import _to_seq
from pyspark.sql.udf import _wrap_function
from pyspark.util import PythonEvalType

from weft.host.spark.reader import SCHEMA

ENVELOPES = tuple(SCHEMA.names)
NUMBERS = ("id",)
"""The column of `spark.range`."""


def mapped(frame: DataFrame, task: Any, columns: Sequence[str]) -> DataFrame:
    """The envelopes that a task makes of each partition of a frame that has these columns."""
    session = frame.sparkSession
    context = session.sparkContext
    try:
        made, kind, asked = _known(context, tuple(columns))
        function = _wrap_function(context, task, SCHEMA)
        called = made(type(task).__name__, function, kind, PythonEvalType.SQL_MAP_ARROW_ITER_UDF, True, [], [])
        return DataFrame(frame._jdf.mapInArrow(called.apply(asked), False, None), session)
    except (Py4JError, TypeError, AttributeError):
        return frame.mapInArrow(task, SCHEMA)


@functools.lru_cache(maxsize=4)
def _known(context: SparkContext, columns: tuple[str, ...]) -> tuple[Any, Any, Any]:
    """The class of functions, the type of an envelope, and columns by their names."""
    jvm: Any = context._jvm  # PySpark has no public access to its JVM
    column = getattr(jvm, "org.apache.spark.sql.functions").col
    return (
        getattr(jvm, "org.apache.spark.sql.execution.python.UserDefinedPythonFunction"),
        jvm.org.apache.spark.sql.types.DataType.fromJson(SCHEMA.json()),
        _to_seq(context, [column(name) for name in columns]),
    )
