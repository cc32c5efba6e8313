"""The command line: `weft demo | run | explain | queries | status | console | doctor | calibrate | bench`.

A command is a typed function; its docstring opens its help page.  What a command needs is imported inside it,
so that `weft --help` answers at once.  An error that Weft raises on purpose is printed on stderr, with exit code 2;
anything else is a bug and keeps its traceback.  Ctrl-C and SIGTERM end a command without one, at any moment, with exit
code 130 or 143.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import inspect
import os
import runpy
import select
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from weft.errors import HostError, WeftError
from weft.launch.ending import hide_interrupts, leave
from weft.signals import Terminated, ending_on_sigterm, exit_code

if TYPE_CHECKING:
    from weft.script import Script
    from weft.session import Session

FAILED_CHECK = 1
REFUSED = 2


def demo(
    *,
    orders: int = 30_000,
    seed: int = 1,
    keep: Path | None = None,
    workers: int | None = None,
    console: bool = False,
    port: int | None = None,
) -> int:
    """Run three joins over generated streams and check every row of the results.

    With --console, a steady job over five streams instead, in a browser, whose plan you choose while it runs.
    """
    if console:
        from weft.demo.live import run_live

        signalled = run_live(seed=seed, keep=keep, port=port)
        return 0 if signalled is None else exit_code(signalled)
    from weft.demo import run_demo

    return 0 if run_demo(orders=orders, seed=seed, keep=keep, workers=workers) else FAILED_CHECK


def run(
    script: Path,
    *,
    every: str | None = None,
    workers: int | None = None,
    console: bool = False,
    control: bool = False,
    bind: str = "127.0.0.1",
    port: int | None = None,
    log: str | None = None,
    otel: bool = False,
) -> int:
    """Run a script on the data its streams hold now, then end; with --every, go on for ever.

    Ctrl-C and SIGTERM stop it after the current batch, with exit code 130 or 143.  The next run goes on from there.

    If the script was edited since its last run, its queries are now the truth: what is added, replaced and dropped is
    said on stderr before the run.

    With --console the run is shown in a browser; the console stays open when the run has ended, until Ctrl-C.
    """
    from weft.console.command import choose_console, exporting, say_logs, stay
    from weft.script import open_session, read_script, say_changes

    job = read_script(script)
    with open_session(job, workers=workers) as session, exporting(session.checkpoint.root, otel):
        session.check()  # what is refused changes nothing, so nothing is said of changes
        for line in say_changes(session, job):
            print(line, file=sys.stderr, flush=True)
        say_logs(log)
        shown = choose_console(console, control, bind, port)
        report = session.run(console=shown) if every is None else session.start(every, console=shown).finish()
        print(report, flush=True)
        if shown and report.signal is None:
            stay("the run has ended")
    return 0 if report.signal is None else exit_code(report.signal)


def explain(
    script: Path,
    *,
    stage: str = "topology",
    format: str = "text",  # noqa: A002 - what the option is called
    analyze: bool = False,
    workers: int | None = None,
) -> int:
    """Print how the queries of a script are planned; runs nothing and writes nothing.

    If the script was run before, queries keep the plans of its checkpoint.  If it was edited since, what a run would
    change is said on stderr.
    """
    from weft.script import open_session, read_script

    job = read_script(script)
    session = open_session(job, workers=workers)
    _foretell(session, job)
    if analyze:
        session.analyze()  # the plan is that of the checkpoint; this only adds estimates to compare with
    print(session.explain(stage, format, analyze), end="")
    return 0


def _foretell(session: Session, job: Script) -> None:
    """Say what a run would change, or why it would be refused."""
    from weft.script import say_changes

    try:
        session.check()
        if lines := say_changes(session, job):
            print("a run would change:", *lines, sep="\n  ", file=sys.stderr)
    except WeftError as error:
        print(f"a run would be refused: {error}", file=sys.stderr)


def queries(checkpoint: Path) -> int:
    """List the queries of a checkpoint; runs nothing and writes nothing."""
    from weft.session.status import show_queries

    print(show_queries(checkpoint), end="")
    return 0


def status(checkpoint: Path) -> int:
    """Show how far a checkpoint is and what it keeps; runs nothing and writes nothing."""
    from weft.session.status import show_status

    print(show_status(checkpoint), end="")
    return 0


def console(
    checkpoint: Path, *, bind: str = "127.0.0.1", port: int | None = None, otel: bool = False, board: bool = False
) -> int:
    """Show a checkpoint in a browser, of a running session or a finished one; changes nothing, ends with Ctrl-C."""
    from weft.console.command import grafana_board, show_checkpoint

    if board:
        print(grafana_board(), end="")
        return 0
    return exit_code(show_checkpoint(checkpoint, bind, port, otel))


def doctor(*, checkpoint: Path | None = None, spark: bool = True, prepare: bool = False) -> int:
    """Check whether Weft can run on this machine."""
    from weft.doctor import examine

    def announce(what: str) -> None:
        print(f"...   {what}", file=sys.stderr, flush=True)

    failed = False
    for finding in examine(checkpoint=checkpoint, spark=spark, prepare=prepare, announce=announce):
        print(f"{finding.level:<5} {finding.name:<12} {finding.seen}", flush=True)
        if finding.hint:
            print(f"{'':<18} hint: {finding.hint}", flush=True)
        failed = failed or finding.level == "fail"
    return FAILED_CHECK if failed else 0


def calibrate(*, quick: bool = False, dry_run: bool = False) -> int:
    """Measure what the parts of a micro-batch cost on this machine, and save the prices for planning.

    Takes about a minute.  Run nothing else meanwhile, or all prices will be too high.
    """
    from weft.calibrate import compare, measure
    from weft.optimizer.cost.prices import Prices

    today = datetime.datetime.now().astimezone().date()
    prices = measure(say=lambda line: print(line, flush=True), today=today, quick=quick)
    print(f"\n{compare(prices, Prices())}\n")
    print("not saved" if dry_run else f"saved to {prices.save()}")
    return 0


def bench() -> int:
    """Measure throughput on the TPC-H Q3 join; runs inside a clone of the repository."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("bench") is None or importlib.util.find_spec("bench.q3") is None:
        hint = "run it at the top of a clone of Weft's repository, or use make bench there"
        raise HostError("the benchmarks are not here", detail=f"no bench/q3.py in {Path.cwd()}", hint=hint)
    sys.argv[1:] = []  # the workload reads arguments of its own
    runpy.run_module("bench.q3", run_name="__main__", alter_sys=True)
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    hide_interrupts()
    try:
        with ending_on_sigterm():
            code = _call(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_unread():
            raise
        # Python must not try to write the rest at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except WeftError as error:
        from weft.sql.advice import for_scripts

        error.hint = for_scripts(error.hint)
        print(f"error: {error}", file=sys.stderr)
        code = REFUSED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        leave(exit_code(signal.SIGINT))
    except Terminated as end:
        print("terminated", file=sys.stderr)
        leave(int(end.code or 0))
    sys.exit(code)


def _call(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    command: Callable[..., int] | None = given.pop("command", None)
    if command is None:
        parser.print_help()
        return 0
    return command(**given)


def _parser() -> argparse.ArgumentParser:
    about = "Continuous multi-way stream joins on Apache Spark."
    parser = argparse.ArgumentParser("weft", description=about, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=metadata.version("weft"))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command, options in _COMMANDS.items():
        page = inspect.getdoc(command) or ""
        made = commands.add_parser(
            command.__name__,
            help=page.partition("\n")[0],
            description=page,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,  # for what is not given, the function has defaults
            allow_abbrev=False,
        )
        made.set_defaults(command=command)
        for option in options:
            option.add_to(made)
    return parser


@dataclass(frozen=True, slots=True)
class _Option:
    """An argument of a command; one named without dashes is required."""

    name: str
    type: type
    help: str

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        if self.type is bool:
            parser.add_argument(self.name, action=argparse.BooleanOptionalAction, help=self.help)
        else:
            metavar = self.type.__name__ if self.name.startswith("--") else self.name
            parser.add_argument(self.name, type=self.type, metavar=metavar.upper(), help=self.help)


_SCRIPT = _Option("script", Path, "a file of statements: SET, CREATE STREAM, CREATE QUERY and others")
_CHECKPOINT = _Option("checkpoint", Path, "the folder of a checkpoint")
_WORKERS = _Option("--workers", int, "partitions of the state; overrides SET workers")
_REACH = (
    _Option("--bind", str, "the address that the console answers on (default: 127.0.0.1)"),
    _Option("--port", int, "its port (default: 4747, or a free one)"),
    _Option("--otel", bool, "send metrics to the collector that OTEL_EXPORTER_OTLP_ENDPOINT names"),
)
_COMMANDS: dict[Callable[..., int], tuple[_Option, ...]] = {
    demo: (
        _Option("--orders", int, "how many orders to generate; other streams grow with them (default: 30000)"),
        _Option("--seed", int, "seed of the generator; the same seed gives the same streams (default: 1)"),
        _Option("--keep", Path, "a new folder for streams, state and results; without it they are deleted"),
        _Option("--workers", int, "partitions of the state; chosen by Weft if not given"),
        _Option("--console", bool, "show a job that goes on in a browser; choose its plan there"),
        _Option("--port", int, "the port of the console (default: 4747, or a free one)"),
    ),
    run: (
        _SCRIPT,
        _Option("--every", str, 'go on for ever, looking for new input this often: "1 second"'),
        _WORKERS,
        _Option("--console", bool, "show the run in a browser; prints an address that works once"),
        _Option("--control", bool, "let the console add and drop queries and stop the run; it asks first"),
        *_REACH,
        _Option("--log", str, "say what happens on stderr, one line an event: text or json"),
    ),
    explain: (
        _SCRIPT,
        _Option("--stage", str, "parsed, resolved, candidates, chosen or topology (default: topology)"),
        _Option("--format", str, "for people or programs: text, json or mermaid (default: text)"),
        _Option("--analyze", bool, "show what committed batches did, beside estimates from samples of the streams"),
        _WORKERS,
    ),
    queries: (_CHECKPOINT,),
    status: (_CHECKPOINT,),
    console: (_CHECKPOINT, *_REACH, _Option("--board", bool, "print a board for Grafana as JSON, and end")),
    doctor: (
        _Option("--checkpoint", Path, "a checkpoint folder to check as well"),
        _Option("--spark", bool, "run a small join on Spark at the end (default: yes)"),
        _Option("--prepare", bool, "also save Spark's classes, so that sessions start faster; takes a minute or two"),
    ),
    calibrate: (
        _Option("--quick", bool, "measure less, with more noise"),
        _Option("--dry-run", bool, "do not save the prices"),
    ),
    bench: (),
}


def _is_unread() -> bool:
    """Whether the reader of stdout has closed it, as `head` does when it has seen enough."""
    pipe = select.poll()
    pipe.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in pipe.poll(0))


if __name__ == "__main__":
    main()
