"""A registry of schemas: an HTTP service that knows a schema by its number.

A record in the wire format of registries begins with a zero and the number of its schema, in four bytes.  Schemas never
change, so each is asked for once in a process.  An address may hold a name and a password; it is never shown.
"""

from __future__ import annotations

import base64
import http.client
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from weft.errors import SourceError
from weft.host.sources.kafka.values import UnreadableError

HEADER = struct.Struct(">bI")
SECONDS = 30


@dataclass(frozen=True)
class Registry:
    """A registry at an address."""

    address: str = field(repr=False)

    def schema(self, number: int) -> str:
        """The schema of a number, as JSON text; a record with a number that the registry does not know is a bad one."""
        try:
            return _get(self.address, f"/schemas/ids/{number}")
        except UnknownSchemaError:
            raise UnreadableError(f"the registry knows no schema {number}") from None

    def latest(self, subject: str) -> str:
        """The newest schema of a subject, as JSON text."""
        found: str = _ask(self.address, f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest")["schema"]
        return found

    def register(self, subject: str, schema: str) -> int:
        """The number of a schema under a subject; the registry takes it in if it is new."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions"
        return int(_ask(self.address, path, {"schema": schema, "schemaType": "AVRO"})["id"])


class UnknownSchemaError(SourceError):
    """The registry runs, and knows no such schema."""


@lru_cache(maxsize=1024)
def _get(address: str, path: str) -> str:
    found: str = _ask(address, path)["schema"]
    return found


def _ask(address: str, path: str, sent: dict[str, str] | None = None) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(address.rstrip("/"))
    place = parts.netloc.rpartition("@")[2]
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    url = urllib.parse.urlunsplit((parts.scheme, place, parts.path + path, "", ""))
    body = None if sent is None else json.dumps(sent).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = error.code if isinstance(error, urllib.error.HTTPError) else None
        said = f"it answers {code} to {path}" if code else str(error)
        hint = "see that the registry runs and knows the schema; nothing was lost."
        kind = UnknownSchemaError if code == http.client.NOT_FOUND else SourceError
        raise kind(f"the registry at {place} gives no schema", detail=f"{said}.", hint=hint) from None
