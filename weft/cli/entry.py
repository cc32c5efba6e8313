"""Runs a command and ends the process with its exit code.

An error that Weft raises on purpose is printed on stderr, with exit code 2; anything else is a bug and keeps its
traceback.  Ctrl-C and SIGTERM end a command without one, at any moment, with exit code 130 or 143.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence

from weft.cli.command import OK, REFUSED
from weft.cli.terminal import paint, step, tell
from weft.errors import WeftError
from weft.launch.ahead import drop
from weft.launch.ending import hide_broken_calls, leave
from weft.signals import Terminated, ending_on_sigterm, exit_code


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    hide_broken_calls()
    try:
        with ending_on_sigterm():
            code = _call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        # Python must not try to write the rest at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except WeftError as error:
        _tell_error(error)
        code = REFUSED
    except KeyboardInterrupt:
        tell("interrupted")
        leave(exit_code(signal.SIGINT))
    except Terminated as end:
        tell("terminated")
        leave(int(end.code or 0))
    drop()  # Spark was started and is not needed, if it was not taken
    sys.exit(code)


def _call(arguments: Sequence[str] | None) -> int:
    from weft.cli.commands import parser

    understood = parser()
    given = {name: value for name, value in vars(understood.parse_args(arguments)).items() if value is not None}
    command: Callable[..., int] | None = given.pop("command", None)
    if command is None:
        understood.print_help()
        return OK
    return command(**given)


def _tell_error(error: WeftError) -> None:
    from weft.sql.advice import for_scripts

    error.hint = for_scripts(error.hint)
    step()
    tell(f"{paint('error:', 'red', sys.stderr)} {error}")


def _is_unread() -> bool:
    """Whether the reader of stdout has closed it, as `head` does when it has seen enough."""
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in pipe.poll(0))
