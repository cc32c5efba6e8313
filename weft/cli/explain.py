"""`weft explain`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from weft.cli.command import OK, SCRIPT, WORKERS, Command, Option
from weft.cli.terminal import tell
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.script import Script
    from weft.session import Session


def explain(
    script: Path,
    *,
    stage: str = "topology",
    format: str = "text",  # noqa: A002 - what the option is called
    analyze: bool = False,
    workers: int | None = None,
    json: bool = False,
    open: bool = False,  # noqa: A002 - likewise
) -> int:
    """Print how the queries of a script are planned; runs nothing and writes nothing.

    If the script was run before, queries keep the plans of its checkpoint.  If it was edited since, what a run would
    change is said on stderr.

    With --open, the plan is drawn on a page in a folder for temporary files, and the page is shown in a browser.
    """
    from weft.script import open_session, read_script

    job = read_script(script)
    session = open_session(job, workers=workers)
    _foretell(session, job)
    if analyze:
        session.analyze()  # the plan is that of the checkpoint; this only adds estimates to compare with
    if open:
        return _show(session, script, stage, analyze)
    print(session.explain(stage, "json" if json else format, analyze), end="")
    return OK


def _foretell(session: Session, job: Script) -> None:
    """Say what a run would change, or why it would be refused."""
    from weft.script import say_changes

    try:
        session.check()
        if lines := say_changes(session, job):
            tell("\n  ".join(["a run would change:", *lines]))
    except WeftError as error:
        tell(f"a run would be refused: {error}")


def _show(session: Session, script: Path, stage: str, analyze: bool) -> int:
    """Draw the plan, and show it in a browser; where there is none, the address is enough."""
    import tempfile
    import webbrowser

    page = session.explain(stage, "html", analyze)
    place = Path(tempfile.mkdtemp(prefix="weft-explain-")) / f"{script.stem}-{stage}.html"
    place.write_text(page, encoding="utf-8")
    print(place.as_uri(), flush=True)
    webbrowser.open(place.as_uri())
    return OK


COMMAND = Command(
    explain,
    (
        SCRIPT,
        Option(
            "--stage",
            str,
            "parsed, resolved, candidates, chosen or topology (default: topology)",
            ("parsed", "resolved", "candidates", "chosen", "topology"),
        ),
        Option(
            "--format",
            str,
            "for people or programs: text, json, mermaid, svg or html (default: text)",
            ("text", "json", "mermaid", "svg", "html"),
        ),
        Option("--analyze", bool, "show what committed batches did, beside estimates from samples of the streams"),
        WORKERS,
        Option("--json", bool, "the same as --format json"),
        Option("--open", bool, "draw the plan and show it in a browser"),
    ),
)
