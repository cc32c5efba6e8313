"""How a program ends that is interrupted.

Python ends with another exit code than asked for if the interrupt came inside certain imports, so the program leaves by
itself.  A JVM that is being started waits for us, and PySpark does not know of it yet: it would stay for ever, so it is
ended.  Where Spark is up, what was registered for the end of the program ends it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn


def hide_broken_calls() -> None:
    """Keep PySpark's bridge to Java from logging tracebacks of an interrupt, or of a JVM that is gone.

    Its errors are raised as well as logged.
    """
    logging.getLogger().addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not str(record.msg).endswith("while sending command.")


def leave(code: int) -> NoReturn:
    """End the program after an interrupt."""
    if is_up():
        atexit._run_exitfuncs()
    else:
        end_starting_jvm()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def end_starting_jvm() -> None:
    """End the JVMs that this process was starting."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):  # a process may be gone, and other systems have no /proc
            parent = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"pyspark-shell" in (place / "cmdline").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def is_up() -> bool:
    """Whether PySpark knows its JVM."""
    pyspark = sys.modules.get("pyspark")
    return getattr(getattr(pyspark, "SparkContext", None), "_gateway", None) is not None
