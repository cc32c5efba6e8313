"""Signals that ask a program to stop: Ctrl-C (SIGINT) and SIGTERM, which systemd, Docker and kill send.

While a run is waited for, the first signal is noted: the current batch ends, then the run.  A second one interrupts.
A program that handles SIGTERM itself keeps its own handler.  The exit code of a program that was stopped is 128 plus
the number of the signal: 130 or 143.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Terminated(SystemExit):
    """SIGTERM came.  A program that does not catch it ends with the exit code 143, without a traceback."""

    def __init__(self) -> None:
        super().__init__(exit_code(signal.SIGTERM))


def terminate(_signal: int, _frame: FrameType | None) -> NoReturn:
    """What SIGTERM does where no run is waited for."""
    raise Terminated


def interrupt(number: int) -> NoReturn:
    """End the program as a signal does where no run is waited for."""
    if number == signal.SIGTERM:
        raise Terminated
    raise KeyboardInterrupt


def exit_code(number: int) -> int:
    """The exit code of a program that a signal has stopped."""
    return 128 + number


class Asked:
    """Whether a signal came, and which."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Note the first signal; a second one interrupts."""
        if self.signal is not None:
            interrupt(number)
        self.signal = number


@contextmanager
def noting() -> Iterator[Asked]:
    """Note the first signal.  Outside the main thread, where Python allows no handlers, none is noted."""
    asked = Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    wanted = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, terminate):
        wanted.append(signal.SIGTERM)
    before = {number: signal.signal(number, asked.note) for number in wanted}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Let SIGTERM end the program as Ctrl-C does: what is open is closed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
