"""Hands the results of every batch to a function of the user, before the batch is committed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from weft.errors import HostError, SinkError, first_line, own_traceback
from weft.host.results.sink import Results, Sink, Takes, When


class ForeachSink(Sink):
    """Calls a function with every batch and its number: at least once."""

    when: ClassVar[When] = "before commit"

    takes: ClassVar[Takes] = "any"

    def __init__(self, query: str, _schema: object, function: Callable[[Any, int], object]) -> None:
        if not callable(function):
            raise SinkError(
                f"foreach_batch needs a function, not a {type(function).__name__}", hint="pass f(df, batch_id)."
            )
        self.query, self.function = query, function

    def __str__(self) -> str:
        return f"handed to {getattr(self.function, '__name__', 'a function')}"

    def take(self, results: Results) -> None:
        """Call the function; whatever it raises fails the batch."""
        frame = results.load()
        try:
            self.function(frame, results.batch)
        except BaseException as error:  # also SystemExit: sys.exit() must not look like success
            raise HostError(
                f'the function of query "{self.query}" failed: {type(error).__name__}: {first_line(error)}',
                detail=f"batch {results.batch}.\n{own_traceback(error)}",
                hint="nothing of this batch was committed; correct the function and run again.",
            ) from error
