"""What a checkpoint holds, for people: its queries, and how far it is.  Reads only; needs no Spark and no session.

While a run goes on, what is shown is that of its last commit, or of the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weft.errors import StateError
from weft.explain.words import table
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Ledger, Manifest
from weft.observe.watermark import read_watermarks, say_time
from weft.session.complete import as_moment, is_never, say_moment
from weft.topology.model import Epoch


def read_queries(root: Path) -> list[dict[str, Any]]:
    """The queries of a checkpoint as JSON-able data."""
    checkpoint = _open(root)
    rows, notes = Ledger(checkpoint.root).last().totals.results, checkpoint.notes()
    return [
        {
            "query": name,
            "select": said["select"],
            "from": said["from"],
            "where": said["where"] or None,
            **_places(notes.get(name, {})),
            "results": rows.get(name, 0),
            "since_batch": notes.get(name, {}).get("began"),
            "complete_from": _complete(notes.get(name, {}).get("complete from")),
        }
        for name, said in sorted(checkpoint.queries().items())
    ]


def read_status(root: Path) -> dict[str, Any]:
    """How far a checkpoint is, as JSON-able data."""
    checkpoint = _open(root)
    ledger = Ledger(checkpoint.root)
    epoch, manifest = ledger.epoch(), ledger.last()
    if epoch is None:
        return {"checkpoint": checkpoint.shown, "batch": None}
    now, totals, notes = manifest.watermarks(epoch.topology), manifest.totals, checkpoint.notes()
    marks = read_watermarks(epoch.topology.clocks, manifest.newest, manifest.idle, now)
    return {
        "checkpoint": checkpoint.shown,
        "batch": manifest.batch if manifest.batch >= 0 else None,
        "epoch": epoch.number,
        "workers": epoch.topology.workers,
        "streams": {
            stream.name: {"rows": totals.rows_in.get(stream.name, 0), "late": totals.late.get(stream.name, 0)}
            for stream in epoch.topology.streams
        },
        "queries": {
            name: {"results": totals.results.get(name, 0), **_places(notes.get(name, {}))}
            for name in sorted(checkpoint.queries())
        },
        "watermarks": {
            query: {"at": None if mark.at is None else say_time(mark.at), "waits_for": mark.stream}
            for query, mark in marks.items()
        },
        "stores": {
            store.id: {"rows": manifest.held.get(store.id, 0), "users": list(store.users)}
            for store in epoch.topology.stores
        },
        "state": {
            "rows": sum(ref.rows for ref in manifest.segments),
            "bytes": sum(ref.bytes for ref in manifest.segments),
            "segments": len(manifest.segments),
        },
    }


def _places(noted: Mapping[str, Any]) -> dict[str, list[str]]:
    """Where the results of a query go: into folders, and to places elsewhere, such as URLs and topics."""
    return {"into": list(noted.get("into", ())), "to": [place.removeprefix("to ") for place in noted.get("sent", ())]}


def _complete(moment: int | None) -> str | None:
    """From which event time on results are complete, or "never"; None if nothing is missing."""
    if moment is None:
        return None
    return "never" if is_never(moment) else str(as_moment(moment))


def show_queries(root: Path) -> str:
    """The queries of a checkpoint: what they say, since when, how complete they are, and how many results they had."""
    checkpoint = _open(root)
    rows, notes = Ledger(checkpoint.root).last().totals.results, checkpoint.notes()
    blocks = [
        "\n".join(_query(name, said, notes.get(name, {}), rows.get(name, 0)))
        for name, said in sorted(checkpoint.queries().items())
    ]
    return "\n\n".join(blocks) + "\n"


def show_status(root: Path) -> str:
    """How far a checkpoint is: workers, epoch, last batch, rows read and kept, results and where they go."""
    checkpoint = _open(root)
    ledger = Ledger(checkpoint.root)
    epoch, manifest = ledger.epoch(), ledger.last()
    if epoch is None:
        return f"checkpoint {checkpoint.shown}\nno batch has been committed\n"
    lines = [*_progress(epoch, manifest), *_results(checkpoint, manifest), *_stores(epoch, manifest)]
    return "\n".join([f"checkpoint {checkpoint.shown}", *lines]) + "\n"


def _open(root: Path) -> Checkpoint:
    checkpoint = Checkpoint(root)
    if not checkpoint.exists():
        raise StateError(
            f"folder {root} is not a checkpoint",
            detail="it has no session.json.",
            hint="name the folder that the session was given, or SET checkpoint in the script.",
        )
    return checkpoint


def _query(name: str, said: Mapping[str, Any], noted: Mapping[str, Any], rows: int) -> Iterator[str]:
    began, moment = noted.get("began"), noted.get("complete from")
    since = f", since batch {began}" if began is not None else ""
    whole = "complete" if moment is None else say_moment(moment)
    yield f"query {name}  {_count(rows)}{since}, {whole}"
    yield f"  select  {said['select']}"
    yield f"  from    {said['from']}"
    if said["where"]:
        yield f"  where   {said['where']}"
    for word, places in _places(noted).items():
        yield from (f"  {word:<8}{place}" for place in places)


def _progress(epoch: Epoch, manifest: Manifest) -> Iterator[str]:
    yield f"workers {epoch.topology.workers}, epoch {epoch.number}, last batch {manifest.batch}"
    read, late = manifest.totals.rows_in, manifest.totals.late
    rows = [
        (f"stream {stream.name}", f"{read.get(stream.name, 0):,} rows read", f"{late.get(stream.name, 0):,} late")
        for stream in epoch.topology.streams
    ]
    yield from table(rows, "")
    marks = read_watermarks(epoch.topology.clocks, manifest.newest, manifest.idle, manifest.watermarks(epoch.topology))
    yield from table(
        [(f"query {query}", f"watermark {mark}", f"waits for {mark.stream}") for query, mark in marks.items()], ""
    )


def _results(checkpoint: Checkpoint, manifest: Manifest) -> list[str]:
    made, notes = manifest.totals.results, checkpoint.notes()
    names = sorted(checkpoint.queries())
    rows = [(f"query {name}", _count(made.get(name, 0)), _say_places(notes.get(name, {}))) for name in names]
    return table(rows, "")


def _say_places(noted: Mapping[str, Any]) -> str:
    return ", ".join(f"{word} {place}" for word, places in _places(noted).items() for place in places)


def _count(rows: int) -> str:
    return f"{rows:,} result{'s' * (rows != 1)}"


def _stores(epoch: Epoch, manifest: Manifest) -> list[str]:
    held = manifest.held
    rows = [
        (f"store {store.id}", f"{held.get(store.id, 0):,} rows", f"for {', '.join(store.users)}")
        for store in epoch.topology.stores
    ]
    return table(rows, "")
