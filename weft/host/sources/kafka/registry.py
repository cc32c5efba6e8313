"""A registry of schemas: an HTTP service that knows a schema by its number.

A record in the wire format of registries begins with a zero and the number of its schema, in four bytes.  A schema may
name others, of other subjects, and these name others in turn.  Schemas never change, so each is asked for once in a
process.  An address may hold a name and a password; it is never shown.
"""

from __future__ import annotations

import base64
import http.client
import json
import struct
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from weft.errors import SourceError
from weft.host.sources.kafka.values import UnreadableError

HEADER = struct.Struct(">bI")
SECONDS = 30


@dataclass(frozen=True)
class Schema:
    """An Avro schema."""

    text: str
    """As JSON."""
    named: tuple[str, ...] = ()
    """The schemas that it names, each behind those that it names itself."""


@dataclass(frozen=True)
class Registry:
    """A registry at an address."""

    address: str = field(repr=False)

    def schema(self, number: int) -> Schema:
        """The schema of a number; a record with a number that the registry does not know is a bad one."""
        try:
            return _get(self.address, f"/schemas/ids/{number}")
        except UnknownSchemaError as error:
            raise UnreadableError(f"the registry knows no schema {number}: {error.detail}") from None

    def latest(self, subject: str) -> Schema:
        """The newest schema of a subject."""
        try:
            return _with_named(self.address, _ask(self.address, _versions(subject, "/latest")))
        except UnreadableError as error:
            hint = "see that the values of the topic are Avro."
            raise SourceError(
                f'subject "{subject}" of the registry cannot be used', detail=f"{error}.", hint=hint
            ) from None

    def register(self, subject: str, schema: str) -> int:
        """The number of a schema under a subject; the registry takes it in if it is new."""
        return int(_ask(self.address, _versions(subject), {"schema": schema, "schemaType": "AVRO"})["id"])


def _versions(subject: str, version: str = "") -> str:
    return f"/subjects/{urllib.parse.quote(subject, safe='')}/versions{version}"


class UnknownSchemaError(SourceError):
    """The registry runs, and knows no such schema."""


@lru_cache(maxsize=1024)
def _get(address: str, path: str) -> Schema:
    return _with_named(address, _ask(address, path))


def _with_named(address: str, found: Mapping[str, Any]) -> Schema:
    """A schema as a registry tells it, with those that it names; also if these were deleted since."""
    if (kind := found.get("schemaType") or "AVRO") != "AVRO":
        raise UnreadableError(f"its schema is of the kind {kind}, and not of Avro")
    asked = (_versions(one["subject"], f"/{one['version']}?deleted=true") for one in found.get("references") or ())
    named = [text for one in (_get(address, path) for path in asked) for text in (*one.named, one.text)]
    return Schema(found["schema"], tuple(dict.fromkeys(named)))


def _ask(address: str, path: str, sent: dict[str, str] | None = None) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(address.rstrip("/"))
    place = parts.netloc.rpartition("@")[2]
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    if parts.username is not None:
        pair = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    url = urllib.parse.urlunsplit((parts.scheme, place, parts.path, "", "")) + path
    body = None if sent is None else json.dumps(sent).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError, http.client.HTTPException) as error:
        code = None
        if isinstance(error, urllib.error.HTTPError):
            code = error.code
            error.close()
        said = f"it answers {code} to {path}" if code else str(error)
        hint = "see that the registry runs and knows the schema; nothing was lost."
        kind = UnknownSchemaError if code == http.client.NOT_FOUND else SourceError
        raise kind(f"the registry at {place} gives no schema", detail=f"{said}.", hint=hint) from None
