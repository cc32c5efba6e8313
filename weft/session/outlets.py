"""The sinks of all queries of a session: every query has one, and a place belongs to one checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from weft.errors import SinkError
from weft.host.results.left import publish_left, refuse_unsent
from weft.host.results.sink import Sink
from weft.host.state.checkpoint import Checkpoint
from weft.session.query import QueryHandle


def check_sinks(queries: Mapping[str, QueryHandle]) -> None:
    """Refuse a query whose results go nowhere, and a folder that two sinks write into."""
    owners: dict[Path, str] = {}
    for name, handle in queries.items():
        if not handle.sinks:
            raise SinkError(
                f'query "{name}" has no sink', hint="add q.to_parquet(path), q.to_memory() or q.foreach_batch(f)."
            )
        for folder in (sink.folder for sink in handle.sinks if sink.folder is not None):
            place = folder.resolve()
            if place in owners:
                raise SinkError(
                    f"two sinks write into folder {folder}",
                    detail=f'one is of query "{owners[place]}", one of query "{name}".',
                    hint="give each sink a folder of its own.",
                )
            owners[place] = name


def claim_sinks(checkpoint: Checkpoint, queries: Mapping[str, QueryHandle], kept: Collection[str]) -> None:
    """Take the places of results for a checkpoint; if one is refused, the others stay as they are."""
    visit_sinks(checkpoint, queries, kept, lambda sink: sink.check)
    visit_sinks(checkpoint, queries, kept, lambda sink: sink.claim)


def visit_sinks(
    checkpoint: Checkpoint,
    queries: Mapping[str, QueryHandle],
    kept: Collection[str],
    call: Callable[[Sink], Callable[..., None]],
) -> None:
    """Call something of every sink.  `kept` are queries that the checkpoint has, which may have published results."""
    owner, last = checkpoint.id, checkpoint.last
    known = kept if checkpoint.has_published() else ()
    for name, handle in queries.items():
        for sink in handle.sinks:
            call(sink)(owner, published=name in known, last=last)


def publish_results_left(checkpoint: Checkpoint, kept: Collection[str]) -> None:
    """Publish results that a run which died has left of queries that go."""
    notes = checkpoint.notes()
    going = [name for name in checkpoint.queries() if name not in kept]
    refuse_unsent(checkpoint.ledger, {name: notes.get(name, {}).get("sent", ()) for name in going})
    publish_left(checkpoint.ledger, {name: notes.get(name, {}).get("into", ()) for name in going})
