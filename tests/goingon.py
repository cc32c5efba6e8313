"""What random lives of sessions have in common: another process goes on where a trial stopped."""

from __future__ import annotations

from collections.abc import Collection

import weft
from weft.testing import Trial


def go_on(trial: Trial, session: weft.Session, names: Collection[str]) -> Trial:
    """A trial of a session on the same checkpoint; what the queries of these names gave before is kept."""
    old = trial.running
    found = Trial(session, state=session.checkpoint.root, tables=old.tables)
    results = found.running.results
    for name in {*old.results} & {*names}:
        results[name] = old.results[name] + results.get(name, [])
    return found
