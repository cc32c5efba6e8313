"""The checkpoint folder: which session it belongs to, and that only one run uses it at a time.

`session.json` holds the id of the checkpoint.  What the state was made for (streams, queries, workers, plans) is beside
the plan of each epoch, so that one manifest makes both valid.  A session may have more queries, other workers and other
plans: the state is migrated.  It may not read its streams differently, and may not leave out or change a query unless
that query was dropped: such a session is refused, with what differs.

Beside these it notes of each query what people ask: the batch it began with, from when on it is complete, and where its
results go.  These notes are never compared.

A lock keeps a second run out; it ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.errors import StateError
from weft.expr.render import to_sql
from weft.expr.spelling import spell
from weft.host.sources.source import Source
from weft.host.state.depot import Depot
from weft.host.state.difference import say_difference
from weft.host.state.durable import write_durably
from weft.host.state.manifest import Ledger
from weft.host.state.mirror import Mirror
from weft.host.state.place import Place
from weft.host.url import read_url
from weft.query.derived import apart_of
from weft.query.duration import format_duration
from weft.query.model import Query, Relation, Stream
from weft.query.unfold import keys, unfold
from weft.stats.model import Statistics
from weft.topology.model import Topology


class Checkpoint:
    """The state of one session: a folder, or a depot and the driver's mirror of it."""

    def __init__(self, place: str | os.PathLike[str]) -> None:
        self._mirror = None if (url := read_url(place)) is None else Mirror(Depot(url))
        self.root = self._mirror.root if self._mirror is not None else Path(place).absolute()
        """The folder, or the mirror."""
        self._lock: int | None = None

    @property
    def shown(self) -> str:
        """Where it is, for people."""
        return str(self.root) if self._mirror is None else self._mirror.depot.shown

    @property
    def place(self) -> Place:
        """Where tasks find it."""
        return Place(str(self.root), None if self._mirror is None else self._mirror.depot)

    @property
    def ledger(self) -> Ledger:
        """Its manifests and what they own."""
        if self._mirror is None:
            return Ledger(self.root)
        found = Ledger(self.root, self._mirror.depot)
        found.own = self._mirror.check
        return found

    @property
    def id(self) -> str:
        """Names the checkpoint in the folders of its sinks."""
        return str(self._read_session()["id"])

    @property
    def last(self) -> int:
        """The newest batch; -1 if there is none."""
        return Ledger(self.root).last().batch

    def exists(self) -> bool:
        """Whether a session has ever taken it."""
        return bool(self._read_session())

    def has_published(self) -> bool:
        """Whether results of any batch have left the checkpoint for their sinks."""
        last = self.last
        ledger = Ledger(self.root)
        return last >= (1 if ledger.staged(ledger.last()).exists() else 0)

    def workers(self) -> int | None:
        """The number of workers its state is placed on, if there is any."""
        found = self._read_session()
        return int(found["workers"]) if found else None

    def plans(self) -> dict[str, dict[str, str]]:
        """Query -> the strategy that was asked for and the plan that was made.  The state is placed by these plans."""
        found = self._read_session()
        return dict(found["plans"]) if found else {}

    def brought(self) -> list[str] | None:
        """The streams that Spark brings, in the order in which it knows them; None if there is no state."""
        found = Ledger(self.root).session()
        return list(found["brought"]) if found else None

    def streams(self) -> dict[str, dict[str, str]]:
        """Stream -> how it is read, for all streams that were ever read."""
        found = self._read_session()
        return dict(found["streams"]) if found else {}

    def queries(self) -> dict[str, dict[str, Any]]:
        """Query -> what it says, for the queries that the state was made for."""
        found = self._read_session()
        return dict(found["queries"]) if found else {}

    def notes(self) -> dict[str, dict[str, Any]]:
        """Query -> what is noted of it for people, see :func:`note_query`."""
        return dict(self._read_session().get("notes", {}))

    def claim(self, mine: Mapping[str, Any], dropped: Collection[str] = ()) -> None:
        """Take the checkpoint for a session that :func:`describe` described, or refuse and say why.

        Queries in `dropped` may be missing or differ.
        """
        self._make()
        self._take_lock()
        try:
            self.check(mine, dropped)
            found = self._read_session()
            if not found:
                self._bind(uuid.uuid4().hex, mine)
            elif not Ledger(self.root).has_committed() and found != {"id": found["id"], **mine}:
                self._bind(found["id"], mine, self._has_begun(found, mine))  # nothing was ever committed
        except BaseException:
            self.release()
            raise

    def check(self, mine: Mapping[str, Any], dropped: Collection[str] = ()) -> None:
        """Refuse as :meth:`claim` does, without taking or changing anything."""
        found, ledger = self._read_session(), Ledger(self.root)
        ledger.check()
        if found and ledger.has_committed() and (refused := _refused(found, mine, dropped)):
            raise self._refuse(refused)

    def check_streams(self, mine: Mapping[str, Any]) -> None:
        """Refuse a session that reads its streams in another way than the state was made from."""
        if refused := _refused_streams(self._read_session(), mine):
            raise self._refuse(refused)

    def _refuse(self, differences: Sequence[str]) -> StateError:
        columns = any(line.startswith("stream ") and ", columns: " in line for line in differences)
        declare = "declare the columns that the checkpoint has, by schema= where files are read; " if columns else ""
        return StateError(
            f"checkpoint {self.shown} belongs to another session",
            detail="\n  ".join(["what differs:", *differences]),
            hint=f'{declare}use the same streams and queries, drop a query that is meant to go: s.drop("name"), '
            "or use an empty checkpoint folder.",
        )

    def release(self) -> None:
        """Let other runs use it."""
        if self._mirror is not None:
            self._mirror.release()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _has_begun(self, found: Mapping[str, Any], mine: Mapping[str, Any]) -> bool:
        """Whether a first batch has begun, over the streams of this session: functions of the user may have seen it."""
        is_same = all(found.get(key) == mine.get(key) for key in ("streams", "brought"))
        return is_same and ((self.root / SOURCES / NEXT).exists() or any((self.root / SPARK).glob("offsets/*")))

    def _bind(self, owner: str, mine: Mapping[str, Any], begun: bool = False) -> None:
        """Bind the checkpoint to this session, and remove what a run left that committed nothing.

        What the first batch reads stays, if it has begun: it comes again with the same rows.
        """
        for part in _PARTS:
            if not (begun and part in (SPARK, SOURCES)):
                self.ledger.discard(self.root / part)
        (self.root / "done").unlink(missing_ok=True)
        write_durably(self.root / "session.json", _text(owner, mine))

    def _make(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            strangers = [p.name for p in self.root.iterdir() if not p.name.startswith(".") and p.name not in _BEFORE]
        except OSError as error:
            hint = "choose a folder that can be written, or one that does not exist yet."
            raise StateError(f"checkpoint {self.shown} cannot be made", detail=f"{error}.", hint=hint) from error
        if strangers and not (self.root / "session.json").exists() and not (self.root / "manifests").exists():
            raise StateError(
                f"folder {self.shown} is not a checkpoint",
                detail=f"it holds other files: {', '.join(sorted(strangers)[:5])}.",
                hint="choose an empty folder, or one that does not exist yet.",
            )

    def _take_lock(self) -> None:
        if self._mirror is not None:
            self._mirror.take()
            return
        try:
            lock = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            hint = "make the folder writable, or choose another checkpoint."
            raise StateError(f"checkpoint {self.shown} cannot be locked", detail=f"{error}.", hint=hint) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise StateError(
                f"checkpoint {self.shown} is in use", detail="another run holds its lock.", hint="stop that run first."
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
            found |= Ledger(self.root).session()
            if missing := [key for key in _KEYS if key not in found]:
                raise ValueError(f"it lacks {', '.join(missing)}")
        except (ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged", detail=f"{error}.", hint=hint) from error
        except OSError as error:
            raise StateError(f"{path} cannot be read", detail=f"{error}.", hint=hint) from error
        return found


FRAME = "DataFrame"
"""How a checkpoint calls the source of a stream that Spark brings."""
SUBSCRIPTIONS = "subscriptions"
"""Folder with changes of subscriptions that were asked for by hand."""
SPARK, SOURCES, NEXT = "spark", "sources", "next.json"
"""Folders with how far Spark and Weft have read streams, and the file in the second that says it of a begun batch."""
FILES = "#files"
"""Stands for all streams that are read from files, beside streams that Spark brings."""

_KEYS = ("id", "workers", "watermark", "streams", "queries", "plans")


_BEFORE = ("lock", SUBSCRIPTIONS)
"""What may be there before the first run."""
_PARTS = (SPARK, SOURCES, "segments", "notes", "results", "epochs")
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
        "watermark": topology.clocks[0].policy if topology.clocks else None,
        "streams": {stream.name: _stream(stream, sources[stream.name]) for stream in topology.streams},
        "queries": {name: describe_query(query) for name, query in queries.items()},
        "plans": {name: dict(made) for name, made in plans.items()},
    }


def _stream(stream: Stream, source: Source) -> dict[str, Any]:
    return {
        "columns": ", ".join(f"{f.name} {f.type}" for f in stream.schema),
        "event time": f"{stream.event_time} ({stream.unit})" if stream.event_time else "none",
        "lateness": format_duration(stream.lateness),
        "read": "once, as a table" if stream.is_fixed else "as a table" if stream.table else "as a stream",
        "source": source.describe(),
        **({} if stream.changes is None else {"changes": str(stream.changes)}),
    }


def describe_query(query: Query) -> dict[str, Any]:
    """What a query says, as plain data: two queries with the same description have the same answer.

    "where" is for people, "means" is the same in one spelling.
    """
    return {
        "from": ", ".join(f"{r.stream.name} {r.alias} within {_window(r)}" for r in query.relations),
        "where": " AND ".join(to_sql(p) for p in query.predicates),
        "means": spell(query.predicates),
        "select": ", ".join(f"{to_sql(o.expr)} AS {o.name}" for o in query.outputs),
        "since": {relation.alias: relation.since for relation in query.relations if relation.since},
        "apart": apart_of(query),
        **_describe_groups(query),
        **_describe_subscribers(query),
    }


def _describe_subscribers(query: Query) -> dict[str, str]:
    asked = query.subscribers
    if asked is None:
        return {}
    shown = ", ".join(f"{to_sql(o.expr)} AS {o.name}" for o in asked.outputs)
    return {
        "for": f"{asked.stream.name} by {', '.join(asked.key)}",
        "asked": " AND ".join(to_sql(p) for p in (*asked.asked, *asked.since)),
        "shown": shown,
    }


def _describe_groups(query: Query) -> dict[str, str]:
    """What is made of the joined rows; nothing where they are the results, as in checkpoints that knew no groups."""
    if query.grouping is None:
        return {}
    having = query.grouping.having
    return {
        "group by": ", ".join(to_sql(key) for key in keys(query)),
        "having": "" if having is None else to_sql(unfold(query, having)),
        "view": ", ".join(f"{to_sql(unfold(query, o.expr))} AS {o.name}" for o in query.grouping.outputs),
    }


def note_query(
    began: int, complete_from: int | None, places: Mapping[str, list[str]], statistics: Statistics | None = None
) -> dict[str, Any]:
    """What is noted of a query for people.

    `began` is its first batch, `complete_from` the event time in microseconds from which on nothing is missing; None if
    nothing ever was.  `places` are where its results go.  `statistics` are those that its plan was chosen by.
    """
    noted = {"began": began, "complete from": complete_from, **places}
    return noted if statistics is None else {**noted, "statistics": statistics.to_json()}


def _window(relation: Relation) -> str:
    return "unbounded" if relation.window is None else format_duration(relation.window)


def _refused(found: Mapping[str, Any], mine: Mapping[str, Any], dropped: Collection[str]) -> list[str]:
    """What differs and cannot be migrated."""
    lines = _refused_streams(found, mine)
    for name in sorted({*found["queries"]} - {*dropped}):
        if name not in mine["queries"]:
            lines.append(f'query "{name}" of the checkpoint is missing')
        else:
            old, new = found["queries"][name], mine["queries"][name]
            lines += [] if is_same_query(old, new) else _differences(f'query "{name}"', old, new)
    return lines


def _refused_streams(found: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    lines = []
    if found["watermark"] and mine["watermark"] and found["watermark"] != mine["watermark"]:
        lines = [f"watermark: the checkpoint has {found['watermark']}, this session {mine['watermark']}"]
    for name, how in sorted(mine["streams"].items()):
        kind = name if how["source"] == FRAME else FILES
        if kind not in mine["brought"] and (kind != FILES or mine["brought"]):
            what = "a DataFrame" if kind != FILES else "read from files"
            lines.append(f'stream "{name}" is {what}; Spark reads only what was declared when the first batch was read')
    for name in sorted({*found["streams"]} & {*mine["streams"]}):
        lines += _differences(f'stream "{name}"', found["streams"][name], mine["streams"][name])
    return lines


def is_same_query(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two descriptions are of the same query: it may be spelt differently, and share stores or not."""
    written = "means" if "means" in one and "means" in other else "where"
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {"apart", "where", "means"} | {written})


def say_changes(found: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """What differs and leads to a migration, for people."""
    old, new = found["queries"], mine["queries"]
    lines = [f'query "{name}" is new' for name in new if name not in old]
    lines += [f'query "{name}" is replaced' for name in new if name in old and not is_same_query(old[name], new[name])]
    lines += [f'query "{name}" is dropped' for name in old if name not in new]
    if found["workers"] != mine["workers"]:
        lines.append(f"{mine['workers']} workers instead of {found['workers']}")
    plans = [name for name in new if name in old and found["plans"].get(name) != mine["plans"].get(name)]
    return [*lines, *(f'query "{name}" has another plan' for name in plans)]


def _differences(what: str, found: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    return [
        f"{what}, {key}: {say_difference(found.get(key), mine.get(key))}"
        for key in {**mine, **found}
        if key not in ("apart", "means") and found.get(key) != mine.get(key)
    ]
