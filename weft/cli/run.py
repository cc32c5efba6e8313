"""`weft run`."""

from __future__ import annotations

from pathlib import Path

from weft.cli.command import OK, REACH, SCRIPT, WORKERS, Command, Option
from weft.cli.terminal import say, say_json, step, tell
from weft.launch.ahead import begin
from weft.signals import exit_code


def run(
    script: Path,
    *,
    every: str | None = None,
    workers: int | None = None,
    watch: bool = False,
    json: bool = False,
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

    With --watch, a table on the terminal shows rows a second, lag and state, and is kept up to date.  With --console
    the run is shown in a browser; the console stays open when the run has ended, until Ctrl-C.
    """
    if script.exists():
        step("starting Spark and loading Weft")
        begin()  # Spark starts while the modules below are loaded and the job is planned
    from weft.console.command import choose_console, exporting, say_logs, stay
    from weft.observe.board import LiveBoard
    from weft.observe.plain import plain_report
    from weft.script import open_session, read_script, say_changes

    step("reading and planning the job")
    job = read_script(script)
    live = LiveBoard(str(script)) if watch else None
    with (
        open_session(job, workers=workers, progress=live) as session,
        exporting(session.checkpoint.root, otel),
    ):
        step()
        session.check()  # what is refused changes nothing, so nothing is said of changes
        for line in say_changes(session, job):
            tell(line)
        say_logs(log)
        shown = choose_console(console, control, bind, port)
        if not watch:
            step("waiting for Spark, then running the first batch")
        report = session.run(console=shown) if every is None else session.start(every, console=shown).finish()
        step()
        if json:
            say_json(plain_report(report))
        else:
            say(str(report))
        if shown and report.signal is None:
            stay("the run has ended")
    return OK if report.signal is None else exit_code(report.signal)


COMMAND = Command(
    run,
    (
        SCRIPT,
        Option("--every", str, 'go on for ever, looking for new input this often: "1 second"'),
        WORKERS,
        Option("--watch", bool, "show a table that is kept up to date: rates, lag, state"),
        Option("--json", bool, "print the report as JSON, for programs"),
        Option("--console", bool, "show the run in a browser; prints an address that works once"),
        Option("--control", bool, "let the console add and drop queries and stop the run; it asks first"),
        *REACH,
        Option("--log", str, "say what happens on stderr, one line an event: text or json", ("text", "json")),
    ),
)
