"""What people may ask later about the queries of a checkpoint, noted when a plan begins."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from weft.host.results.sink import Sink
from weft.host.state.checkpoint import note_query
from weft.host.state.manifest import Manifest
from weft.optimizer.choose import Choice
from weft.session.complete import complete_from
from weft.session.query import QueryHandle
from weft.topology.clock import Policy
from weft.topology.model import Topology

Noting = Callable[[Manifest], dict[str, Any]]


def noting(
    plan: Topology,
    policy: Policy,
    handles: Mapping[str, QueryHandle],
    choices: Collection[Choice],
    kept: Collection[str],
    known: Mapping[str, Any],
) -> Noting:
    """Makes the notes on queries as they are now, once they have begun after a manifest.

    `kept` are queries that the checkpoint has as they are; its own notes on them, `known`, stay but for their sinks.
    """
    queries = {name: handle.query for name, handle in handles.items()}
    sinks = {name: handle.sinks for name, handle in handles.items()}
    seen = {choice.name: choice.known.statistics for choice in choices}

    def note(manifest: Manifest) -> dict[str, Any]:
        lacking = complete_from(plan, queries, manifest.newest, manifest.partial, policy, manifest.idle)
        made = {
            name: note_query(manifest.batch + 1, lacking.get(name), _places(sinks[name]), seen.get(name))
            for name in queries
        }
        same = [name for name in made if name in kept and name in known]
        old = {name: {**known[name], "sent": [], **_places(sinks[name])} for name in same}
        return {**made, **old}

    return note


def _places(sinks: Iterable[Sink]) -> dict[str, list[str]]:
    """Where the results of a query go, as far as that outlives the run: into folders, and to places elsewhere."""
    sent = [sink.address for sink in sinks if sink.address is not None]
    into = [str(sink.folder) for sink in sinks if sink.folder is not None]
    return {"into": into, "sent": sent} if sent else {"into": into}
