"""Jobs as SQL scripts: streams in, queries out.

    SET checkpoint = 'state';
    CREATE STREAM orders FROM PARQUET 'in/orders' WITH (event_time = 'o_ts', lateness = '10 seconds');
    CREATE QUERY late INTO PARQUET 'out/late' AS SELECT ... FROM customer c JOIN orders o ON ...;

    CREATE TABLE product FROM CSV 'in/product';
    CREATE VIEW cheap AS SELECT * FROM orders WHERE o_limit < 10;
    DROP QUERY early;

The grammar is in `weft.sql.script`; here its statements become a session.  A relative path counts from the
script's folder, so a job does the same wherever it is started.  Without SET, the checkpoint is
`<script name>.checkpoint` beside the script: running a job again continues where it ended, and does not write its
results twice.  An error of the session names the place in the script.

The script is the truth.  A query of the checkpoint that is not in the script is dropped, one whose text differs is
replaced, one that the checkpoint does not have is added.  `say_changes` says so before anything happens.  A script that
is run again changes nothing, whatever it drops or creates.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import SourceError, Span, WeftError, point
from weft.host.state.checkpoint import describe_query, is_same_query
from weft.host.url import read_url
from weft.observe.live import Live
from weft.session.complete import say_complete
from weft.session.planning import remember_choice
from weft.sql.advice import for_scripts
from weft.sql.options import Options
from weft.sql.script import QueryStatement, StreamStatement, ViewStatement, parse_statements
from weft.sql.topics import Topic

if TYPE_CHECKING:
    from weft import Session


@dataclass(frozen=True, slots=True)
class Script:
    """A whole job, with the paths made absolute."""

    checkpoint: Path
    streams: tuple[StreamStatement, ...]
    queries: tuple[QueryStatement, ...]
    drops: tuple[str, ...] = ()
    views: tuple[ViewStatement, ...] = ()
    options: Options = field(default_factory=dict)
    """What `Session.options` is told: workers and others."""
    folder: Path = Path()
    """Where relative paths count from."""
    places: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    """Option -> where it stands in the text."""

    @property
    def workers(self) -> int | None:
        """How many workers the script asks for; None if it does not say."""
        asked = self.options.get("workers")
        return asked if isinstance(asked, int) else None


def read_script(path: Path) -> Script:
    """Read and check the script at `path`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a file of statements: SET, CREATE STREAM, CREATE QUERY and others."
        raise SourceError(f'script "{path}" cannot be read', detail=f"{error}.", hint=hint) from None
    return parse_script(text, folder=path.resolve().parent, name=path.stem)


def parse_script(text: str, *, folder: Path, name: str = "job") -> Script:
    """Check the script `text`; relative paths count from `folder`."""
    said = parse_statements(text)
    settings = dict(said.settings)
    return Script(
        checkpoint=_place(folder, str(settings.pop("checkpoint", f"{name}.checkpoint"))),
        streams=tuple(replace(stream, path=_place(folder, stream.path)) for stream in said.streams),
        queries=tuple(replace(query, path=_place(folder, query.path)) for query in said.queries),
        drops=said.drops,
        views=said.views,
        options=settings,
        folder=folder,
        places=said.places,
    )


def _place(folder: Path, said: str | Path) -> Path:
    """A URL as it is; a folder counts from that of the script."""
    return Path(said) if read_url(said) is not None else folder / said


def open_session(
    script: Script,
    *,
    checkpoint: Path | None = None,
    workers: int | None = None,
    progress: bool | Live | None = None,
) -> Session:
    """A session with the script's streams and queries declared and nothing started."""
    import weft

    session = weft.Session(checkpoint=str(checkpoint or script.checkpoint), progress=progress)
    for name, value in script.options.items():
        with _name_statement(f"SET {name}", script.places[name]):
            session.options(**_read_files({name: value}, script.folder))
    if workers is not None:
        session.options(workers=workers)
    for stream in script.streams:
        with _name_statement(f"{stream.kind} {stream.name}", stream.span):
            _declare(session, stream, script.folder)
    for view in script.views:
        with _name_statement(f"view {view.name}", view.span):
            session.view(view.name, view.draft)
    known = _known(session)
    for query in script.queries:
        with _name_statement(f"query {query.name}", query.span):
            _register(session, query, known.get(query.name), script.folder)
    for name in known:
        if name not in session.queries:
            session.drop(name)
    return session


def _declare(session: Session, stream: StreamStatement, folder: Path) -> None:
    from weft import read

    options: dict[str, Any] = dict(stream.options)
    if stream.topic is not None:
        how = _read_topic(stream.topic, folder)
        source: object = read.kafka(stream.topic.servers, stream.topic.name, schema=stream.schema, **how)
    else:
        how = {name: options.pop(name) for name in ("max_files", "delimiter", "partitions") if name in options}
        source = getattr(read, stream.format)(str(stream.path), schema=stream.schema, **how)
    if stream.is_table:
        session.table(stream.name, source, **options)
    else:
        session.stream(stream.name, source, **options)


