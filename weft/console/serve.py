"""A console in a thread of its own, and how to reach it.

What must hold: `import weft` and a session without a console load nothing of the web.  A console that cannot be started
says why, before the run begins.  It ends with the process, or when it is closed.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.console.controls import Controls
from weft.console.keys import Keys
from weft.console.picture import Picture
from weft.errors import HostError

if TYPE_CHECKING:
    import uvicorn

log = logging.getLogger("weft.console")

PORT = 4747
"""Where the console is if that port is free; else on any free one."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Console:
    """How a console is to be reached, and whether it may change the session."""

    bind: str = "127.0.0.1"
    """The address it answers on.  Others can reach any but a loopback address: then `/metrics` needs the token too."""
    port: int | None = None
    """None is 4747, or any free one if that is taken."""
    control: bool = False
    """Whether queries may be added and dropped, and the run stopped, from the page."""
    controls: Controls | None = None
    """What the page may change, instead of the usual; for demonstrations."""
    token: str | None = None
    """For programs; None is that of the environment variable WEFT_CONSOLE_TOKEN, or a new one."""


class Served:
    """A console that runs."""

    def __init__(self, root: Path, how: Console) -> None:
        _check_installed()
        import uvicorn

        from weft.console.app import Pages

        self._socket = _listen(how)
        self.host, self.port = how.bind, int(self._socket.getsockname()[1])
        self._keys = Keys(how.token)
        loopback = how.bind in LOOPBACK
        self._pages = Pages(
            Picture(root), self._keys, how.controls or Controls(), loopback=loopback, open_link=self.link
        )
        config = uvicorn.Config(
            self._pages.app(), log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="weft console", daemon=True)
        self._thread.start()
        _wait(self._server, self._thread)
        self.url = self.link()
        """Opens the console, once."""
        log.info("console on %s", self.address)

    @property
    def address(self) -> str:
        """Where it is; to be let in takes a link."""
        host = "localhost" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    @property
    def token(self) -> str:
        """For programs: `Authorization: Bearer ...`."""
        return self._keys.token

    @property
    def viewers(self) -> int:
        """How many pages are open."""
        return self._pages.feed.viewers

    def link(self) -> str:
        """A new address that opens the console once, in one browser."""
        return f"{self.address}?token={self._keys.mint()}"

    def close(self) -> None:
        """End the console."""
        self._pages.feed.close()
        self._server.should_exit = True
        self._thread.join(PATIENCE)
        self._socket.close()

    def __repr__(self) -> str:
        return f"<console on {self.address}>"

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def serve(root: Path, how: Console | None = None) -> Served:
    """Show a checkpoint."""
    return Served(root, how or Console())


def as_console(given: Any) -> Console | None:
    """What `console=` means; None is no console."""
    if given is None or given is False:
        return None
    if isinstance(given, Console):
        return given
    if given is True:
        return Console()
    raise HostError(
        f"console={given!r} is not understood",
        hint="use console=True, or console=weft.Console(port=8080, control=True).",
    )


def _check_installed() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise HostError(
            "the console is not installed", detail=f"{error}.", hint='install it: pip install "weft[console]".'
        ) from error


def _listen(how: Console) -> socket.socket:
    """A socket on the port, or on a free one if none was named."""
    family = socket.AF_INET6 if ":" in how.bind else socket.AF_INET
    error: OSError | None = None
    for port in [PORT, 0] if how.port is None else [how.port]:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((how.bind, port))
        except OSError as found:
            made.close()
            error = found
        else:
            return made
    raise HostError(
        f"the console cannot answer on {how.bind}, port {how.port or PORT}",
        detail=f"{error}.",
        hint="choose another port: --port, or weft.Console(port=...).",
    )


def _wait(server: uvicorn.Server, thread: threading.Thread) -> None:
    limit = time.monotonic() + PATIENCE
    while not server.started:
        if not thread.is_alive() or time.monotonic() > limit:
            raise HostError(
                "the console did not start", hint="look into the log of weft.console, or choose another port."
            )
        time.sleep(0.01)
