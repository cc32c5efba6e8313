"""A registry of schemas on loopback: a real HTTP server, which speaks what clients need of Confluent's protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class Server:
    """A registry that runs until it is stopped."""

    def __init__(self) -> None:
        self.known: list[dict[str, Any]] = []
        """Number of a schema -> what is known of it."""
        self.subjects: dict[str, list[int]] = {}
        """Subject -> the numbers of its versions; the first version is 1."""
        self.asked: list[tuple[str, str | None]] = []
        """Paths, with what allows it."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append((self.path, self.headers.get("Authorization")))
                self._answer(registry.find(urlsplit(self.path).path))

            def do_POST(self) -> None:
                sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                subject = unquote(self.path.split("/")[2])
                self._answer({"id": registry.add(subject, sent["schema"], sent.get("references", ()))})

            def _answer(self, found: Mapping[str, Any] | None) -> None:
                body = json.dumps(found or {"error_code": 404}).encode()
                self.send_response(404 if found is None else 200)
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The URL of the registry."""
        return f"http://{self.place}"

    def add(
        self, subject: str, schema: object, references: Sequence[Mapping[str, Any]] = (), kind: str | None = None
    ) -> int:
        """A new version of a subject; the number of its schema."""
        said = {"schema": schema if isinstance(schema, str) else json.dumps(schema), "references": [*references]}
        said |= {} if kind is None else {"schemaType": kind}
        if said not in self.known:
            self.known.append(said)
        number = self.known.index(said)
        self.subjects.setdefault(subject, []).append(number)
        return number

    def find(self, path: str) -> Mapping[str, Any] | None:
        """What is known at a path; None if nothing."""
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) < len(self.known):
                return self.known[int(number)]
            case ["subjects", subject, "versions", version] if versions := self.subjects.get(unquote(subject)):
                at = len(versions) if version == "latest" else int(version)
                if at <= len(versions):
                    return {"subject": subject, "version": at, "id": versions[at - 1], **self.known[versions[at - 1]]}
        return None

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def reference(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    """What a schema says of another one that it names."""
    return {"name": name, "subject": subject, "version": version}
