"""Harm that is no kill: full disks, damaged files, clocks that jump, disks that are slow.

A full disk is a small file system in memory, which needs the right to mount.  Clocks and disks are a small library in C
that stands between all processes of the job and the system (`LD_PRELOAD`), which needs a compiler.  Where either is
missing, the harm is left out and counted as missed.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.chaos.rows import drop
from tests.chaos.story import Input

SIZE = 160 << 20
SOURCE = Path(__file__).with_name("shim.c")


class Disk:
    """The folder of the checkpoint; if it is small, a file system of its own."""

    def __init__(self, path: Path, small: bool) -> None:
        self.path, self.wants = path, small
        self.is_small = False

    def __enter__(self) -> Disk:
        self.path.mkdir()
        if self.wants:
            command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "weft-chaos", str(self.path)]
            with contextlib.suppress(OSError):
                self.is_small = subprocess.run(command, capture_output=True).returncode == 0
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        if self.is_small:
            subprocess.run(["umount", "-l", str(self.path)], check=True)

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """No room for a while."""
        ballast = self.path / "ballast"
        with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))
        try:
            yield
        finally:
            ballast.unlink()


def damage(folder: Path, given: Input, batch: int, rows: list[dict[str, Any]], dice: random.Random) -> None:
    """Let a file arrive that cannot be read: cut, empty or garbage."""
    aside = folder / ".aside"
    whole = drop(aside, given, batch, rows).read_bytes()
    content = dice.choice((whole[: len(whole) // 2], whole[:-5], b"", bytes(len(whole))))
    path = aside / "damaged"
    path.write_bytes(content)
    path.rename(folder / f"{batch:04d}.parquet")
    shutil.rmtree(aside)


class Shim:
    """A library between processes and the system, told by a file that they map."""

    def __init__(self, place: Path) -> None:
        self.place, self.library = place, build()
        self._clock = self._sync = 0
        self._tell()

    @property
    def works(self) -> bool:
        """Whether it could be built."""
        return self.library is not None

    @property
    def environ(self) -> Mapping[str, str]:
        """What processes need."""
        return {"LD_PRELOAD": str(self.library), "WEFT_CHAOS_TROUBLE": str(self.place)} if self.library else {}

    def jump(self, seconds: float) -> None:
        """Let the clock of all processes jump."""
        self._clock += int(seconds * 1e9)
        self._tell()

    def slow(self, seconds: float) -> None:
        """Let every sync take so much longer."""
        self._sync = int(seconds * 1e9)
        self._tell()

    def _tell(self) -> None:
        if not self.place.exists():
            self.place.write_bytes(bytes(16))
        with open(self.place, "r+b") as file:  # in place: processes have it mapped
            file.write(struct.pack("=qq", self._clock, self._sync))


@functools.cache
def build() -> Path | None:
    """The library; None if there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    name = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    place = Path(tempfile.gettempdir(), f"weft-chaos-{os.getuid()}-{name}.so")
    if not place.exists():
        aside = place.with_suffix(f".{os.getpid()}")
        command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(aside), str(SOURCE), "-ldl"]
        if subprocess.run(command, capture_output=True).returncode:
            return None
        aside.rename(place)
    return place
