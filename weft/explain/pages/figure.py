"""A number of a plan, as it was expected and as it came."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it was expected and as it came."""

    unit: str
    estimated: float | None = None
    measured: int | None = None

    @property
    def ratio(self) -> float | None:
        """Measured by estimated."""
        if self.measured is None or not self.estimated:
            return None
        return self.measured / self.estimated
