"""Spark is started before it is needed: while the program still loads its modules, reads its job and plans it.

    begin    the JVM is started at once, by a noted command; the session is made in a thread
    take     waits for the session; None if none was begun, or if it failed: then Spark is started as usual
    drop     ends what was begun and not taken

What must hold: a session is taken at most once, and what fails here fails silently.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import HostError
from weft.launch import daemon
from weft.launch.classes import Archive
from weft.launch.command import note_command, read_command
from weft.launch.ending import is_up
from weft.launch.jvm import Starting
from weft.launch.plain import is_plain
from weft.launch.settings import count_cores
from weft.launch.spare import SPARE, Spare, is_possible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SWITCH = 0.0003
"""Seconds after which a thread lets another one run, while Spark starts beside the rest of the program."""
_PATIENCE = 5.0
"""Seconds to wait for a thread whose JVM is gone."""


class _Begun:
    """A session that is being made."""

    def __init__(self, jvm: Starting, cores: int, options: str) -> None:
        self.jvm, self._cores, self._options = jvm, cores, options
        self._made: SparkSession | None = None
        self._thread = threading.Thread(target=self._make, name="weft-ahead", daemon=True)
        self._thread.start()

    def _make(self) -> None:
        from weft.launch.spark import forget_jvm, start_quickly

        pause = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH)  # PySpark asks the JVM a hundred small things, and would wait at each
        try:
            self._made = start_quickly(self._cores, self._options, self.jvm)
        except Exception:  # noqa: BLE001 - whatever it is, Spark is started as usual, and says it then
            self.jvm.end()
            forget_jvm()
        finally:
            sys.setswitchinterval(pause)

    def wait(self) -> SparkSession | None:
        self._thread.join()
        return self._made

    def give_up(self) -> None:
        """End the JVM, unless the session is there already: then it ends with the program, as any other."""
        if self._made is None:
            self.jvm.end()
            self._thread.join(_PATIENCE)


_begun: _Begun | None = None


def begin() -> None:
    """Start Spark for all cores of this machine."""
    global _begun
    if _begun is not None or is_plain() or is_up():
        return
    cores = count_cores(os.cpu_count() or 1)
    try:
        noted = read_command(cores) or note_command(cores)
        if noted is not None:
            os.environ["JAVA_HOME"] = noted.java_home
            options, environ = Archive(Path(noted.java_home)).options(), {**os.environ, **noted.environ}
            spare = Spare() if is_possible() else None
            jvm = Starting(noted.with_options(options), {**environ, SPARE: spare.address} if spare else environ)
            if spare is not None:
                with contextlib.suppress(Exception):  # then the daemon loads modules itself
                    spare.fork(daemon.load, daemon.run)
            _begun = _Begun(jvm, cores, options)
    except (HostError, OSError):
        return


def take() -> SparkSession | None:
    """The session that was begun."""
    global _begun
    begun, _begun = _begun, None
    return None if begun is None else begun.wait()


def drop() -> None:
    """End what was begun, if nobody has taken it."""
    global _begun
    begun, _begun = _begun, None
    if begun is not None:
        begun.give_up()
