"""What a worker does for aggregate queries in one wave: it makes parts of groups, and owns some groups.

Parts are gathered and folded before they are sent, so a group is sent once for many tuples.  In the last wave all parts
of a batch have come to the owners of their groups.  They are settled then, once: what is appended to stores, and what
changes in the view.

What must hold: a batch settles each query on each worker once, even if no part came: a query without GROUP BY has its
one row from the start, and windows close.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.expr.evaluate import Functions
from weft.host.batch import Batch, Report
from weft.host.envelope import join
from weft.host.groups.extremes import Extremes, Opener
from weft.host.groups.fold import fold, without_gone
from weft.host.groups.folding import Folding
from weft.host.groups.groups import Grouped
from weft.host.groups.latest import replace_rows, shown
from weft.host.groups.ranked import settle_ranked
from weft.host.groups.versions import add_versions
from weft.host.groups.view import View, count_values, start_group
from weft.host.hidden import Frame
from weft.host.state.segment import Segment
from weft.kernels.codes import destinations, group_codes
from weft.observe.counters import bump
from weft.topology.model import Topology
from weft.topology.node import Emit


@dataclass
class Settled:
    """What the parts of a batch come to."""

    stored: dict[str, Frame] = field(default_factory=dict)
    """Store -> rows to append."""
    results: list[Frame] = field(default_factory=list)


class GroupOwner:
    """The aggregate queries of a topology on one worker, in one wave."""

    def __init__(self, topology: Topology, number: int, batch: Batch, functions: Functions, report: Report) -> None:
        self.topology, self.number, self.batch = topology, number, batch
        self.functions, self.report = functions, report
        self.emits = [emit for emit in topology.emits if emit.groups is not None]
        self._grouped = {emit.id: Grouped.of(emit) for emit in self.emits}
        self._waiting = Folding()
        self._came: dict[str, list[Frame]] = defaultdict(list)

    # ------------------------------------------------------------------------------------------- making

    def part(self, emit: Emit, frame: Frame) -> Frame | None:
        """Make parts of groups of some joined tuples; return those that are to be sent now, if there are many."""
        grouped = self._grouped[emit.id]
        parts, late = grouped.split(frame, self.functions, self.batch.watermarks)
        if late:
            bump(self.report.late, grouped.groups.stream, late)
        return self._waiting.add(emit.id, parts) if parts.num_rows else None

    def pending(self, emit: Emit) -> Frame | None:
        """The parts that wait, which are to be sent now."""
        return self._waiting.rest(emit.id)

    # ------------------------------------------------------------------------------------------- owning

    def take(self, emit: Emit, frames: Sequence[Frame]) -> None:
        """Parts of groups that this worker owns have come."""
        self._came[emit.id] += frames

    def settle(self, emit: Emit, open_store: Opener) -> Settled:
        """Add up what has come; `open_store` gives what earlier batches have stored."""
        grouped, found = self._grouped[emit.id], Settled()
        groups = grouped.groups
        if groups.grouping.keeps_rows:
            return self._settle_rows(emit, grouped, open_store)
        extremes = Extremes(grouped, self.topology, open_store, self.functions, found.stored)
        view = View(grouped, self.topology.store(groups.store), self.functions, extremes)
        segments = open_store(groups.store)
        parts = self._parts(emit, grouped, found, segments, open_store)
        if parts is not None:
            found.stored[groups.store] = parts
            if groups.grouping.closing is None:
                found.results += self._changes(emit, view, parts, segments, found.stored)
        mark = None if emit.into and groups.grouping.closing is None else self.batch.watermarks.get(groups.clock)
        if mark is not None and not self.batch.job and not groups.grouping.is_distinct:
            found.results.append(view.closed(segments, self.batch.before.get(groups.clock), mark))
        found.results = [rows for rows in found.results if rows.num_rows]
        return found

    def _changes(
        self, emit: Emit, view: View, parts: Frame, segments: Sequence[Segment], stored: dict[str, Frame]
    ) -> list[Frame]:
        """What parts of groups change in the view, as others want it; only those who read it do in a migration."""
        if emit.into:
            return [view.deltas(parts, segments, stored)]
        return [] if self.batch.job else [view.changes(parts, segments)]

    def _settle_rows(self, emit: Emit, grouped: Grouped, open_store: Opener) -> Settled:
        """Replace the present rows of some keys, number rows of some groups again, or put versions between others."""
        if not (came := self._came.pop(emit.id, [])):
            return Settled()
        grouping, name = grouped.groups.grouping, grouped.groups.store
        store, segments = self.topology.store(name), open_store(name)
        if grouping.ranking is not None:
            delta, found = settle_ranked(grouped, store, came, segments, self.functions)
        elif grouping.latest:
            delta = replace_rows(grouped, store, join(came), segments)
            found = shown(grouped, delta, self.functions)
        else:
            mark = self.batch.before.get(grouped.groups.clock)
            delta, changed = add_versions(grouped, store, join(came), segments, mark)
            found = shown(grouped, changed, self.functions)
        return Settled({name: delta} if delta.num_rows else {}, [found] if found.num_rows else [])

    def _parts(
        self,
        emit: Emit,
        grouped: Grouped,
        found: Settled,
        segments: Sequence[Segment],
        open_store: Opener,
    ) -> Frame | None:
        """All parts of groups, values of COUNT(DISTINCT) counted; None if there are none."""
        came = self._came.pop(emit.id, [])
        arrived = without_gone(fold(came)) if came else None
        if arrived is None or not arrived.num_rows:
            first = not grouped.groups.grouping.keys and not segments and self._owns_the_only_group(emit)
            return start_group(grouped) if first and not self.batch.job else None
        counted = []
        fresh = [entry for entry in grouped.groups.values if entry[0] in arrived.schema.names]
        for argument, name in fresh:  # old groups that come again have their values counted
            store = self.topology.store(name)
            values, new = count_values(grouped, argument, store, arrived, open_store(name))
            found.stored[name] = values
            counted.append(new)
        if not counted:
            return arrived
        names = counted[0].schema.names
        return fold([arrived.select(names), *counted])

    def _owns_the_only_group(self, emit: Emit) -> bool:
        return int(destinations(group_codes([], 1), emit.tasks)[0]) == self.number
