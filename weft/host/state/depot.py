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

import contextlib
import functools
import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyarrow import fs

from weft.errors import StateError

Made = TypeVar("Made")
TRIES = 5
"""A request that fails is made so often, with pauses that grow."""
CLAIMS, MANIFESTS = "claims", "manifests"


def read_url(place: str | os.PathLike[str]) -> str | None:
    """The URL by which a checkpoint is said; None if it is a folder.  A path has lost some of its slashes."""
    found = re.match(r"([a-z][a-z0-9+.-]+):/+", text := os.fspath(place))
    if found is None:
        return None
    return f"{found.group(1)}:{'///' if found.group(1) == 'file' else '//'}{text[found.end() :]}"


@dataclass(frozen=True)
class Depot:
    """The files of a checkpoint, by name."""

    url: str

    @property
    def shown(self) -> str:
        """The URL without what may be secret: user, password, options."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}"

    @property
    def digest(self) -> str:
        """A short name for folders that belong to it."""
        return hashlib.blake2b(self.url.encode(), digest_size=6).hexdigest()

    def put(self, name: str, path: Path) -> None:
        """Copy a local file into the depot, whole or not at all."""
        self.put_bytes(name, path.read_bytes())

    def put_bytes(self, name: str, content: bytes) -> None:
        """Make a file of the depot."""
        self._try(f"{name} cannot be written", lambda files, root: _write(files, f"{root}/{name}", content))

    def get_bytes(self, name: str) -> bytes | None:
        """The content of a file; None if there is none."""
        return self._try(f"{name} cannot be read", lambda files, root: _read(files, f"{root}/{name}"))

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
        return self._try(f"{folder} cannot be listed", lambda files, root: _list(files, root, folder))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files; those that are gone already are left out."""
        for name in names:
            self._try(f"{name} cannot be removed", functools.partial(_remove, name))

    def _try(self, what: str, call: Callable[[fs.FileSystem, str], Made]) -> Made:
        for attempt in range(TRIES):
            try:
                return call(*_open(self.url))
            except OSError as error:
                if attempt == TRIES - 1:
                    raise self._unreachable(what, error) from error
                time.sleep(0.1 * 2**attempt)
        raise AssertionError("not reached")

    def _unreachable(self, what: str, error: Exception) -> StateError:
        return StateError(
            f"checkpoint {self.shown}: {what}",
            detail=f"{str(error).splitlines()[0][:300] if str(error) else type(error).__name__}.",
            hint="nothing is lost; see whether the store can be reached with these rights, and run again.",
        )


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


@functools.lru_cache(maxsize=8)
def _open(url: str) -> tuple[fs.FileSystem, str]:
    try:
        files, root = fs.FileSystem.from_uri(_in_one_request(url))
    except (OSError, ValueError, NotImplementedError):  # what they say has the URL, which may hold a secret
        raise StateError(
            f"checkpoint {Depot(url).shown} cannot be used",
            detail="pyarrow cannot open this URL.",
            hint="use file://, s3://, hdfs://, gs:// or abfs://, with options as pyarrow.fs.FileSystem.from_uri says.",
        ) from None
    return files, root.rstrip("/")


def _in_one_request(url: str) -> str:
    """The URL with an option by which S3 gets a small file in one request instead of three."""
    if not url.startswith("s3:") or "allow_delayed_open" in url:
        return url
    return f"{url}{'&' if '?' in url else '?'}allow_delayed_open=true"


def _write(files: fs.FileSystem, path: str, content: bytes) -> None:
    """Stores show a file when its stream is closed; a file system gets it under another name first."""
    if isinstance(files, fs.LocalFileSystem | fs.HadoopFileSystem):
        aside = f"{path}.{uuid.uuid4().hex[:8]}.tmp"
        files.create_dir(path.rpartition("/")[0], recursive=True)
        with files.open_output_stream(aside) as stream:
            stream.write(content)
        files.move(aside, path)
        return
    with files.open_output_stream(path) as stream:
        stream.write(content)


def _read(files: fs.FileSystem, path: str) -> bytes | None:
    try:
        with files.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return None


def _list(files: fs.FileSystem, root: str, folder: str) -> list[str]:
    selector = fs.FileSelector(f"{root}/{folder}".rstrip("/"), allow_not_found=True, recursive=True)
    found = (info.path[len(root) + 1 :] for info in files.get_file_info(selector) if info.type == fs.FileType.File)
    return sorted(name for name in found if not name.endswith(".tmp"))


def _remove(name: str, files: fs.FileSystem, root: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        files.delete_file(f"{root}/{name}")
