"""The history of a checkpoint: two weeks of points, marks and notices, in one bounded file beside the state.

    history/batches.jsonl     one line an event: {"is": "point" | "notice" | "start" | "end", "at": ..., ...}
    history/plan.json         the plan that runs, as explain shows it

A run appends a line after each batch, without syncing: the file is for people, and nothing depends on it.  A run that
cannot write it goes on.  Now and then the file is written anew: old points are added up, the older the more of them,
and what is older than two weeks goes.  If that does not make it small enough, points are added up further.

What must hold: a reader may come at any moment and gets whole lines; a line that a kill has cut is skipped, and the
next run begins a new line.  Nothing of the file is needed to go on from a checkpoint.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from weft.observe.memory import MemoryUse
from weft.observe.notice import Notice
from weft.observe.point import Point, see_batch
from weft.observe.progress import Progress

log = logging.getLogger("weft.history")

HOUR, DAY = 3600.0, 86400.0
TIERS = ((600.0, 0.0), (2 * HOUR, 10.0), (DAY, 60.0), (14 * DAY, 600.0))
"""(Age in seconds, how many seconds one point covers): younger points are finer; the oldest age is where it ends."""
LIMIT = 8_000_000
"""Bytes at which the file is written anew; it is at most half as large after that."""
SINGLE = 1000
"""Points of single batches that stay, however fast they come."""
DETAILED = 100
"""Of these, so many keep the counters of single probes and stores."""
EVENTS = 2000
"""Notices, starts and ends that stay."""
Line = dict[str, Any]


def history_file(root: Path) -> Path:
    """The history of a checkpoint folder."""
    return root / "history" / "batches.jsonl"


def plan_file(root: Path) -> Path:
    """Where the plan of a checkpoint folder is, as explain shows it."""
    return root / "history" / "plan.json"


class History:
    """Writes the history of a run.  No method raises if the file cannot be written."""

    def __init__(self, root: Path, now: Callable[[], float] = time.time) -> None:
        self.root, self.path = root, history_file(root)
        self._now, self._last = now, now()
        self._memory = MemoryUse()
        self._size = 0
        self._broken = False

    def begin(self, every: float | None) -> None:
        """A run begins; if `every` is None it reads what is there, and ends."""
        self._last = self._now()
        here = {"pid": os.getpid(), "born": born(os.getpid()), "host": socket.gethostname(), "every": every}
        self._append({"is": "start", "at": self._last, **here})

    def note(self, progress: Progress) -> None:
        """A batch has ended."""
        since, self._last = self._last, self._now()
        self._append({"is": "point", **see_batch(progress, since, self._last, self._memory.read(self._last)).plain()})
        for notice in progress.notices:
            self.tell(notice)

    def tell(self, notice: Notice) -> None:
        """Add a notice."""
        self._append({"is": "notice", "at": self._now(), **asdict(notice)})

    def end(self, how: str, why: str | None) -> None:
        """The run has ended: "done", "stopped" or "failed"."""
        self._append({"is": "end", "at": self._now(), "how": how, "why": why})

    def _append(self, line: Mapping[str, Any]) -> None:
        try:
            if not self._size:
                self._size = self._open()
            text = (json.dumps(line, separators=(",", ":"), default=str) + "\n").encode()
            with self.path.open("ab", buffering=0) as file:
                file.write(text)
            self._size += len(text)
            if self._size > LIMIT:
                self._shrink()
        except OSError as error:
            self._give_up(error)

    def _open(self) -> int:
        """Make the folder; end a line that a kill has cut."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
                if file.read(1) != b"\n":
                    file.write(b"\n")
            return size + 1

    def _shrink(self) -> None:
        aside = self.path.with_name(".batches.tmp")
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in shrink(read(self.path), self._now()))
        aside.write_text(text)
        os.replace(aside, self.path)
        self._size = len(text)

    def _give_up(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            log.warning("the history cannot be written: %s", error)


# ------------------------------------------------------------------------------------------------- reading


def read(path: Path) -> list[Line]:
    """All whole lines of a history; none if there is no file."""
    try:
        return list(parse(path.read_bytes().splitlines()))
    except FileNotFoundError:
        return []


def parse(lines: Iterable[bytes]) -> Iterator[Line]:
    """The lines that are whole."""
    for line in lines:
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict) and "is" in found:
                yield found


class Tail:
    """Follows a history that others write: each call gives what is new, and the first one everything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self._at = 0

    def read(self) -> tuple[bool, list[bytes]]:
        """Whether the file is another one than before (then what was read before is void), and its new lines."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                anew = self._file not in (None, found.st_ino) or found.st_size < self._at
                self._at = 0 if anew else self._at
                self._file = found.st_ino
                file.seek(self._at)
                text = file.read()
        except FileNotFoundError:
            return False, []
        whole = text.rpartition(b"\n")[0]
        self._at += len(whole) + 1 if whole else 0
        return anew, whole.splitlines()


# ----------------------------------------------------------------------------------------------- shrinking


def shrink(lines: Iterable[Line], now: float, limit: int = LIMIT // 2) -> list[Line]:
    """The same history in fewer lines, in the same order."""
    young = [(place, line) for place, line in enumerate(lines) if now - when(line) <= TIERS[-1][0]]
    events = [(place, line) for place, line in young if line["is"] != "point"][-EVENTS:]
    coarse = 1.0
    while True:
        fewer = _merge(young, now, coarse)
        if len(fewer) <= 100 or sum(len(json.dumps(line)) for _, line in fewer) <= limit:
            return [line for _, line in sorted([*fewer, *events], key=lambda found: found[0])]
        coarse *= 2


def _merge(lines: list[tuple[int, Line]], now: float, coarse: float) -> list[tuple[int, Line]]:
    """Points added up by age, with the place of the last of each; points of two runs are never added."""
    count = sum(line["is"] == "point" for _, line in lines)
    single = max(1, int(SINGLE / coarse))
    made: list[tuple[object, int, Point]] = []
    run = seen = 0
    for place, line in lines:
        run += line["is"] == "start"
        if line["is"] != "point":
            continue
        seen += 1
        point = Point.of(line)
        width = _width(now - point.until, count - seen < single, coarse)
        group = (run, width, int(point.until / width)) if width else (run, place)
        if width and made and made[-1][0] == group:
            made[-1] = group, place, made[-1][2] + point
        else:
            made.append((group, place, point))
    bare = len(made) - max(1, int(DETAILED / coarse))
    return [
        (place, {"is": "point", **(replace(point, nodes={}) if at < bare else point).plain()})
        for at, (_, place, point) in enumerate(made)
    ]


def _width(age: float, is_recent: bool, coarse: float) -> float:
    """How many seconds a point of some age covers; 0 for a single batch."""
    found = next((width for limit, width in TIERS if age <= limit), TIERS[-1][1])
    return max(found, 0.0 if is_recent else TIERS[1][1]) * coarse


def when(line: Line) -> float:
    """The moment that a line stands for."""
    return float(line["until"] if line["is"] == "point" else line["at"])


# --------------------------------------------------------------------------------------------------- life


def born(pid: int) -> str | None:
    """When a process began, as the system counts it; None if it has ended, or if that cannot be known."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def is_alive(start: Line) -> bool | None:
    """Whether the process of a run is there; None if it ran on another machine."""
    if start["host"] != socket.gethostname():
        return None
    if start.get("born") is not None or Path("/proc/self").exists():
        return born(start["pid"]) == start.get("born")
    try:
        os.kill(start["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
