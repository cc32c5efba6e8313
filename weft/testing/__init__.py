"""Tools for tests of Weft and of its users: micro-batches given by hand, crash points, the oracle.

    trial = weft.testing.Trial(session)
    trial.feed({"orders": orders, "lines": lines})
    assert_same_rows(trial.table("matched"), oracle(session_query, {"orders": orders, "lines": lines}))

Everything runs in this process, without Spark, on the same plan, waves and kernels.
"""

from weft.testing.compare import assert_same_rows, difference
from weft.testing.crash import crash_at, crash_points, no_crash
from weft.testing.oracle import expected_after_each_batch, expected_after_lateness, oracle, oracle_sql, survivors
from weft.testing.trial import Trial

__all__ = [
    "Trial",
    "assert_same_rows",
    "crash_at",
    "crash_points",
    "difference",
    "expected_after_each_batch",
    "expected_after_lateness",
    "no_crash",
    "oracle",
    "oracle_sql",
    "survivors",
]
