"""What several tests of the host need."""

from __future__ import annotations

import weft
from weft.host.state.manifest import Ledger, Manifest
from weft.topology.model import Epoch


def commit_once(session: weft.Session) -> None:
    """Leave a checkpoint as if a batch without rows had been committed."""
    ledger = Ledger(session.checkpoint.root)
    ledger.begin()
    ledger.propose(Epoch(0, session.topology), session.work().session)
    ledger.commit(Manifest(0))
