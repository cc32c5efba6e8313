"""A session as it shows itself: at most ten lines, whatever it holds.  Showing reads nothing and plans nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.session.session import Session

MOST = 4
"""So many streams and queries are named."""


def show_session(session: Session) -> str:
    """What a session holds and whether it runs."""
    state = "running" if session.is_running else "not running"
    head = f"<session, checkpoint {session.checkpoint.shown}, {state}>"
    streams = (repr(stream) for stream in session.streams.values())
    queries = (repr(query) for query in session.queries.values())
    return "\n".join([head, *_first(streams, "stream", "streams"), *_first(queries, "query", "queries")])


def _first(shown: Iterable[str], one: str, many: str) -> Iterator[str]:
    found = list(shown)
    named = len(found) if len(found) <= MOST else MOST - 1
    yield from (f"  {line}" for line in found[:named])
    if rest := len(found) - named:
        yield f"  and {rest} more {one if rest == 1 else many}"
