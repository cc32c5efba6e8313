"""What a command is: a typed function, its options, and its help page.

The docstring of the function opens its help page; its defaults are those of the command.  What a command needs is
imported inside the function, so that `weft --help` answers at once.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OK = 0
FAILED_CHECK = 1
REFUSED = 2

EXIT_CODES = (
    (OK, "done"),
    (FAILED_CHECK, "a check failed: rows of the demo, or a finding of doctor"),
    (REFUSED, "refused: an error of Weft, or wrong arguments; the message is on stderr"),
    (130, "stopped by Ctrl-C after the current batch"),
    (143, "stopped by SIGTERM after the current batch"),
)
"""What the exit code of every command means.  Any other is a bug, and comes with a traceback."""

Hint = Literal["file", "folder", "text"]
"""What a shell may offer for a value."""


@dataclass(frozen=True, slots=True)
class Option:
    """An argument of a command; one named without dashes stands alone, and is required unless `optional`."""

    name: str
    type: type
    help: str
    values: tuple[str, ...] = ()
    """What a shell offers; the command itself says what it refuses."""
    hint: Hint = "text"
    optional: bool = False

    @property
    def is_positional(self) -> bool:
        """Whether it is given without a name."""
        return not self.name.startswith("-")

    @property
    def metavar(self) -> str:
        """What its value is called in help pages."""
        return (self.name if self.is_positional else self.type.__name__).upper()

    @property
    def spellings(self) -> tuple[str, ...]:
        """How it may be written: a switch has a form with `no-` too."""
        if self.is_positional:
            return ()
        return (self.name, f"--no-{self.name[2:]}") if self.type is bool else (self.name,)

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Let a parser understand it."""
        if self.type is bool:
            parser.add_argument(self.name, action=argparse.BooleanOptionalAction, help=self.help)
        elif self.optional:
            parser.add_argument(
                self.name, type=self.type, metavar=self.metavar, help=self.help, nargs="?", default=None
            )
        else:
            parser.add_argument(self.name, type=self.type, metavar=self.metavar, help=self.help)


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does, and what it may be told."""

    function: Callable[..., int]
    options: tuple[Option, ...] = ()

    @property
    def name(self) -> str:
        """What the user types."""
        return self.function.__name__

    @property
    def page(self) -> str:
        """Its help page."""
        return inspect.getdoc(self.function) or ""

    @property
    def summary(self) -> str:
        """Its help page in one line."""
        return self.page.partition("\n")[0]

    def add_to(self, commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
        """Let a parser understand it."""
        parser = commands.add_parser(
            self.name,
            help=self.summary,
            description=self.page,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,  # for what is not given, the function has defaults
            allow_abbrev=False,
        )
        parser.set_defaults(command=self.function)
        for option in self.options:
            option.add_to(parser)


SCRIPT = Option("script", Path, "a file of statements: SET, CREATE STREAM, CREATE QUERY and others", hint="file")
CHECKPOINT = Option("checkpoint", Path, "the folder of a checkpoint", hint="folder")
WORKERS = Option("--workers", int, "partitions of the state; overrides SET workers")
JSON = Option("--json", bool, "print JSON, for programs")
REACH = (
    Option("--bind", str, "the address that the console answers on (default: 127.0.0.1)"),
    Option("--port", int, "its port (default: 4747, or a free one)"),
    Option("--otel", bool, "send metrics to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names"),
)
"""How a console is reached, and who else gets its numbers."""
