"""What sampled rows hold of one key: its codes, and its values with how often each occurs.

Many queries join a stream by the same few keys.  All that is asked of a key begins with its values in order, so they
are sorted once for all questions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from weft.kernels.codes import Bools, Codes, Ints


class Counted(NamedTuple):
    """Different values in order, and how often each occurs."""

    values: Ints
    counts: Ints


@dataclass(frozen=True, eq=False)
class Held:
    """One key of sampled rows."""

    codes: Codes
    in_stream: dict[bool, float | None] = field(default_factory=dict)
    """Declared unique or not -> how many values the whole stream has, once that was asked."""

    @cached_property
    def there(self) -> Bools:
        """Which rows have a value."""
        return np.ones(len(self.codes.values), dtype=np.bool_) if self.codes.valid is None else self.codes.valid

    @cached_property
    def present(self) -> Ints:
        """The codes of rows with a value."""
        return self.codes.values[self.there]

    @cached_property
    def counted(self) -> Counted:
        """The values."""
        return count(self.present)


def count(codes: Ints) -> Counted:
    """Different values and how often each occurs."""
    return Counted(*np.unique(codes, return_counts=True))
