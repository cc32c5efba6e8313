"""The driver's copy of a checkpoint that lies in a depot: all but the segments, in a folder of its own.

Everything on the driver reads and writes this folder as if it were the checkpoint.  What is written durably there is
put into the depot before the write returns; so the depot has every file in the order in which it was written, and the
mirror may be lost at any moment.

A driver that ends removes its mirror; one that is killed cannot.  So each holds a lock in its mirror as long as it
lives, and whoever makes another mirror of the depot on this machine removes those that nobody holds.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

from weft.host.state.depot import MANIFESTS, Claim, Depot, plain_name
from weft.host.state.durable import share, unshare

HELD = ".held"
"""A file of each mirror, locked by the driver that has it."""
COPIED = ("session.json", "adapt.json", "now.json", MANIFESTS, "epochs", "sources", "results")
"""What the driver needs of a checkpoint."""


class Mirror:
    """A local folder that follows a depot."""

    def __init__(self, depot: Depot) -> None:
        self.depot, self.claim = depot, Claim(depot, 0, "nobody")
        self.root = Path(tempfile.mkdtemp(prefix=f"weft-{depot.digest}-")).resolve()
        weakref.finalize(self, _end, self.root, _hold(self.root))
        for other in self.root.parent.glob(f"weft-{depot.digest}-*"):
            if other != self.root:
                _remove_abandoned(other)
        self.refresh()

    def take(self) -> None:
        """Become the owner of the checkpoint; from now on, what is written here goes to the depot."""
        self.claim = Claim.make(self.depot)
        self.refresh()
        share(self.root, self._put, self._remove)

    def check(self) -> None:
        """Refuse if another run has taken the checkpoint."""
        self.claim.check()

    def release(self) -> None:
        """Write nothing to the depot any more."""
        unshare(self.root)

    def refresh(self) -> None:
        """Make the folder what the depot has."""
        for part in COPIED:
            shutil.rmtree(self.root / part, ignore_errors=True)
            (self.root / part).unlink(missing_ok=True)
        for name in sorted(name for part in COPIED for name in self._names(part)):  # of two manifests the later claim
            self.depot.get(name, self.root / plain_name(name))

    def _names(self, part: str) -> list[str]:
        return [part] if "." in part else self.depot.list(part)

    def _put(self, path: Path) -> None:
        self.claim.put(str(path.relative_to(self.root)), path)

    def _remove(self, path: Path) -> None:
        self.claim.check()
        name = str(path.relative_to(self.root))
        claimed = name.startswith(f"{MANIFESTS}/")
        names = [n for n in self.depot.list(MANIFESTS) if plain_name(n) == name] if claimed else [name]
        self.depot.remove(names)


def _hold(root: Path) -> int:
    """Lock a mirror; the file has its name only when it is locked."""
    aside = root / f"{HELD}.new"
    lock = os.open(aside, os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    aside.rename(root / HELD)
    return lock


def _end(root: Path, lock: int) -> None:
    shutil.rmtree(root, ignore_errors=True)
    os.close(lock)


def _remove_abandoned(root: Path) -> None:
    """Remove a mirror, unless its driver lives, or is about to lock it."""
    with contextlib.suppress(OSError):
        lock = os.open(root / HELD, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(root, ignore_errors=True)
        finally:
            os.close(lock)
