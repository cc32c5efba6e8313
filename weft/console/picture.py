"""What a checkpoint shows: how far it is, its plan, its queries, its workers and its history, as plain data for JSON.

Reads only, and needs neither Spark nor a session.  While a run goes on, what is shown is that of its last commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from weft.errors import StateError
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Ledger, Manifest
from weft.observe.counters import Counts, bump
from weft.observe.history import DETAILED, HOUR, Line, Tail, history_file, is_alive, parse, plan_file, when
from weft.observe.point import Point
from weft.topology.model import Epoch

RECENT = 900.0
"""Seconds of points that a new viewer gets at once."""
SHOWN = 600
"""Points of a curve, at most."""
ROWS = 20
"""Last rows of a query that are shown."""
NOTICES = 50


class Picture:
    """What a checkpoint folder shows now."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._cached: dict[str, tuple[Any, Any]] = {}
        self._tail = Tail(history_file(self.root))
        self._lines: list[Line] = []
        self._mark: Line | None = None
        """The last start or end."""

    def check(self) -> None:
        """Refuse a folder that is no checkpoint."""
        if not Checkpoint(self.root).exists():
            raise StateError(
                f"folder {self.root} is not a checkpoint",
                detail="it has no session.json.",
                hint="name the folder that the session was given, or SET checkpoint in the script.",
            )

    # ------------------------------------------------------------------------------------------------- now

    def advance(self) -> tuple[bool, list[bytes]]:
        """Read what is new in the history: whether it was written anew, and its new lines."""
        anew, lines = self._tail.read()
        if anew:
            self._lines, self._mark = [], None
        for line in parse(lines):
            self._lines.append(line)
            if line["is"] in ("start", "end"):
                self._mark = line
            if len(self._lines) > DETAILED:
                self._lines[-DETAILED - 1].pop("nodes", None)
        return anew, lines

    def lines(self) -> list[Line]:
        """The whole history."""
        self.advance()
        return self._lines

    def last(self) -> Line | None:
        """The last point."""
        return next((line for line in reversed(self._lines) if line["is"] == "point"), None)

    def state(self) -> dict[str, Any]:
        """What a new viewer needs to begin: life, the last points, and what is worth knowing."""
        lines = self.lines()
        last = max((when(line) for line in lines), default=0.0)
        points = [line for line in lines if line["is"] == "point"]
        recent = [line for line in points if last - when(line) <= RECENT][-SHOWN:] or points[-1:]
        return {
            "now": time.time(),
            "checkpoint": str(self.root),
            "name": self.root.name,
            "life": self.life(),
            "points": recent,
            "events": [line for line in lines if line["is"] != "point"][-NOTICES * 4 :],
            **self._session(),
        }

    def life(self) -> dict[str, Any]:
        """Whether a run is going on, and if not, how the last one ended."""
        return read_life(self._mark, when(self._lines[-1]) if self._lines else None)

    def _session(self) -> dict[str, Any]:
        checkpoint = Checkpoint(self.root)
        streams = checkpoint.streams()
        return {
            "workers": checkpoint.workers(),
            "streams": {name: dict(how) for name, how in streams.items()},
            "queries": sorted(checkpoint.queries()),
        }

    # ------------------------------------------------------------------------------------------------ plan

    def manifest(self) -> Manifest:
        """The last commit."""
        folder = self.root / "manifests"
        return self._once("manifest", _age(folder), lambda: Ledger(self.root).last())

    def epoch(self) -> Epoch | None:
        """The plan that the state was made by; None if there is no state."""
        return self._once(
            "epoch", (self.manifest().epoch, self.manifest().batch < 0), lambda: Ledger(self.root).epoch()
        )

    def plan(self) -> dict[str, Any]:
        """The plan, what it was chosen from, and what every part of it holds and has done."""
        path, manifest = plan_file(self.root), self.manifest()
        written = self._once("plan", _age(path), lambda: json.loads(path.read_text()) if path.exists() else None)
        totals = manifest.totals
        return {
            "plan": written,
            "epoch": manifest.epoch,
            "batch": manifest.batch,
            "stores": read_stores(manifest),
            "workers": read_workers(manifest),
            "probed": totals.probed,
            "matched": totals.matched,
            "rows": totals.rows_in,
            "results": totals.results,
            "replication": totals.replication_factor,
            "network": totals.network_factor,
            "load": totals.load,
        }

    # --------------------------------------------------------------------------------------------- queries

    def queries(self) -> dict[str, Any]:
        """Query -> what it says, since when, how complete it is, and where its results go."""
        checkpoint = Checkpoint(self.root)
        said, notes, results = checkpoint.queries(), checkpoint.notes(), self.manifest().totals.results
        return {
            name: {
                "select": facts.get("view") or facts["select"], "from": facts["from"], "where": facts["where"],
                "group by": facts.get("group by"), "having": facts.get("having"),
                "began": notes.get(name, {}).get("began"), "complete from": notes.get(name, {}).get("complete from"),
                "into": notes.get(name, {}).get("into", []), "results": results.get(name, 0),
            }
            for name, facts in said.items()
        }  # fmt: skip

    def rows(self, query: str) -> dict[str, Any]:
        """The last rows of a query, from the newest file of its folder; None if it has no folder."""
        folders = Checkpoint(self.root).notes().get(query, {}).get("into", [])
        if not folders:
            return {"columns": [], "rows": None, "why": "its results go to no folder that can be read from here."}
        files = sorted(Path(folders[0]).rglob("*.parquet"), key=lambda file: file.stat().st_mtime, reverse=True)
        for file in files[:5]:
            found = _last_rows(file)
            if found is not None and found.num_rows:
                columns = [name for name in found.column_names if not name.startswith("#")]
                shown = [[_say(row[name]) for name in columns] for row in found.to_pylist()]
                return {"columns": columns, "rows": shown, "from": file.name}
        return {"columns": [], "rows": [], "why": "there are no rows yet."}

    # --------------------------------------------------------------------------------------------- history

    def history(self, span: float) -> dict[str, Any]:
        """The curves of the last `span` seconds in at most `SHOWN` points, and all marks on them."""
        lines = self.lines()
        last = max((when(line) for line in lines), default=0.0)
        young = [line for line in lines if last - when(line) <= span]
        points = [line for line in young if line["is"] == "point"]
        width = span / SHOWN
        return {
            "points": [point.plain() for point in thin_points(points, width)],
            "events": [line for line in young if line["is"] != "point"],
        }

    def _once(self, name: str, age: Any, make: Any) -> Any:
        """What was read before, as long as its file is the same."""
        known = self._cached.get(name)
        if known is None or known[0] != age or age is None:
            known = self._cached[name] = (age, make())
        return known[1]


