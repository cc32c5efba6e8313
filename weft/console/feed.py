"""Tells all viewers what is new: one look at the history for all of them, and none while nobody looks.

A viewer listens first and asks for the whole state then; every message has the lines that were added since the one
before, some of which may be in the state too.  A message is one server
sent event.  A viewer that is too slow is told to ask for the whole state again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from weft.console.picture import Picture
from weft.observe.history import Tail, history_file

PAUSE = 0.5
"""Seconds between two looks: viewers see at most two messages a second, however fast batches are."""
HEARTBEAT = 10.0
"""Seconds of silence after which a message is sent all the same: it shows that the console is there."""
WAITING = 50
"""Messages that may wait for a viewer."""
RELOAD = b"event: reload\ndata: {}\n\n"


class Feed:
    """New lines of a history, for any number of viewers."""

    def __init__(self, picture: Picture) -> None:
        self._picture, self._tail = picture, Tail(history_file(picture.root))
        self._viewers: set[asyncio.Queue[bytes | None]] = set()
        self._task: asyncio.Task[None] | None = None
        self.closed = False

    @property
    def viewers(self) -> int:
        """How many look now."""
        return len(self._viewers)

    async def follow(self) -> AsyncIterator[bytes]:
        """Messages for one viewer, until the console ends."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(WAITING)
        self._viewers.add(queue)
        if self._task is None or self._task.done():
            self._tail.read()  # what was there before is in the state that a viewer asks for
            self._task = asyncio.create_task(self._look())
        try:
            yield b"retry: 1000\n\n"
            while (message := await queue.get()) is not None:
                yield message
        finally:
            self._viewers.discard(queue)

    def close(self) -> None:
        """Send no more."""
        self.closed = True

    async def _look(self) -> None:
        shown: Any = None
        quiet = 0.0
        while self._viewers and not self.closed:
            anew, lines = self._tail.read()
            self._picture.advance()
            life = self._picture.life()
            if anew:
                self._send(RELOAD)
            elif lines or life != shown or quiet >= HEARTBEAT:
                self._send(_message(life, lines))
                quiet = 0.0
            shown, quiet = life, quiet + PAUSE
            await asyncio.sleep(PAUSE)
        self._send(None)

    def _send(self, message: bytes | None) -> None:
        for queue in list(self._viewers):
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(RELOAD)
            queue.put_nowait(message)


def _message(life: dict[str, Any], lines: list[bytes]) -> bytes:
    return b'data: {"life":' + json.dumps(life).encode() + b',"lines":[' + b",".join(lines) + b"]}\n\n"
