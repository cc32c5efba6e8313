"""Which executor each worker is at home on.

A worker's tasks should run where copies of its segments are.  What must hold: every worker has a home among the
executors that live, no executor has two workers more than another, and a worker moves only if its executor is gone or
has more than its share.  So an executor that is lost moves its own share, and a new one gets one from the others.

Rejected: a hash of worker and executor.  It needs no memory, but some executors get twice as many workers as others,
and then a batch takes twice as long.
"""

from __future__ import annotations

from collections.abc import Sequence


def assign(before: Sequence[str], executors: Sequence[str], workers: int) -> tuple[str, ...]:
    """The home of each worker, given the homes before, as far as there were any."""
    here: dict[str, list[int]] = {executor: [] for executor in executors}
    free: list[int] = []
    for worker in range(workers):
        (here.get(before[worker], free) if worker < len(before) else free).append(worker)
    least, more = divmod(workers, len(here))
    for place, mine in enumerate(sorted(here.values(), key=len, reverse=True)):
        share = least + (place < more)
        free += mine[share:]
        del mine[share:]
    for worker in sorted(free):
        min(here.values(), key=len).append(worker)
    homes = {worker: executor for executor, mine in here.items() for worker in mine}
    return tuple(homes[worker] for worker in range(workers))
