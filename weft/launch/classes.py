"""Spark's classes in a file that the JVM maps, instead of loading and checking thousands of them at every start.

The file fits one Java and one PySpark, and its name says which.  The name also holds its size, since an incomplete file
would crash the JVM.  `weft.launch.prepare` makes the file in a process of its own, after the end of the first program
in which Weft started Spark.  If that fails, or if Spark twice does not start with the file, it is tried again a day
later: a disk may have been full, or a machine too busy.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from weft.launch.java import cache_folder

REHEARSAL = "weft.session.rehearsal"
"""The module that makes the file when it is run.  It belongs to a higher layer, so it is named, not imported."""
AGAIN = 24 * 3600.0
"""Seconds after which a file that could not be made, or did not work, is made again."""


@dataclass(frozen=True)
class Archive:
    """The file for the Java at `home`."""

    home: Path

    @functools.cached_property
    def stem(self) -> Path:
        """Its path without size and suffix."""
        parts = [str(self.home), stamp(self.home / "bin" / "java"), stamp(self.home / "lib" / "modules"), *pyspark_is()]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return cache_folder(os.environ) / f"classes-{digest}"

    @property
    def file(self) -> Path | None:
        """Its path if it is there and complete, else None."""
        return next((file for file in self._files() if file == self._name_by_size(file)), None)

    @property
    def failed(self) -> Path:
        """A file whose time says when the archive could not be made, or did not work."""
        return self.stem.with_suffix(".failed")

    def has_failed(self) -> bool:
        """Whether it could not be made, or did not work, less than a day ago."""
        try:
            return time.time() - self.failed.stat().st_mtime < AGAIN
        except OSError:
            return False

    def options(self) -> str:
        """Options that tell a JVM to use it.  If it does not exist, none; then it is made when this program ends."""
        if file := self.file:
            return f'"-XX:SharedArchiveFile={file}" -Xlog:cds*=off'
        nearest = next(parent for parent in self.stem.parents if parent.exists())
        if not self.has_failed() and os.access(nearest, os.W_OK):
            with contextlib.suppress(OSError):
                self.stem.parent.mkdir(parents=True, exist_ok=True)
                _make_at_exit(self.stem.parent)
        return ""

    def keep(self, aside: Path) -> None:
        """Move a complete file to its place."""
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        aside.replace(self._name_by_size(aside))

    def doubt(self) -> None:
        """Note that Spark started without it and not with it.  After the second time in a row it is no longer used."""
        with contextlib.suppress(OSError):  # it may belong to another user
            if self._doubt_mark.exists():
                self.give_up()
            else:
                self._doubt_mark.touch()

    def trust(self) -> None:
        """Note that Spark started with it."""
        with contextlib.suppress(OSError):
            self._doubt_mark.unlink(missing_ok=True)

    @property
    def _doubt_mark(self) -> Path:
        return self.stem.with_suffix(".doubted")

    def give_up(self) -> None:
        """Remove it, and do not make it again for a while."""
        self.failed.touch()
        for file in (*self._files(), self._doubt_mark):
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [*self.stem.parent.glob(f"{self.stem.name}-*.jsa")]

    def _name_by_size(self, file: Path) -> Path:
        return self.stem.with_name(f"{self.stem.name}-{file.stat().st_size}.jsa")


def pyspark_is() -> tuple[str, str]:
    """Which PySpark is installed: where, and its version.  Nothing is imported for it, since that takes a while."""
    spec = util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        return "", "none"
    said = Path(spec.origin).with_name("version.py")
    return spec.origin, said.read_text(encoding="utf-8") if said.exists() else stamp(Path(spec.origin))


def stamp(path: Path) -> str:
    """What changes when a file does: its size and time."""
    try:
        found = path.stat()
    except OSError:
        return "none"
    return f"{found.st_size} {found.st_mtime_ns}"


@functools.cache
def _make_at_exit(folder: Path) -> None:
    """Start the rehearsal in `folder`, which is ours: Python may import modules from the folder it is started in."""
    command, nowhere = [sys.executable, "-m", REHEARSAL], subprocess.DEVNULL
    atexit.register(
        subprocess.Popen, command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd=folder,
        env={**os.environ, "WEFT_CACHE": str(folder)}, start_new_session=True,
    )  # fmt: skip