def read_life(mark: Line | None, last: float | None) -> dict[str, Any]:
    """The state of a session, given the last start or end in its history and the moment of the last line."""
    if mark is None:
        return {"state": "new", "at": None}
    if mark["is"] == "end":
        return {"state": mark["how"], "at": mark["at"], "why": mark["why"]}
    alive = is_alive(mark)
    if alive is None:  # on another machine: only its silence can tell
        silent = time.time() - (last or mark["at"]) > HOUR / 60 + 10 * (mark.get("every") or 0)
        return {"state": "silent" if silent else "running", "at": mark["at"], "host": mark["host"], "last": last}
    return {"state": "running" if alive else "killed", "at": mark["at"] if alive else last, "every": mark.get("every")}


def read_stores(manifest: Manifest) -> dict[str, Any]:
    """Store -> rows, bytes and segments, and rows on each worker."""
    found: dict[str, Any] = {}
    for ref in manifest.segments:
        store = found.setdefault(ref.store, {"rows": 0, "bytes": 0, "segments": 0, "workers": {}})
        store["rows"] += ref.rows
        store["bytes"] += ref.bytes
        store["segments"] += 1
        bump(store["workers"], str(ref.worker), ref.rows)
    return found


def read_workers(manifest: Manifest) -> dict[str, Any]:
    """Worker -> rows and bytes of state."""
    rows: Counts = {}
    size: Counts = {}
    for ref in manifest.segments:
        bump(rows, str(ref.worker), ref.rows)
        bump(size, str(ref.worker), ref.bytes)
    return {worker: {"rows": rows[worker], "bytes": size[worker]} for worker in sorted(rows, key=int)}


def thin_points(lines: Iterable[Mapping[str, Any]], width: float) -> list[Point]:
    """Points added up so that each covers `width` seconds."""
    made: list[tuple[int, Point]] = []
    for line in lines:
        point = Point.of({**line, "nodes": {}})
        place = int(point.until / width)
        if made and made[-1][0] == place and point.since - made[-1][1].until < width:
            made[-1] = place, made[-1][1] + point
        else:
            made.append((place, point))
    return [point for _, point in made]


def _age(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever a file, or what is in a folder, does; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _last_rows(file: Path) -> pa.Table | None:
    try:
        whole = ds.dataset(file, format="parquet")
        count = whole.count_rows()
        return whole.take(pa.array(range(max(0, count - ROWS), count), pa.int64()))
    except (OSError, pa.ArrowException):
        return None  # merged away meanwhile


def _say(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else str(value)
