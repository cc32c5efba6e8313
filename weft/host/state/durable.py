"""Files that are either complete or missing, even after a crash; some with a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from weft.errors import StateError

Made = TypeVar("Made")


def write_durably(final: Path, content: bytes) -> None:
    """Write to a temporary name, sync, rename, sync the folder."""
    aside = final.with_name(f".{final.name}.tmp")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, final)
    sync_folder(final.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_sealed(final: Path, plain: Mapping[str, Any]) -> None:
    """Write plain data durably, with its checksum."""
    text = json.dumps(plain)
    write_durably(final, f"{text}\n{_digest(text)}\n".encode())


def read_sealed(path: Path, make: Callable[[dict[str, Any]], Made]) -> Made:
    """What `make` makes of the plain data at `path`.  If it cannot, raise an error that names the file."""
    try:
        text, _, digest = path.read_text().rstrip("\n").rpartition("\n")
        if digest != _digest(text):
            raise ValueError(f"its checksum is {_digest(text)} instead of {digest}")
        return make(json.loads(text))
    except OSError as error:
        raise StateError(f"{path} cannot be read", detail=f"{error}.", hint=_RESTORE) from error
    except (ValueError, TypeError, KeyError) as error:
        said = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise StateError(f"{path} is damaged", detail=f"{said}.", hint=_RESTORE) from error


_RESTORE = "restore it from a backup of the checkpoint."


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
