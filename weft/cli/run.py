"""`weft run`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import OK, SCRIPT, WORKERS, Command, Option
from weft.cli.terminal import say, say_json, tell
from weft.launch.ahead import begin
from weft.signals import exit_code


def run(
    script: Path,
    *,
    every: str | None = None,
    workers: int | None = None,
    watch: bool = False,
    json: bool = False,
) -> int:
    """Run a script on the data its streams hold now, then end; with --every, go on for ever.

    Ctrl-C and SIGTERM stop it after the current batch, with exit code 130 or 143.  The next run goes on from there.

    If the script was edited since its last run, its queries are now the truth: what is added, replaced and dropped is
    said on stderr before the run.

    With --watch, a table on the terminal shows rows a second, lag and state, and is kept up to date.
    """
    if script.exists():
        begin()  # Spark starts while the modules below are loaded and the job is planned
    from weft.observe.board import LiveBoard
    from weft.observe.plain import plain_report
    from weft.script import open_session, read_script, say_changes

    job = read_script(script)
    live = LiveBoard(str(script)) if watch else None
    with open_session(job, workers=workers, progress=live) as session:
        session.check()  # what is refused changes nothing, so nothing is said of changes
        for line in say_changes(session, job):
            tell(line)
        report = session.run() if every is None else session.start(every).finish()
    if json:
        say_json(plain_report(report))
    else:
        say(str(report))
    return OK if report.signal is None else exit_code(report.signal)


COMMAND = Command(
    run,
    (
        SCRIPT,
        Option("--every", str, 'go on for ever, looking for new input this often: "1 second"'),
        WORKERS,
        Option("--watch", bool, "show a table that is kept up to date: rates, lag, state"),
        Option("--json", bool, "print the report as JSON, for programs"),
    ),
)
