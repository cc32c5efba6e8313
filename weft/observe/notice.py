"""Notices: what a plan or a run wants a person to know."""

from __future__ import annotations

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
