"""Says in one line that a process of Spark has died, and that nothing is lost by it: Spark says it in fifty."""

from __future__ import annotations

import re
import traceback

from py4j.protocol import Py4JNetworkError

from weft.errors import HostError

_WORKER = re.compile(r"Python worker (exited unexpectedly|failed to connect back)")
_EXECUTOR = re.compile(r"ExecutorLostFailure|Executor heartbeat timed out")
_JVM = re.compile(r"Answer from Java side is empty|Error while sending or receiving")
_NO_ANSWER = re.compile(r"An error occurred while calling \S+")
"""All that the bridge to Java says when a call got no answer; to what Java throws it adds what that was."""


def explain_lost(error: BaseException) -> HostError | None:
    """The error about a process that is gone, if that is what Spark says."""
    who = _find(error, str(error))
    if who is None:
        return None
    return HostError(
        f"{who} has ended",
        detail="it was killed, or it had too little memory: then the system kills it.",
        hint="nothing is lost: the next run on this checkpoint runs the batch again. If memory was short, make batches "
        "smaller with max_files or max_rows.",
    )


def _find(error: BaseException, said: str) -> str | None:
    refused = isinstance(error, ConnectionError) and _comes_from_bridge(error)
    if refused or isinstance(error, Py4JNetworkError) or _JVM.search(said) or _NO_ANSWER.fullmatch(said):
        return "Spark's JVM"
    if _WORKER.search(said):
        return "a Python worker of Spark"
    return "an executor of Spark" if _EXECUTOR.search(said) else None


def _comes_from_bridge(error: BaseException) -> bool:
    """Whether it was PySpark's bridge to Java that found nobody there."""
    return any("py4j" in frame.filename for frame in traceback.extract_tb(error.__traceback__))
