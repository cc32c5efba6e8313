"""Files that are either complete or missing, even after a crash; some with a checksum.

A folder can be shared: then its durable files go to a place that other machines see, before the write returns.
"""

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
    published(final)


def remove_durably(path: Path) -> None:
    """Remove a file, wherever it was shared."""
    path.unlink(missing_ok=True)
    if (hooks := _hooks(path)) is not None:
        hooks[1](path)


def published(path: Path) -> None:
    """A file is complete: if its folder is shared, let others have it."""
    if (hooks := _hooks(path)) is not None:
        hooks[0](path)


Hook = Callable[[Path], None]
_shared: dict[Path, tuple[Hook, Hook]] = {}
"""Folder -> what shares a file of it, and what takes one back."""


def share(root: Path, put: Hook, remove: Hook) -> None:
    """Let others have the durable files of a folder."""
    _shared[root] = (put, remove)


def unshare(root: Path) -> None:
    """Share nothing of a folder any more."""
    _shared.pop(root, None)


def _hooks(path: Path) -> tuple[Hook, Hook] | None:
    if not _shared:
        return None
    return next((hooks for root, hooks in _shared.items() if path.is_relative_to(root)), None)


def sync_file(path: Path) -> None:
    """Make what was written into a file durable."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


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
