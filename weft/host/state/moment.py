"""When a batch began, for queries that ask for now().

It is written down before the batch begins.  A batch that died and is run again gets the same time, so it gives the same
results: a function of the user that has seen them sees the same again.  Time never goes back from batch to batch.
A change of the plan has the time of the batch that it follows, or of the attempt at the next one, if that has died;
if nobody had asked for it then, its own, which is written down as that of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.host.state.durable import read_sealed, write_sealed


def fix_moment(root: Path, batch: int, clock: Callable[[], float]) -> int:
    """The time of a batch in microseconds since 1970; `clock` says what time it is, in seconds."""
    path = root / "now.json"
    known: dict[str, Any] = read_sealed(path, dict) if path.exists() else {"batch": -1, "now": 0}
    if known["batch"] >= batch:
        return int(known["now"])
    now = max(int(clock() * 1_000_000), known["now"])
    write_sealed(path, {"batch": batch, "now": now})
    return now
