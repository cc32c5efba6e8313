"""A Spark session without extensions.

Spark looks for extensions of its SQL when a session is made, and finds one: functions of MLlib, which take a second to
be registered and are not needed here.  So the session is made by the constructor that Spark itself uses for further
sessions.  Where jars or extensions of the user are configured, or if the constructor is another one, Spark makes the
session as usual.

MLlib works in such a session, except for functions that Spark Connect calls by name.
"""

from __future__ import annotations

from pyspark import SparkContext
from pyspark.sql import SparkSession

CONFIGURED = ("spark.sql.extensions", "spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")
"""If one of these is set, there may be extensions that are wanted."""


def make_bare(context: SparkContext) -> SparkSession | None:
    """The first session of a context; None if it must be made as usual."""
    conf, known = context.getConf(), SparkSession._instantiatedSession  # PySpark tells it to nobody
    if known is not None and known.sparkContext._jsc is not None:
        return None  # there is one: a second one would have a catalog of its own
    if any(conf.get(name) for name in CONFIGURED):
        return None
    try:
        return SparkSession(context, _construct(context))
    except Exception:  # noqa: BLE001 - py4j wraps whatever the JVM says; Spark then says it in its own way
        return None


def _construct(context: SparkContext) -> object:
    jvm = context._jvm  # PySpark has no public access to its JVM
    nothing = getattr(getattr(jvm, "scala.None$"), "MODULE$")
    empty = getattr(getattr(jvm, "scala.collection.immutable.Map$"), "MODULE$").empty()
    extensions = getattr(jvm, "org.apache.spark.sql.SparkSessionExtensions")()
    session = getattr(jvm, "org.apache.spark.sql.classic.SparkSession")
    return session(context._jsc.sc(), nothing, nothing, extensions, empty, empty)
