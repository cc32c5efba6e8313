"""What a run works on, and how a session changes it while the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from weft.errors import WeftError
from weft.expr.evaluate import Functions
from weft.host.batch import Report
from weft.host.migration.migrate import Change, Summary
from weft.host.results.sink import Sink
from weft.host.sources.source import Source
from weft.host.state.manifest import Manifest
from weft.topology.model import Topology


@dataclass(frozen=True)
class Work:
    """A plan with everything that it needs."""

    topology: Topology
    functions: Functions
    sinks: Mapping[str, tuple[Sink, ...]]
    sources: Mapping[str, Source]
    session: Mapping[str, Any]
    """What the state depends on, see :func:`weft.host.state.checkpoint.describe`."""
    backfill: tuple[str, ...] = ()
    """New queries whose results among old rows are wanted too."""
    saves: float = 0.0
    """The part of the time of a batch that the plan is predicted to save; 0 if it was not chosen for that."""
    note: Callable[[Manifest], Mapping[str, Any]] = lambda _manifest: {}
    """What the checkpoint notes of the queries for people, if the work begins after a manifest."""

    def describe(self, manifest: Manifest) -> dict[str, Any]:
        """What the checkpoint keeps of the session, if the work begins after a manifest."""
        return {**self.session, "notes": self.note(manifest)}

    @property
    def change(self) -> Change:
        """What a migration to this plan is asked for."""
        return Change(self.topology, self.backfill)


class Changes(Protocol):
    """Asked between two batches whether the plan is to change."""

    @property
    def sample(self) -> int:
        """How many rows each task of the next batch draws of a stream, for statistics."""
        ...

    def wanted(self) -> Work | None:
        """The next work; None if everything stays as it is."""
        ...

    def seen(self, manifest: Manifest, report: Report, seconds: float) -> None:
        """A batch was committed, in so many seconds; its plan may change before the next one."""
        ...

    def made(self, before: Mapping[str, Any], work: Work, summary: Summary, manifest: Manifest, seconds: float) -> None:
        """The change was made: `manifest` is its commit, `before` the session as the checkpoint noted it before."""
        ...

    def refused(self, work: Work, error: WeftError) -> None:
        """The change could not be made; the work before it goes on."""
        ...
