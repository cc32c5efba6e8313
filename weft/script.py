"""Jobs as SQL scripts: streams in, queries out.

    SET checkpoint = 'state';
    CREATE STREAM orders FROM PARQUET 'in/orders' WITH (event_time = 'o_ts', lateness = '10 seconds');
    CREATE QUERY late INTO PARQUET 'out/late' AS SELECT ... FROM customer c JOIN orders o ON ...;

The grammar is in `weft.sql.script`; here its statements become a session.  A relative path counts from the
script's folder, so a job does the same wherever it is started.  Without SET, the checkpoint is
`<script name>.checkpoint` beside the script: running a job again continues where it ended, and does not write its
results twice.  An error of the session names the place in the script.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import SourceError, WeftError
from weft.query.caret import point
from weft.sql.script import QueryStatement, StreamStatement, parse_statements

if TYPE_CHECKING:
    from weft import Session


@dataclass(frozen=True, slots=True)
class Script:
    """A whole job, with the paths made absolute."""

    checkpoint: Path
    workers: int | None
    streams: tuple[StreamStatement, ...]
    queries: tuple[QueryStatement, ...]
    text: str = field(default="", compare=False, repr=False)


def read_script(path: Path) -> Script:
    """Read and check the script at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file of SET, CREATE STREAM and CREATE QUERY statements."
        raise SourceError(f'script "{path}" cannot be read', detail=f"{error}.", hint=hint) from None
    return parse_script(text, folder=path.resolve().parent, name=path.stem)


def parse_script(text: str, *, folder: Path, name: str = "job") -> Script:
    """Check the script `text`; relative paths count from `folder`."""
    said = parse_statements(text)
    workers = said.settings.get("workers")
    return Script(
        checkpoint=folder / str(said.settings.get("checkpoint", f"{name}.checkpoint")),
        workers=workers if isinstance(workers, int) else None,
        streams=tuple(replace(stream, path=folder / stream.path) for stream in said.streams),
        queries=tuple(replace(query, path=folder / query.path) for query in said.queries),
        text=text,
    )


def open_session(script: Script, *, checkpoint: Path | None = None, workers: int | None = None) -> Session:
    """A session with the script's streams and queries declared and nothing started."""
    import weft

    workers = script.workers if workers is None else workers
    session = weft.Session(checkpoint=str(checkpoint or script.checkpoint), workers=workers)
    for stream in script.streams:
        options: dict[str, Any] = dict(stream.options)
        with _name_statement(f"stream {stream.name}", place=point(script.text, stream.span)):
            source = getattr(weft.read, stream.format)(str(stream.path), max_files=options.pop("max_files", None))
            session.stream(stream.name, source, **options)
    for query in script.queries:
        knobs: dict[str, Any] = dict(query.options)
        with _name_statement(f"query {query.name}"):
            session.query(query.name, query.draft, **knobs).to_parquet(str(query.path))
    return session


@contextmanager
def _name_statement(statement: str, place: str | None = None) -> Iterator[None]:
    """Add the statement to an error.  Errors of a query already say their place in it."""
    try:
        yield
    except WeftError as error:
        where = "\n".join(part for part in (place, error.detail) if part)
        detail = f"in {statement}, {where}" if where else f"in {statement}."
        raise type(error)(error.message, detail=detail, hint=error.hint) from error
