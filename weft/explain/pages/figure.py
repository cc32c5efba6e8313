"""A number of a plan, as it was estimated and as it was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it was estimated and as it was measured."""

    unit: str
    estimated: float | None = None
    measured: int | None = None

    @property
    def ratio(self) -> float | None:
        """Ratio of measured to estimated."""
        if self.measured is None or not self.estimated:
            return None
        return self.measured / self.estimated
