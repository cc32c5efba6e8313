"""A better plan for all queries, found while the session runs.

The solver has little time when a session starts or a query is added: the best plan found by then is used.  If it could
not prove that plan to be near the best, it goes on in the background.  A plan that is clearly cheaper is then a change
like any other.  What must hold: a session that has changed meanwhile is left alone.  A run that only reads what is
there now does not look any further.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from weft.errors import WeftError
from weft.optimizer.choose import Choice
from weft.optimizer.joint.together import choose_together

LONG = 10.0
"""Seconds for the solver in the background.  A program that ends meanwhile waits for it: it cannot be interrupted."""
WORTH = 0.05
"""A plan is changed if the new one is cheaper by this part."""


def is_unfinished(chosen: Sequence[Choice]) -> bool:
    """Whether the solver ran out of time."""
    return any(choice.together is not None and choice.together.ended == "time limit" for choice in chosen)


def improve(chosen: Sequence[Choice], use: Callable[[tuple[Choice, ...]], None]) -> threading.Thread:
    """Look for a better plan in the background, and use it if there is one."""

    def look() -> None:
        try:
            found = choose_together(chosen, LONG)
        except WeftError:
            return  # the plan that is there stays
        before, after = chosen[0].together, found[0].together
        if before is not None and after is not None and after.seconds < before.seconds * (1 - WORTH):
            use(found)

    thread = threading.Thread(target=look, name="weft-plan")
    thread.start()
    return thread
