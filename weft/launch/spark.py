"""The Spark session that Weft starts if it is given none."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from weft.errors import HostError
from weft.launch import ahead
from weft.launch.bare import make_bare
from weft.launch.classes import Archive
from weft.launch.interpreter import worker_python
from weft.launch.java import ensure_java
from weft.launch.jvm import Starting, use_jvm
from weft.launch.plain import is_plain
from weft.launch.settings import NEEDED, count_cores, quick_settings
from weft.launch.warm import warm


def local_session(workers: int) -> SparkSession:
    """A local Spark session with one core per worker, up to the number of cores of the machine."""
    if (begun := ahead.take()) is not None:
        return begun
    cores = count_cores(workers)
    java = ensure_java()
    return _start_plainly(cores) if is_plain() else _start_with(Archive(java.home), cores)


def _start_plainly(cores: int) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _start(cores, NEEDED)


def _start_with(archive: Archive, cores: int) -> SparkSession:
    """Start with the file of classes if it exists, and without it if that fails."""
    options = archive.options()
    try:
        spark = start_quickly(cores, options)
        archive.trust()
    except HostError:
        if not options:
            raise
        forget_jvm()
        spark = start_quickly(cores, "")
        archive.doubt()
    return spark


def start_quickly(cores: int, java_options: str, jvm: Starting | None = None) -> SparkSession:
    """A session with everything that makes it start sooner; the file of classes comes with `java_options`.

    If the JVM has been started already, the session is made in it; then the JVM has the settings from its command line.
    """
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {} if jvm is not None else quick_settings(cores, java_options)
    if jvm is not None:
        use_jvm(jvm)
    with _telling():
        context = SparkContext.getOrCreate(_configure(cores, settings))
    context.setLogLevel("OFF")
    warm(context, cores)  # beside what follows, which the JVM does alone
    return make_bare(context) or _start(cores, settings)


def forget_jvm() -> None:
    """Make PySpark drop a JVM that it could not use."""
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):  # most likely the JVM is gone
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def _start(cores: int, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("weft").master(f"local[{cores}]")
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
