"""Spark's classes in a file that the JVM maps, instead of loading and checking thousands of them at every start.

The file belongs to one Java and one PySpark, which are part of its name, as is its size: a JVM dies of half a file.
`weft.launch.prepare` makes it, in a process of its own, out of the way of others: after the end of the first program
that had Weft start Spark.  Where that does not work, or where Spark twice does not start with the file, it is not
tried again.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from weft.launch.java import cache_folder

REHEARSAL = "weft.session.rehearsal"
"""The module that makes the file when it is run; it stands above this folder, so it is named and not imported."""


@dataclass(frozen=True)
class Archive:
    """The file for the Java at `home`."""

    home: Path

    @functools.cached_property
    def stem(self) -> Path:
        """Its path but for size and ending."""
        spec = util.find_spec("pyspark")
        parts = [str(self.home), _stamp(self.home / "bin" / "java"), _stamp(self.home / "lib" / "modules")]
        parts += [str(spec.origin) if spec else "", metadata.version("pyspark")]
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
        return cache_folder(os.environ) / f"classes-{digest}"

    @property
    def file(self) -> Path | None:
        """It, if it is there and whole."""
        return next((file for file in self._files() if file == self._named(file)), None)

    @property
    def failed(self) -> Path:
        """A mark that is there where it cannot be made, or does not work."""
        return self.stem.with_suffix(".failed")

    def options(self) -> str:
        """What tells a JVM to use it; if it is not there, it will be the next time."""
        if file := self.file:
            return f'"-XX:SharedArchiveFile={file}" -Xlog:cds*=off'
        nearest = next(parent for parent in self.stem.parents if parent.exists())
        if not self.failed.exists() and os.access(nearest, os.W_OK):
            with contextlib.suppress(OSError):
                self.stem.parent.mkdir(parents=True, exist_ok=True)
                _make_at_exit(self.stem.parent)
        return ""

    def keep(self, aside: Path) -> None:
        """Put a finished file in its place."""
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        aside.replace(self._named(aside))

    def doubt(self) -> None:
        """Spark started without it, and not with it: the second time in a row, it is no longer used."""
        with contextlib.suppress(OSError):  # it may be somebody else's
            if self._doubted.exists():
                self.give_up()
            self._doubted.touch()

    def trust(self) -> None:
        """Spark started."""
        with contextlib.suppress(OSError):
            self._doubted.unlink(missing_ok=True)

    @property
    def _doubted(self) -> Path:
        return self.stem.with_suffix(".doubted")

    def give_up(self) -> None:
        """Do not use it any longer."""
        self.failed.touch()
        for file in self._files():
            file.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return [*self.stem.parent.glob(f"{self.stem.name}-*.jsa")]

    def _named(self, file: Path) -> Path:
        return self.stem.with_name(f"{self.stem.name}-{file.stat().st_size}.jsa")


def _stamp(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:
        return "none"
    return f"{found.st_size} {found.st_mtime_ns}"


@functools.cache
def _make_at_exit(folder: Path) -> None:
    """`folder` is ours: Python would load what lies in the folder it is started in."""
    command, nowhere = [sys.executable, "-m", REHEARSAL], subprocess.DEVNULL
    atexit.register(
        subprocess.Popen, command, stdin=nowhere, stdout=nowhere, stderr=nowhere, cwd=folder,
        env={**os.environ, "WEFT_CACHE": str(folder)}, start_new_session=True,
    )  # fmt: skip
