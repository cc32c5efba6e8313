"""What shows a run while it is going on, and the simplest of it: one line on the terminal."""

from __future__ import annotations

import shutil
import sys
from typing import Protocol

from weft.observe.notice import Notice
from weft.observe.progress import Progress


class Live(Protocol):
    """Shows a run: it is told of every batch, in the thread that runs them."""

    def show(self, progress: Progress) -> None:
        """Show a finished batch."""
        ...

    def tell(self, notice: Notice) -> None:
        """Show a notice that belongs to no batch."""
        ...

    def close(self) -> None:
        """The run is over."""
        ...


def choose_live(wanted: bool | Live | None) -> Live:
    """What shows a run: what the user brings, a view in a notebook, or the line on the terminal."""
    if wanted is not None and not isinstance(wanted, bool):
        return wanted
    from weft.observe.view import LiveView, in_notebook  # late: it needs this module

    return LiveView() if wanted is not False and in_notebook() else LiveLine(wanted)


class LiveLine:
    """One line on the terminal that is rewritten after every batch; without a terminal, one line for each batch."""

    def __init__(self, wanted: bool | None) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = self._terminal if wanted is None else wanted

    def show(self, progress: Progress) -> None:
        """Show a finished batch."""
        if not self._shown:
            return
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r" + progress.line()[:width].ljust(width))
            for notice in progress.notices:  # a line that is rewritten has no room for them
                sys.stderr.write("\n" + "\n".join(notice.lines()) + "\n")
        else:
            sys.stderr.write(progress.line() + "\n")
        sys.stderr.flush()

    def tell(self, notice: Notice) -> None:
        """Show a notice that belongs to no batch."""
        if self._shown:
            sys.stderr.write(("\n" if self._terminal else "") + "\n".join(notice.lines()) + "\n")
            sys.stderr.flush()

    def close(self) -> None:
        """The run is over."""
        if self._shown and self._terminal:
            sys.stderr.write("\n")
