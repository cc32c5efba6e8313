"""What the batches of a run and its changes of plan stand on: a Spark session, and a checkpoint."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from weft.host.crash import CrashPoint
from weft.host.state.manifest import Ledger
from weft.host.state.place import Place
from weft.host.work import Changes


@dataclass(frozen=True, slots=True)
class Ground:
    """A session of Spark and a checkpoint, for one run."""

    spark: SparkSession
    place: Place
    ledger: Ledger
    changes: Changes
    """Which changes of plan are wanted, and who is told of them."""
    crash: CrashPoint | None = None
    run: str = field(default_factory=lambda: f"-{uuid.uuid4().hex[:6]}")
    """Part of the names of the files that this run makes."""
