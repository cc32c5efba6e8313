"""How the plans of a session follow its data: the session as `weft.adapt` sees it.

What must hold: a session that has changed since its plans were weighed is left alone.  What is saved beside the state
is advice: without it a run begins with its first epoch, and the results are the same.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.adapt.adaptation import Adaptation
from weft.adapt.decide import Situation
from weft.adapt.gathering import Seen
from weft.adapt.length import Length, read_length
from weft.adapt.measure import Subject
from weft.errors import PlanError, StateError
from weft.host.batch import Report
from weft.host.migration.compare import compare
from weft.host.state.durable import read_sealed, write_sealed
from weft.host.state.manifest import Manifest
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.optimizer.plan import topology
from weft.session.arguments import check_flags
from weft.session.fit import Fit
from weft.stats.model import Statistics
from weft.topology.model import Topology

if TYPE_CHECKING:
    from weft.session.session import Session

FILE = "adapt.json"


@dataclass(frozen=True, slots=True)
class Following:
    """What a user wishes of plans that follow the data."""

    adapt: bool | None = None
    """None is on for runs that go on, and off for those that read what is there."""
    length: Length = field(default_factory=lambda: Length("wall", 10_000_000))
    threshold: float = 0.05

    def is_on(self, goes_on: bool) -> bool:
        """Whether plans follow the data in a run."""
        return goes_on if self.adapt is None else self.adapt

    def having(
        self, adapt: bool | None, epoch: str | datetime.timedelta | float | None, threshold: float | None
    ) -> Following:
        """The same with what is given."""
        check_flags(adapt=adapt)
        if threshold is not None and not (isinstance(threshold, int | float) and 0 <= threshold < 1):
            raise PlanError(
                f"threshold is {threshold!r}",
                detail="it is the part of the work that another plan must save.",
                hint="use a number from 0 to 1, such as 0.05.",
            )
        return Following(
            self.adapt if adapt is None else adapt,
            self.length if epoch is None else read_length(epoch),
            self.threshold if threshold is None else float(threshold),
        )


class SessionPlans:
    """The plans of a session."""

    def __init__(self, session: Session, ask: Callable[[str, float], None], busy: Callable[[], bool]) -> None:
        """`ask` lets the run take the session as it is, and says why and which part of a batch that saves.

        `busy` tells whether a change is being made.
        """
        self._session, self._ask, self._busy = session, ask, busy

    def subject(self, before: Statistics) -> Subject:
        """What statistics are about now."""
        s = self._session
        with s.lock:
            queries = {choice.name: choice.query for choice in s.choices}
            said = [choice.known.statistics or Statistics() for choice in s.choices]
            given = [choice.known.given or Statistics() for choice in s.choices]
            known, by_hand = (functools.reduce(Statistics.merge, parts, Statistics()) for parts in (said, given))
            return Subject(s.topology, queries, dict(s.streams), s.functions, by_hand, known.merge(before))

    def situation(self) -> Situation:
        """What runs now."""
        s = self._session
        with s.lock:
            plan, policy, sharing = s.topology, s.watermark, s.sharing
            return Situation(
                s.choices, plan, s.workers, sharing, lambda found: topology(found, policy, sharing, plan), self._cost
            )

    def _cost(self, plan: Topology) -> float:
        """Seconds of a migration, as predicted: all rows that have to be read are sent, looked up and stored."""
        state, prices = Fit.read(self._session.checkpoint.root), self._session.choices[0].known.prices
        if state is None:
            return 0.0
        found, held = compare(state.old, plan, state.manifest), state.manifest.held
        read = [*found.moves.values(), *(fill.source for fill in found.fills)]
        rows = sum(held.get(store, 0) for store in read)
        jobs = bool(found.moves) + len(found.fills)
        return jobs * prices.batch + rows * (prices.sent + prices.probed + prices.stored) / plan.workers

    def use(self, found: tuple[Choice, ...], instead: tuple[Choice, ...], why: str, saves: float) -> bool:
        """Go on with other plans, if those that were weighed still run."""
        with self._session.lock:
            if self._busy() or self._session.choices is not instead or not self._session.adopt(found):
                return False
            self._ask(why, saves)
            return True


def open_adaptation(
    session: Session,
    following: Following,
    ask: Callable[[str, float], None],
    busy: Callable[[], bool] = lambda: False,
    **how: Any,
) -> Adaptation:
    """The adaptation of a run, which goes on where the last one ended."""
    path = session.checkpoint.root / FILE
    plans, saved = SessionPlans(session, ask, busy), read_saved(session.checkpoint.root)
    save = functools.partial(_save, path)
    return Adaptation(plans, following.length, following.threshold, saved=saved, save=save, **how)


def _save(path: Path, plain: Mapping[str, Any]) -> None:
    if path.parent.exists():
        write_sealed(path, plain)


def read_saved(root: Path) -> dict[str, Any]:
    """What an earlier run has left; nothing if there is none, or it cannot be read."""
    try:
        return read_sealed(root / FILE, dict) if (root / FILE).exists() else {}
    except StateError:
        return {}


def see_batch(manifest: Manifest, report: Report, seconds: float) -> Seen:
    """A committed batch as statistics need it."""
    size = sum(ref.bytes for ref in manifest.segments)
    return Seen(
        manifest.batch, seconds, report, manifest.held, size, manifest.newest, manifest.totals.rows_in, report.samples,
        report.least,
    )  # fmt: skip


def promise_cure(notice: Notice | None, epoch: int, chosen: Sequence[Choice]) -> Notice | None:
    """The notice of uneven load where plans follow the data: nothing has to be done, if the planner is free."""
    if notice is None or not any(choice.wishes.strategy == "auto" for choice in chosen):
        return notice
    return replace(
        notice,
        hint=f"it will be cured with epoch {epoch + 2}, if the new plan pays; nothing has to be done.",
        action="h.epochs()",
    )


def show_switches(root: Path) -> list[str]:
    """The changes of plan that followed the data, for people."""
    return [
        f"epoch {made['epoch']}, from batch {made['batch']} on: {made['why']} ({made['gain']:+.0%})"
        for made in read_saved(root).get("switches", ())
    ]
