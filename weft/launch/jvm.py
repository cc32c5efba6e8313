"""Spark's JVM, started without PySpark, and handed to PySpark when it listens.

PySpark can use a JVM that is there already: its port and its secret stand in two environment variables, which are set
for that moment only.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.errors import HostError

_PAUSE = 0.005


class Starting:
    """A JVM that was started; it writes to a file where it listens."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="weft-jvm-"))
        self._told = self._folder / "told"
        told = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._told)}
        # It ends when its input does, and that is when this program ends.  Ctrl-C is for this program alone.
        self.process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, env={**environ, **told}, preexec_fn=_ignore_interrupts
        )

    def wait(self) -> tuple[int, str]:
        """Port and secret, when the JVM listens."""
        try:
            while not self._told.exists():
                if self.process.poll() is not None:
                    raise HostError("Spark's JVM has ended at once", hint="run: weft doctor")
                time.sleep(_PAUSE)
            return _read(self._told.read_bytes())
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def end(self) -> None:
        """End it."""
        self.process.kill()
        self.process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _read(told: bytes) -> tuple[int, str]:
    """Port and secret as Spark's gateway writes them: two numbers of four bytes, and as many bytes as the second."""
    port, size = struct.unpack(">ii", told[:8])
    return port, told[8 : 8 + size].decode()


def use_jvm(starting: Starting) -> None:
    """Let PySpark use a JVM that was started without it."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    port, secret = starting.wait()
    names = {"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}
    os.environ.update(names)
    try:
        gateway = launch_gateway()
    finally:
        for name in names:
            os.environ.pop(name, None)
    gateway.proc = starting.process
    SparkContext._gateway, SparkContext._jvm = gateway, gateway.jvm
