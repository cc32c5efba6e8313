"""The checkpoint folder: which session it belongs to, and that only one run uses it at a time.

`session.json` describes the streams, queries and workers the state was made for.  A session that differs is
refused, with what differs.  A lock keeps a second run out; it ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.errors import StateError
from weft.expr.render import to_sql
from weft.host.sources.source import Source
from weft.host.state.durable import write_durably
from weft.host.state.manifest import Ledger
from weft.query.duration import format_duration
from weft.query.model import Query, Relation, Stream
from weft.topology.model import Store, Topology


class Checkpoint:
    """A folder with the state of one session."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._lock: int | None = None

    @property
    def id(self) -> str:
        """Names the checkpoint in the folders of its sinks."""
        return str(self._read_session()["id"])

    @property
    def last(self) -> int:
        """The newest batch; -1 if there is none."""
        return Ledger(self.root).last().batch

    def has_published(self) -> bool:
        """Whether results of any batch have left the checkpoint for their sinks."""
        last = self.last
        return last >= (1 if Ledger(self.root).staging_folder(last).exists() else 0)

    def workers(self) -> int | None:
        """The number of workers its state is placed on, if there is any."""
        found = self._read_session()
        return int(found["workers"]) if found else None

    def plans(self) -> dict[str, dict[str, str]]:
        """Query -> the strategy that was asked for and the plan that was made.  The state is placed by these plans."""
        found = self._read_session()
        return dict(found["plans"]) if found else {}

    def claim(
        self,
        topology: Topology,
        queries: Mapping[str, Query],
        sources: Mapping[str, Source],
        plans: Mapping[str, Mapping[str, str]],
    ) -> None:
        """Take the checkpoint for this session, or refuse and say why."""
        self._make()
        self._take_lock()
        try:
            mine = describe(topology, queries, sources, plans)
            found = self._read_session()
            Ledger(self.root).check()
            if not found:
                self._bind(uuid.uuid4().hex, mine)
            elif (differences := _differences(found, mine)) and not Ledger(self.root).has_committed():
                self._bind(found["id"], mine)  # nothing was ever committed, so there is nothing to protect
            elif differences:
                raise StateError(
                    f"checkpoint {self.root} belongs to another session",
                    detail="\n  ".join(["what differs:", *differences]),
                    hint="use the same streams, queries, workers and strategy, or an empty checkpoint folder.",
                )
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let other runs use it."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _bind(self, owner: str, mine: Mapping[str, Any]) -> None:
        """Bind the checkpoint to this session, and remove what a run left that committed nothing."""
        for part in _PARTS:
            shutil.rmtree(self.root / part, ignore_errors=True)
        (self.root / "done").unlink(missing_ok=True)
        write_durably(self.root / "session.json", _text(owner, mine))

    def _make(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            strangers = [p.name for p in self.root.iterdir() if not p.name.startswith(".") and p.name != "lock"]
        except OSError as error:
            hint = "choose a folder that can be written, or one that does not exist yet."
            raise StateError(f"checkpoint {self.root} cannot be made", detail=f"{error}.", hint=hint) from error
        if strangers and not (self.root / "session.json").exists() and not (self.root / "manifests").exists():
            raise StateError(
                f"folder {self.root} is not a checkpoint",
                detail=f"it holds other files: {', '.join(sorted(strangers)[:5])}.",
                hint="choose an empty folder, or one that does not exist yet.",
            )

    def _take_lock(self) -> None:
        try:
            lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            hint = "make the folder writable, or choose another checkpoint."
            raise StateError(f"checkpoint {self.root} cannot be locked", detail=f"{error}.", hint=hint) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise StateError(
                f"checkpoint {self.root} is in use", detail="another run holds its lock.", hint="stop that run first."
            ) from error
        self._lock = lock

    def _read_session(self) -> dict[str, Any]:
        path = self.root / "session.json"
        hint = "restore it from a backup of the checkpoint, or start again from an empty checkpoint."
        if not path.exists():
            if any(self.root.glob("manifests/*.json")):
                raise StateError(
                    f"{path} is missing",
                    detail="there is state, but not the description of the session it belongs to.",
                    hint=hint,
                )
            return {}
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            if missing := [key for key in _KEYS if key not in found]:
                raise ValueError(f"it lacks {', '.join(missing)}")
        except (ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged", detail=f"{error}.", hint=hint) from error
        except OSError as error:
            raise StateError(f"{path} cannot be read", detail=f"{error}.", hint=hint) from error
        return found


_KEYS = ("id", "workers", "watermark", "streams", "queries", "plans", "stores")


_PARTS = ("spark", "sources", "segments", "notes", "results", "epochs")
"""What a run writes besides manifests and its description."""


def _text(owner: str, mine: Mapping[str, Any]) -> bytes:
    return json.dumps({"id": owner, **mine}, indent=1).encode()


def describe(
    topology: Topology,
    queries: Mapping[str, Query],
    sources: Mapping[str, Source],
    plans: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Everything the state depends on, as plain data."""
    return {
        "workers": topology.workers,
        "watermark": topology.clocks[0].policy if topology.clocks else "min",
        "streams": {stream.name: _stream(stream, sources[stream.name]) for stream in topology.streams},
        "queries": {name: _query(query) for name, query in queries.items()},
        "plans": {name: dict(made) for name, made in plans.items()},
        "stores": {store.id: _store(store) for store in topology.stores},
    }


def _stream(stream: Stream, source: Source) -> dict[str, Any]:
    return {
        "columns": ", ".join(f"{f.name} {f.type}" for f in stream.schema),
        "event time": f"{stream.event_time} ({stream.unit})" if stream.event_time else "none",
        "lateness": format_duration(stream.lateness),
        "read": "once, as a table" if stream.table else "as a stream",
        "source": source.describe(),
    }


def _query(query: Query) -> dict[str, Any]:
    return {
        "from": ", ".join(f"{r.stream.name} {r.alias} within {_window(r)}" for r in query.relations),
        "where": " AND ".join(to_sql(p) for p in query.predicates),
        "select": ", ".join(f"{to_sql(o.expr)} AS {o.name}" for o in query.outputs),
    }


def _window(relation: Relation) -> str:
    return "unbounded" if relation.window is None else format_duration(relation.window)


def _store(store: Store) -> dict[str, Any]:
    keys = [[to_sql(e) for e in (*key.equal, *(() if key.range is None else (key.range,)))] for key in store.indexes]
    return {"columns": ", ".join(store.columns), "indexes": "; ".join(", ".join(key) for key in keys)}


def _differences(found: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{key}: the checkpoint has {found[key]}, this session {mine[key]}"
        for key in ("workers", "watermark")
        if found.get(key) != mine[key]
    ]
    for kind, noun in (("streams", "stream"), ("queries", "query"), ("plans", "plan of query"), ("stores", "store")):
        if kind in ("plans", "stores") and lines:
            break  # plans and stores follow from the rest: they are shown only if nothing else differs
        for name in sorted({*found[kind], *mine[kind]}):
            lines += _differences_of(f'{noun} "{name}"', found[kind].get(name), mine[kind].get(name))
    return lines


def _differences_of(what: str, found: Mapping[str, Any] | None, mine: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return [f"{what} is not in the checkpoint"]
    if mine is None:
        return [f"{what} of the checkpoint is missing"]
    return [
        f"{what}, {key}: the checkpoint has {found.get(key) or 'none'}, this session {mine[key] or 'none'}"
        for key in mine
        if found.get(key) != mine[key]
    ]
