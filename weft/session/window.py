"""The console of a session: opened with a run, open until the session is closed.

What the page may change is made here out of the methods of the session, so that it can do what the session can and no
more.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.console.controls import Controls
    from weft.console.serve import Console, Served
    from weft.session.run import Handle
    from weft.session.session import Session


class Window:
    """At most one console."""

    def __init__(self) -> None:
        self._served: Served | None = None

    def open(self, session: Session, run: Handle, given: bool | Console) -> Served | None:
        """Open the console that was asked for, in the place of an earlier one, and print its address."""
        if given is False:
            return self._served
        from weft.console.serve import as_console, serve

        how = as_console(given)
        self.close()
        if how is not None:
            usual = controls(session, run) if how.control else None
            self._served = serve(session.checkpoint.root, replace(how, controls=how.controls or usual))
            sys.stderr.write(f"console: {self._served.url}\n")
            sys.stderr.flush()
        return self._served

    def close(self) -> None:
        """Close the console, if there is one."""
        if self._served is not None:
            self._served.close()
            self._served = None


def controls(session: Session, run: Handle) -> Controls:
    """What a page may do to a session."""
    from weft.console.controls import Controls

    def add(name: str, sql: str, into: str) -> None:
        session.query(name, sql).to_parquet(into)

    return Controls(add=add, drop=session.drop, stop=lambda: _stop(run))


def _stop(run: Handle) -> None:
    run.stop()
