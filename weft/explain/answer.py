"""When the results of a query that is made of several parts come, and whether they stay."""

from __future__ import annotations

from weft.query.derived import hidden
from weft.query.model import Query


def answer(query: Query) -> str:
    """In plain words; empty if there is nothing to say but that every result comes once, at once."""
    if not any(relation.stream.made for relation in query.relations):
        return ""
    if query.is_changing:
        return "come at once, and are taken back when later rows say so: a sink that takes changes is needed"
    if any(part.grouping is not None and part.grouping.closing is not None for part in hidden({"": query}).values()):
        return "come once; a row that waits for partners comes when the watermark says that none can come any more"
    return "come once, at once"
