"""Notices: what a plan or a run wants a person to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Notice:
    """Something worth knowing."""

    kind: str
    """A stable name: one of `weft.explain.notices.KINDS`, or "bad-files" or "lost-records"."""
    message: str
    detail: str
    hint: str
    action: str
    """The code or the call that would change it."""

    def lines(self) -> list[str]:
        """The notice as text."""
        return [
            f"notice {self.kind}: {self.message}",
            f"  detail: {self.detail}",
            f"  hint: {self.hint}",
            f"  action: {self.action}",
        ]


def say_lost(lost: Mapping[str, int]) -> Iterator[Notice]:
    """That records of streams were deleted before they were read."""
    if lost:
        total = sum(lost.values())
        they = "record was deleted before it was read" if total == 1 else "records were deleted before they were read"
        yield Notice(
            "lost-records",
            f"{total:,} {they}",
            "; ".join(f'stream "{stream}": {count:,}' for stream, count in lost.items()) + ".",
            "results that need them are missing; keep records longer: retention.ms of the topic.",
            'on_loss="fail"',
        )