def _read_topic(topic: Topic, folder: Path) -> dict[str, Any]:
    """How a topic is read or written; what begins with env: is in the environment."""
    how = {name: _from_environment(name, value) for name, value in topic.options.items()}
    if "bad_folder" in how:
        how["bad_folder"] = _place(folder, how["bad_folder"])
    if "options" in how:
        how["options"] = {name: _from_environment(name, value) for name, value in how["options"].items()}
    return how


def _from_environment(option: str, value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith("env:"):
        return value
    if (found := os.environ.get(value[4:])) is None:
        hint = "set the variable before the run."
        raise SourceError(
            f"the environment has no variable {value[4:]}", detail=f'option "{option}" is in it.', hint=hint
        )
    return found


def _read_files(options: Options, folder: Path) -> dict[str, Any]:
    """Options as `Session` takes them: statistics and plans by hand are read from the JSON files that are named."""
    from weft import Plan, Statistics

    made: dict[str, Any] = dict(options)
    if "statistics" in made:
        made["statistics"] = Statistics.from_json(_read_text(folder / made["statistics"], "statistics"))
    if str(made.get("strategy", "")).endswith(".json"):
        made["strategy"] = Plan.from_json(_read_text(folder / made["strategy"], "plan"))
    return made


def _read_text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        hint = "name a JSON file; relative paths count from the script's folder."
        raise SourceError(f'{what} "{path}" cannot be read', detail=f"{error}.", hint=hint) from None


def _register(session: Session, query: QueryStatement, known: Mapping[str, Any] | None, folder: Path) -> None:
    """Register a query; one that the checkpoint has with another text is dropped first, so that it begins anew."""
    options = _read_files(query.options, folder)
    how = {name: options.pop(name) for name in ("merge", "mode", "partition_by") if name in options}
    handle = session.query(query.name, query.draft, **options)
    if known is not None and not is_same_query(known, describe_query(handle.query)):
        session.drop(query.name)
        handle = session.query(query.name, query.draft, **options)
    if query.topic is not None:
        handle.to_kafka(query.topic.servers, query.topic.name, **_read_topic(query.topic, folder))
    else:
        handle.to_parquet(str(query.path), **how)


def _known(session: Session) -> Mapping[str, Mapping[str, Any]]:
    """The queries that the state was made for; none if there is no state."""
    return session.checkpoint.queries() if session.checkpoint.last >= 0 else {}


# ---------------------------------------------------------------------------------------------- changes


def say_changes(session: Session, script: Script) -> list[str]:
    """What a run of the session changes in its checkpoint, one line each; nothing if there is no state yet."""
    if session.checkpoint.last < 0:
        return []
    known = _known(session)
    lines = [_say_dropped(name, script) for name in known if name not in session.queries]
    unknown = (name for name in script.drops if name not in known and name not in session.queries)
    lines += [f"query {name} is not in the checkpoint: there is nothing to drop" for name in unknown]
    for query in script.queries:
        lines += _say_query(session, query, known.get(query.name))
    workers = session.checkpoint.workers()
    if workers != session.workers:  # then all plans are others
        return [*lines, f"{session.workers} workers instead of {workers}"]
    return [*lines, *_say_plans(session, known)]


def _say_dropped(name: str, script: Script) -> str:
    return f"query {name}: dropped" if name in script.drops else f"query {name} is no longer in the script: dropped"


def _say_query(session: Session, query: QueryStatement, known: Mapping[str, Any] | None) -> Iterator[str]:
    handle = session.queries[query.name]
    if known is not None and is_same_query(known, describe_query(handle.query)):
        return  # it goes on as it is
    yield f"query {query.name} " + ("is new: added" if known is None else "has changed: replaced")
    if any(sink.holds_results() for sink in handle.sinks):
        yield f"query {query.name}: folder {query.path} holds results of the earlier text too"
    if (moment := handle.complete_from) is not None:
        yield f"query {query.name}: {say_complete(moment)}, since rows it needs were read before and not kept"


def _say_plans(session: Session, known: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Queries that go on with another plan, since another strategy, budget or sharing is asked for."""
    plans = session.checkpoint.plans()
    for choice in session.choices:
        kept = choice.name in known and is_same_query(known[choice.name], describe_query(choice.query))
        if kept and plans[choice.name]["plan"] != remember_choice(choice, session.sharing)["plan"]:
            yield f"query {choice.name} has another plan: its state is moved"


@contextmanager
def _name_statement(statement: str, place: Span) -> Iterator[None]:
    """Add the statement and its place to an error.  What is wrong inside a SELECT is pointed at already."""
    try:
        yield
    except WeftError as error:
        parts = (error.detail,) if error.is_placed else (point(place), error.detail)
        where = "\n".join(part for part in parts if part)
        raise error.restate(detail=f"in {statement}, {where}", hint=for_scripts(error.hint)) from error
