"""A process that has loaded what Python workers need, because the program had: a fork of it, made before Spark asks.

Spark starts its Python daemon when there is a context, and the daemon loads what the program has loaded already: more
than a second of a core, while the first batch waits.  So the program loads these modules first and forks once; the fork
waits at a socket.  The daemon that Spark starts (`weft.launch.daemon`) finds the socket, gives its own input, output
and environment to the fork, and lives as long as the fork does.

What must hold: the fork is made while the program has one thread.  It holds no file of the program, so that it neither
keeps a pipe open nor the JVM alive.  It ends when the program ends without having used it; later it ends as Spark's
daemon does, when its input is closed.  Where anything of this is missing or fails, the daemon loads modules as usual.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

SPARE = "WEFT_SPARE"
"""Environment variable of the JVM: where the fork waits."""
_MOST = 1 << 20
"""Bytes of an environment, at most."""


class Spare:
    """The place where a fork of this program waits."""

    def __init__(self) -> None:
        self.address = os.path.join(tempfile.mkdtemp(prefix="weft-spare-"), "socket")

    def fork(self, load: Callable[[], None], run: Callable[[], None]) -> None:
        """Load modules and fork; the fork calls `run` when it is Spark's daemon."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as place:
            place.bind(self.address)
            place.listen(1)
            load()
            alive, self.held = os.pipe()  # this end is closed when the program ends, however it ends
            if os.fork() == 0:
                _wait(place, alive, run)
            os.close(alive)


def is_possible() -> bool:
    """Whether this program may fork: it has one thread, and the system can tell when another process ends."""
    return hasattr(os, "pidfd_open") and threading.active_count() == 1


# ------------------------------------------------------------------------------------------------ the fork


def _wait(place: socket.socket, alive: int, run: Callable[[], None]) -> None:
    """Wait for Spark's daemon, and become it.  Never returns."""
    code, folder = 1, os.path.dirname(place.getsockname())
    try:
        os.setpgid(0, 0)  # Ctrl-C is for the program
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        _close_all_but(place.fileno(), alive)
        ready, _, _ = select.select([place.fileno(), alive], [], [])
        if alive not in ready:
            _become(place)
            os.close(alive)
        shutil.rmtree(folder, ignore_errors=True)
        if alive not in ready:
            run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        os._exit(code)


def _close_all_but(*kept: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):  # the folder that was listed is closed by now
                os.close(number)


def _become(place: socket.socket) -> None:
    """Take over what Spark gave to its daemon."""
    caller, _ = place.accept()
    with caller:
        text, files, _, _ = socket.recv_fds(caller, _MOST, 3)
        while not text.endswith(b"\n"):
            more = caller.recv(_MOST)
            if not more:
                raise SystemExit(1)  # the daemon has died
            text += more
        given: dict[str, Any] = json.loads(text)
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        caller.sendall(str(os.getpid()).encode())
    place.close()
    os.environ.clear()
    os.environ.update(given["environ"])
    sys.argv[:], sys.path[:] = given["argv"], given["path"]
    os.chdir(given["folder"])


# ---------------------------------------------------------------------------------------------- the daemon


def hand_over() -> bool:
    """Give input, output and environment of this process to the fork, and wait for its end; False if there is none."""
    address = os.environ.pop(SPARE, None)
    if address is None or sys.argv[1:2] != ["pyspark.worker"]:
        return False
    given = {"environ": dict(os.environ), "argv": sys.argv, "path": sys.path, "folder": os.getcwd()}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect(address)
            text = json.dumps(given).encode() + b"\n"
            sent = socket.send_fds(caller, [text], [0, 1, 2])
            caller.sendall(text[sent:])
            other = os.pidfd_open(int(caller.recv(32)))
        except (OSError, ValueError):
            return False
    for number in (0, 1):
        os.close(number)
    signal.signal(signal.SIGTERM, lambda *_: signal.pidfd_send_signal(other, signal.SIGTERM))
    select.select([other], [], [])
    return True
