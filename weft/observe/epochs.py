"""What an epoch of a run showed and decided, for people."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EpochRecord:
    """One epoch: a stretch of batches, what they showed, and what was decided by it."""

    number: int
    first: int
    """Its first batch."""
    last: int
    """Its last batch."""
    rows: int
    """Rows that came."""
    seconds: float
    """In batches."""
    moved: tuple[str, ...] = ()
    """Statistics that have changed by more than half."""
    plans: int = 0
    """How many plans were weighed."""
    decision: str = "not decided yet"
    """What was decided by its statistics, and why."""
    gain: float | None = None
    """The part of the work that the best other plan is predicted to save; None if there is none."""
    cost: float | None = None
    """Seconds of the switch, as predicted."""
    switch: int | None = None
    """With which epoch the new plan begins; None if the plan stays."""
    changed: str = ""
    """The change of plan that was made when the epoch began; empty if there was none."""
    effect: float | None = field(default=None)
    """How many times as fast rows were processed as in the epoch before that change; None if there was none."""

    @property
    def micros(self) -> float | None:
        """Microseconds of batches for each row; None if none came."""
        return self.seconds / self.rows * 1e6 if self.rows else None

    def line(self) -> str:
        """The epoch in one line."""
        speed = "" if self.micros is None else f", {self.micros:.2f} us a row"
        parts = [f"epoch {self.number}: batches {self.first} to {self.last}, {self.rows:,} rows{speed}"]
        parts += [self.changed] if self.changed else []
        parts += [f"{self.effect:.2f} times as fast as before"] if self.effect is not None else []
        parts += [f"moved: {', '.join(self.moved[:3])}"] if self.moved else []
        return "; ".join([*parts, self.decision])

    def __str__(self) -> str:
        return self.line()
