"""An object store on loopback, over HTTP and with S3's protocol, which can be made slow and unreliable."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

BUCKET = "bucket"
SLOW = 0.3
"""Seconds that a slow request takes longer."""


class _Silent(WSGIRequestHandler):
    def log_request(self, *_: Any) -> None:
        """Say nothing of each request."""


def _bucket() -> Any:
    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET]


class Store:
    """A running store.  A part of its requests fails; some after they were carried out, as when an answer is lost.
    Another part is slow."""

    def __init__(self) -> None:
        self.failing = self.slow = 0.0
        self.failed = self.delayed = self.requests = 0
        self.read: list[str] = []
        """The objects that were asked for, in order."""
        self._dice, self._lock = random.Random(7), threading.Lock()
        self._never = threading.Event()
        self._app: Any = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Silent)

    def url(self, path: str) -> str:
        """The URL of a place in the store, as `pyarrow.fs` reads it."""
        end = f"127.0.0.1:{self._server.server_port}"
        return f"s3://weft:secret@{BUCKET}/{path}?endpoint_override={end}&scheme=http&region=us-east-1"

    def names(self, path: str) -> list[str]:
        """The objects below a place, as they are at this moment; nothing is asked for over HTTP."""
        return sorted(name for name in list(_bucket().keys) if name.startswith(f"{path}/"))

    def clear(self, path: str) -> None:
        """Remove all objects below a place: stores of one process share their memory."""
        for name in self.names(path):
            _bucket().keys.pop(name)

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            self.requests += 1
            self.read += [environ["PATH_INFO"]] * (environ["REQUEST_METHOD"] == "GET")
            fails, late = self._dice.random() < self.failing, self._dice.random() < 0.5
            waits = self._dice.random() < self.slow
            self.failed += fails
            self.delayed += waits
        if waits:
            self._never.wait(SLOW)
        if fails and late:
            list(self._app(environ, lambda *_args, **_kwargs: lambda _data: None))
        if fails:
            start("503 Slow Down", [("Content-Length", "0")])
            return [b""]
        answer: Iterable[bytes] = self._app(environ, start)
        return answer

    @contextmanager
    def running(self) -> Iterator[Store]:
        """The store with an empty bucket."""
        from pyarrow import fs

        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            files, _ = fs.FileSystem.from_uri(self.url("").replace("&scheme", "&allow_bucket_creation=true&scheme"))
            files.create_dir(BUCKET)
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()
