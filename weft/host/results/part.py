"""The names of result files: they say which batches a file holds, and whether it was merged from others."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_NAME = re.compile(r"(\d{12})-(?:m(\d+)-(\d{12})|.*)\.parquet")


@dataclass(frozen=True, slots=True)
class Part:
    """A file of results: of one batch, or of several that were merged."""

    name: str
    first: int
    last: int
    level: int = 0

    @classmethod
    def of(cls, name: str) -> Part | None:
        """What the name of a file says; None if it is not a file of results."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        last, level, first = found.groups()
        return cls(name, int(first or last), int(last), int(level or 0))

    @classmethod
    def merged(cls, parts: Sequence[Part]) -> Part:
        """The part that others become."""
        first, last = min(part.first for part in parts), max(part.last for part in parts)
        level = 1 + max(part.level for part in parts)
        return cls(f"{last:012d}-m{level}-{first:012d}.parquet", first, last, level)
