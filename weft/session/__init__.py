"""A session: streams, queries and sinks, and the run that joins them."""

from weft.session.session import Session

__all__ = ["Session"]
