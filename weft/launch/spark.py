"""The Spark session that Weft starts if it is given none."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from weft.errors import HostError
from weft.launch import ahead
from weft.launch.bare import make_bare
from weft.launch.classes import Archive
from weft.launch.ending import hide_broken_calls
from weft.launch.interpreter import worker_python
from weft.launch.java import ensure_java
from weft.launch.jvm import Starting, use_jvm
from weft.launch.plain import is_plain
from weft.launch.settings import NEEDED, ON_CLUSTERS, batch_settings, count_cores, quick_settings
from weft.launch.warm import warm

MASTER = "spark.master"


def tuned_session(
    settings: Mapping[str, object] | None = None,
    *,
    master: str | None = None,
    workers: int | None = None,
    **more: object,
) -> SparkSession:
    """The Spark session that Weft would start, with your own settings on top.

    Settings have Spark's names: `weft.spark({"spark.driver.memory": "8g"})`, or `weft.spark(spark_driver_memory="8g")`.
    `workers` is the number of cores of a local session; None is all of the machine.  With a `master` the session runs
    there, with the settings that Weft's batches need and none of those for a quick start on this machine.
    `"local[2,4]"` is a session on this machine, with two cores, where a task may fail four times.
    """
    named = {name.replace("_", "."): value for name, value in more.items()}
    mine = {name: _text(value) for name, value in {**(settings or {}), **named}.items()}
    ours = re.fullmatch(r"local\[(\d+|\*)(,\d+)?\]", master or "local[*]")
    if ours is None:
        ensure_java()
        return _start(str(master), {**NEEDED, **ON_CLUSTERS, **batch_settings(), **mine})
    if ours[2]:  # how often a task may fail: Spark reads it from here alone
        mine = {MASTER: str(master), **mine}
    return local_session(int(ours[1]) if ours[1] != "*" else workers or os.cpu_count() or 1, mine)


def local_session(workers: int, mine: Mapping[str, str] | None = None) -> SparkSession:
    """A local Spark session with one core per worker, up to the number of cores of the machine."""
    if not mine and (begun := ahead.take()) is not None:
        return begun
    cores, java, mine = count_cores(workers), ensure_java(), mine or {}
    if is_gone():  # it was killed: the program goes on with another one
        forget_jvm()
    return _start_plainly(cores, mine) if is_plain() else _start_with(Archive(java.home), cores, mine)


def _start_plainly(cores: int, mine: Mapping[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _start(f"local[{cores}]", {**NEEDED, **mine})


def _start_with(archive: Archive, cores: int, mine: Mapping[str, str]) -> SparkSession:
    """Start with the file of classes if it exists, and without it if that fails."""
    options = archive.options()
    try:
        spark = start_quickly(cores, options, mine=mine)
        archive.trust()
    except HostError:
        if not options:
            raise
        forget_jvm()
        spark = start_quickly(cores, "", mine=mine)
        archive.doubt()
    return spark


def start_quickly(
    cores: int, java_options: str, jvm: Starting | None = None, mine: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with everything that makes it start sooner; the file of classes comes with `java_options`.

    If the JVM has been started already, the session is made in it; then the JVM has the settings from its command line.
    `mine` are settings of the user, which win.
    """
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {} if jvm is not None else quick_settings(cores, java_options, mine or {})
    if jvm is not None:
        use_jvm(jvm)
    with _telling():
        context = SparkContext.getOrCreate(_configure(cores, settings))
    _hush(context)
    context.setLogLevel("OFF")
    warm(context, cores)  # beside what follows, which the JVM does alone
    return (None if mine and mine.keys() - {MASTER} else make_bare(context)) or _start(f"local[{cores}]", settings)


def _hush(context: SparkContext) -> None:
    """Let PySpark print no tracebacks if the JVM is gone: a run says that it is."""
    hide_broken_calls()
    server = context._accumulatorServer
    told = server.handle_error

    def handle(request: object, address: object) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            told(request, address)

    server.handle_error = handle


def forget_jvm() -> None:
    """Make PySpark drop a JVM that it could not use."""
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):  # most likely the JVM is gone
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None


def is_gone() -> bool:
    """Whether there was a JVM, and nobody answers there any more."""
    if SparkContext._active_spark_context is None or SparkContext._jvm is None:
        return False
    try:
        SparkContext._jvm.System.nanoTime()
    except Exception:  # noqa: BLE001 - py4j raises what the network does, or its own
        return True
    return False


def _text(value: object) -> str:
    """A setting as Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("weft").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _telling():
        return builder.getOrCreate()


def _configure(cores: int, settings: Mapping[str, str]) -> SparkConf:
    return SparkConf().setAppName("weft").setMaster(f"local[{cores}]").setAll(list(settings.items()))


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Say in our own words that Spark did not start."""
    try:
        yield
    except Exception as error:  # py4j wraps whatever the JVM says
        raise HostError("Spark did not start", detail=str(error).splitlines()[0], hint="run: weft doctor") from error
