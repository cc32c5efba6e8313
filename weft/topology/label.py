"""What a label says: the stream that a relation reads, and the first batch whose rows count for it.

`weft.optimizer.lower.labels` makes labels and lists their forms.
"""

from __future__ import annotations


def stream_of(label: str) -> str:
    """The stream behind a label; a stream's name has no tilde."""
    return label.partition("~")[0]


def since_of(label: str) -> int:
    """The first batch whose rows count for a label."""
    return int(label.rpartition("~@")[2].partition(":")[0]) if "~@" in label else 0


def label_since(label: str, since: int, apart: int = 0) -> str:
    """The label of the rows that came in a batch or later, kept apart from others by a number."""
    return f"{label}~@{since}:{apart}" if apart else f"{label}~@{since}" if since else label
