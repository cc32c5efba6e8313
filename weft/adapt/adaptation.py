"""The loop: an epoch is measured, the next one decides, the one after begins with the new plan (C33).

    epoch i      its batches are gathered
    epoch i + 1  in the background: statistics of epoch i, plans by them, a verdict; no batch waits for it
    epoch i + 2  begins with the plan, if that pays

What must hold: statistics of epoch i change the plan no earlier than the start of epoch i + 2 (G-E3).  A decision that
is not ready by then waits for the next start of an epoch.  If anything goes wrong here, the plan that runs goes on.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from weft.adapt.decide import COMING, Asked, Situation, Verdict, decide, overfull, patience
from weft.adapt.gathering import Gathering, Seen
from weft.adapt.length import Length
from weft.adapt.measure import Subject, measure
from weft.adapt.settled import Settled
from weft.errors import WeftError
from weft.observe.epochs import EpochRecord
from weft.optimizer.choose import Choice
from weft.stats.drawn import Part, rows_of_task
from weft.stats.model import Statistics

KEPT = 1000
"""Epochs that a run remembers."""
SWITCHES = 50
"""Changes of plan that a checkpoint remembers."""
WEIGHT, JUMP = 0.5, 2.0
"""How statistics follow those of a new epoch, see `Statistics.follow`."""
ALIKE = 4.0
"""Streams whose numbers all differ by less than this factor are alike."""
MOVED = 1.5
"""A number that differs by more than this factor is said to have moved."""


class Plans(Protocol):
    """The plans of a session."""

    def subject(self, before: Statistics) -> Subject:
        """What statistics are about now."""
        ...

    def situation(self) -> Situation:
        """What runs now."""
        ...

    def use(self, found: tuple[Choice, ...], instead: tuple[Choice, ...], why: str, saves: float) -> bool:
        """Go on with other plans, if those that were weighed still run; return whether that is so.

        `saves` is the part of the time of a batch that they save.
        """
        ...


def in_background(work: Callable[[], None]) -> None:
    """Run something beside batches."""
    threading.Thread(target=work, name="weft-adapt", daemon=True).start()


@dataclass(frozen=True, slots=True)
class _Pending:
    """A decision that waits for the start of an epoch."""

    epoch: int
    """The epoch whose statistics decided."""
    verdict: Verdict
    instead: tuple[Choice, ...]


class Adaptation:
    """Follows the epochs of a run."""

    def __init__(
        self,
        plans: Plans,
        length: Length,
        threshold: float,
        *,
        start: Callable[[Callable[[], None]], None] = in_background,
        now: Callable[[], float] = time.monotonic,
        saved: Mapping[str, Any] | None = None,
        save: Callable[[Mapping[str, Any]], None] = lambda _: None,
    ) -> None:
        self._plans, self._length, self._threshold = plans, length, threshold
        self._start, self._now, self._save = start, now, save
        self._lock = threading.Lock()
        known = saved or {}
        self._known = Statistics.from_json(known.get("statistics", "{}"))
        """Smoothed over all epochs."""
        self._earlier: deque[tuple[int, Statistics]] = deque(maxlen=2 * COMING)
        """Of the last epochs, with their numbers."""
        self._decided: int = known.get("decided", 0)
        """The epoch whose statistics decided the last change of plan."""
        self._squeeze: float = known.get("squeeze", 1.0)
        self._switched: int | None = known.get("switched")
        self.switches: list[Mapping[str, Any]] = list(known.get("switches", ()))
        self._pending: _Pending | None = None
        self._settled: Settled | None = None
        self._weighing = threading.Lock()
        """Held while something is decided: on a busy machine that may take longer than an epoch."""
        self._records: deque[EpochRecord] = deque(maxlen=KEPT)
        self._before: float | None = None
        """Microseconds a row in the epoch before the last change of plan, until its effect is known."""
        self._changed = ""
        self._batches = 1
        """Of the last epoch."""
        self._open = Gathering(known.get("epoch", 0), known.get("batch", 0), now(), known.get("newest", {}))

    @property
    def epoch(self) -> int:
        """The epoch that is running."""
        return self._open.number

    def sample(self, workers: int) -> int:
        """How many rows each task of the next batch draws of a stream."""
        return rows_of_task(workers, self._length.expect(self._batches))

    def epochs(self) -> list[EpochRecord]:
        """The epochs that have ended, the newest at the end."""
        with self._lock:
            return list(self._records)

    def see(self, seen: Seen) -> None:
        """Take a committed batch; the plan may change with the next one."""
        self._open.add(seen)
        if self._length.is_over(self._open.batches, self._now() - self._open.began, self._open.events):
            self._turn()

    def _turn(self) -> None:
        ended, number = self._open, self._open.number + 1
        self._note(ended)
        self._batches = ended.batches
        self._open = Gathering(number, ended.end, self._now(), ended.newest)
        try:
            self._switch(ended)
            self._remember()
            situation, subject = self._plans.situation(), self._plans.subject(self._known)
        except Exception as error:  # noqa: BLE001 - the run must not end because of advice
            self._give_up(ended.number, error)
            return
        if self._weighing.acquire(blocking=False):
            self._start(lambda: self._decide(ended, situation, subject))
        else:
            self._amend(ended.number, decision="the plan stays: an earlier epoch is still being weighed")

    def _give_up(self, epoch: int, error: Exception) -> None:
        said = error.message if isinstance(error, WeftError) else f"{type(error).__name__}: {error}"
        self._amend(epoch, decision=f"the plan stays: nothing was decided: {said}")

    # ------------------------------------------------------------------------------------- the next epoch

    def _decide(self, ended: Gathering, situation: Situation, subject: Subject) -> None:
        try:
            self._weigh(ended, situation, subject)
        except Exception as error:  # noqa: BLE001 - the run must not end because of advice
            self._give_up(ended.number, error)
        finally:
            self._weighing.release()

    def _weigh(self, ended: Gathering, situation: Situation, subject: Subject) -> None:
        known = self._known

        def measured(without: Part | None = None) -> Statistics:
            return known.follow(measure(subject, ended, without), WEIGHT, JUMP)

        found = measured()
        verdict = self._verdict(ended, situation, found, measured)
        moved = known.differences(found, MOVED)
        self._known = found
        self._earlier.append((ended.number, found))
        if verdict.forced:
            self._squeeze = min(self._squeeze, overfull(situation.chosen, ended))
        shown = tuple(f"{name} {old:.3g} -> {new:.3g}" for name, (old, new) in moved.items())
        self._conclude(ended.number, verdict, situation.chosen, shown)

    def _verdict(
        self,
        ended: Gathering,
        situation: Situation,
        found: Statistics,
        measured: Callable[[Part], Statistics],
    ) -> Verdict:
        """What is decided; the same as before where nothing has moved."""
        settled = self._settled
        if settled and settled.stands(situation.chosen, found) and overfull(situation.chosen, ended) == 1.0:
            return Verdict(f"nothing has moved since epoch {settled.epoch}, when the plan was the best one")
        asked = Asked(
            self._threshold,
            self._squeeze,
            self._asked(ended.number),
            self._calm(ended.number),
            quick=not self._was_so(found),
        )
        verdict = decide(situation, found, ended, asked, measured)
        self._settled = Settled(ended.number, situation.chosen, found) if verdict.stays else None
        return verdict

    def _asked(self, epoch: int) -> list[Statistics]:
        """Statistics of the epochs before, by which a plan must pay too."""
        count = patience(epoch, self._switched) - 1
        return [known for _, known in self._earlier][-count:] if count else []

    def _calm(self, epoch: int) -> list[Statistics]:
        """Statistics of the last epochs, without those before the last change of plan."""
        since = self._switched or 0
        return [known for number, known in self._earlier if number >= max(since, epoch - COMING)]

    def _was_so(self, found: Statistics) -> bool:
        """Whether streams are again as they were a short while before the last change of plan: then they alternate."""
        before = [known for number, known in self._earlier if number < self._decided]
        return self._switched is not None and any(known.resembles(found, ALIKE) for known in before)

    def _conclude(self, epoch: int, verdict: Verdict, instead: tuple[Choice, ...], moved: tuple[str, ...]) -> None:
        ready, why = verdict.pays, verdict.why
        if ready and not verdict.at_once and len(self._earlier) < patience(epoch, self._switched):
            ready, why = False, f"{why}; the plan was changed a short while ago"
        if ready:
            self._pending = _Pending(epoch, verdict, instead)
        self._amend(
            epoch,
            moved=moved,
            plans=verdict.plans,
            gain=verdict.gain,
            cost=verdict.cost,
            decision=f"the plan changes with epoch {epoch + 2}: {why}" if ready else f"the plan stays: {why}",
            switch=epoch + 2 if ready else None,
        )

    # ------------------------------------------------------------------------------ the one after the next

    def _switch(self, ended: Gathering) -> None:
        """Begin the epoch with the plan that was decided, if one was."""
        pending, self._pending, self._changed = self._pending, None, ""
        if pending is None or pending.verdict.found is None:
            return
        if pending.epoch + 2 > self._open.number:  # decided so fast that its epoch has not come
            self._pending = pending
            return
        gain = max(0.0, pending.verdict.gain or 0.0)
        changed = "plan changed (simpler)" if pending.verdict.simpler else f"plan changed ({gain:+.0%})"
        why = f"epoch {self._open.number}: {changed}, {pending.verdict.why}"
        if self._plans.use(pending.verdict.found, pending.instead, why, pending.verdict.saves):
            self._switched, self._decided = self._open.number, pending.epoch
            self._before, self._changed = ended.micros, changed
            made = {"epoch": self._open.number, "batch": self._open.first, "why": pending.verdict.why, "gain": gain}
            self.switches = [*self.switches, made][-SWITCHES:]
        else:
            self._amend(pending.epoch, switch=None, decision="the session has changed meanwhile; the plan stays")

    # ------------------------------------------------------------------------------------------- records

    def _note(self, ended: Gathering) -> None:
        effect = None
        if self._before is not None and ended.micros and not self._changed:
            effect, self._before = self._before / ended.micros, None  # the first whole epoch after the change
        record = EpochRecord(
            ended.number, ended.first, ended.end - 1, ended.rows, ended.seconds,
            changed=self._changed, effect=effect,
        )  # fmt: skip
        with self._lock:
            self._records.append(record)

    def _amend(self, number: int, **what: Any) -> None:
        with self._lock:
            for place, record in enumerate(self._records):
                if record.number == number:
                    self._records[place] = replace(record, **what)

    def _remember(self) -> None:
        self._save(
            {
                "epoch": self._open.number,
                "batch": self._open.first,
                "newest": dict(self._open.since),
                "switched": self._switched,
                "decided": self._decided,
                "squeeze": self._squeeze,
                "switches": self.switches,
                "statistics": self._known.to_json(),
            }
        )
