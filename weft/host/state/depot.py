"""A depot: the place of a checkpoint that is said by a URL, such as an object store.

Whoever works on the checkpoint has a local copy of the files that it needs, and puts new ones into the depot.  A put is
atomic: a reader finds all of a file or nothing of it.  Nothing else is asked of the store: no rename, no lock, no
append.  A file counts once it is in the depot; the manifest is put last, and that commits the batch.

Two runs may begin on one checkpoint, on different machines.  Each makes a *claim*, a file with a number that is larger
than all before.  The largest claim owns the checkpoint.  A manifest carries the claim of its run in its name, and of
two for one batch that with the larger claim counts.  A run asks after its manifest is put whether it is still the
owner; if not it stops, and publishes nothing.  So:
  - If an older run put its manifest before a newer one made its claim, the newer run has read that manifest, since it
    looks for manifests after its claim.
  - If after, the older run finds the newer claim, and stops.  Its manifest counts only if the newer run never commits
    that batch; then its results are published by whoever comes next, once.
"""

from __future__ import annotations

import functools
import hashlib
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyarrow import fs

from weft.errors import StateError
from weft.host.url import (
    CURE,
    UrlError,
    ask,
    list_names,
    read_file,
    remove_file,
    remove_folder,
    say_error,
    show_url,
    write_file,
)

Made = TypeVar("Made")
CLAIMS, MANIFESTS = "claims", "manifests"


@dataclass(frozen=True)
class Depot:
    """The files of a checkpoint, by name."""

    url: str

    @property
    def shown(self) -> str:
        """The URL without what may be secret: user, password, options."""
        return show_url(self.url)

    @property
    def digest(self) -> str:
        """A short name for folders that belong to it."""
        return hashlib.blake2b(self.url.encode(), digest_size=6).hexdigest()

    def put(self, name: str, path: Path) -> None:
        """Copy a local file into the depot, whole or not at all."""
        self.put_bytes(name, path.read_bytes())

    def put_bytes(self, name: str, content: bytes) -> None:
        """Make a file of the depot."""
        self._try(f"{name} cannot be written", lambda files, root: write_file(files, f"{root}/{name}", content))

    def get_bytes(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        return self._try(f"{name} cannot be read", lambda files, root: read_file(files, f"{root}/{name}"))

    def get(self, name: str, path: Path) -> bool:
        """Copy a file of the depot to a local one, in one step; return whether it was there."""
        if (content := self.get_bytes(name)) is None:
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        aside.write_bytes(content)
        aside.replace(path)
        return True

    def list(self, folder: str) -> list[str]:
        """The names of all files in a folder of the depot and in those below it, sorted."""
        return self._try(f"{folder} cannot be listed", lambda files, root: list_names(files, root, folder))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are gone already are left out."""
        for name in names:
            self._try(f"{name} cannot be removed", functools.partial(_remove, name))

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it.

        To remove its files one by one would leave a mark of each folder in an object store: `pyarrow.fs` makes them.
        """
        self._try(f"{folder} cannot be removed", lambda files, root: remove_folder(files, f"{root}/{folder}"))

    def _try(self, what: str, call: Callable[[fs.FileSystem, str], Made]) -> Made:
        try:
            return ask(self.url, call)
        except UrlError as error:
            raise StateError(f"checkpoint {self.shown} cannot be used", detail=str(error), hint=CURE) from None
        except OSError as error:
            raise StateError(
                f"checkpoint {self.shown}: {what}",
                detail=say_error(self.url, error),
                hint="nothing is lost; see whether the store can be reached with these rights, and run again.",
            ) from error


@dataclass(frozen=True)
class Claim:
    """The right of one run to commit."""

    depot: Depot
    number: int
    run: str

    @staticmethod
    def make(depot: Depot) -> Claim:
        """Take the checkpoint from whoever had it."""
        run = uuid.uuid4().hex[:8]
        while True:
            before = [*map(_number_of, depot.list(CLAIMS)), 0]
            claim = Claim(depot, max(before) + 1, run)
            depot.put_bytes(f"{CLAIMS}/{claim.name}", b"")
            same = [name for name in depot.list(CLAIMS) if _number_of(name) == claim.number]
            if max(same) == f"{CLAIMS}/{claim.name}":
                depot.remove(name for name in depot.list(CLAIMS) if _number_of(name) < claim.number)
                return claim

    @property
    def name(self) -> str:
        """How the claim is called: the larger name wins."""
        return f"{self.number:09d}-{self.run}"

    def check(self) -> None:
        """Refuse to go on if another run has taken the checkpoint."""
        if (newest := max(self.depot.list(CLAIMS), default="")) != f"{CLAIMS}/{self.name}":
            raise StateError(
                f"checkpoint {self.depot.shown} was taken by another run",
                detail=f"claim {newest} is newer than that of this run, {self.name}.",
                hint="only one run works on a checkpoint; this one stops, and has published nothing since.",
            )

    def put(self, name: str, path: Path) -> None:
        """Put a file, as the owner; a manifest with the claim in its name."""
        self.check()
        if not name.startswith(f"{MANIFESTS}/"):
            self.depot.put(name, path)
            return
        self.depot.put(f"{name}@{self.name}", path)
        self.check()


def plain_name(name: str) -> str:
    """The name of a file without the claim of the run that put it."""
    return name.partition("@")[0]


def _number_of(name: str) -> int:
    return int(name.rpartition("/")[2].partition("-")[0])


def _remove(name: str, files: fs.FileSystem, root: str) -> None:
    remove_file(files, f"{root}/{name}")
