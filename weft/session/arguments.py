"""Checks the arguments of a session.  A wrong one is refused at once, with a hint what is allowed."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable
from typing import TypeVar, cast

from weft.errors import HostError, PlanError, QueryError
from weft.host.sources.folders import BadFiles
from weft.host.sources.source import Source
from weft.query.duration import parse_duration

One = TypeVar("One", bound=str)
MOST_WORKERS = 65_536
"""More than anybody has."""


def check_spark(spark: object) -> None:
    """Refuse what is neither a classic Spark session nor None."""
    if spark is not None and type(spark).__module__.startswith("pyspark.sql.connect"):
        raise HostError(
            "a Spark Connect session cannot run Weft",
            detail="Weft sends its plan to the workers and commits on the driver, so it must run in the driver.",
            hint="use a classic session: SparkSession.builder.master(...).getOrCreate().",
        )
    if spark is not None and not hasattr(spark, "sparkContext"):
        raise PlanError(f"spark is a {type(spark).__name__}", hint="pass a SparkSession, or None.")


def check_path(given: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """A checkpoint that is a path."""
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        hint = 'name a folder for the state: weft.Session(checkpoint="state").'
        raise PlanError(f"checkpoint is {given!r}", hint=hint)
    return given


def check_name(kind: str, name: str, taken: Iterable[str]) -> None:
    """Refuse a name that SQL cannot use, or that is taken."""
    if not isinstance(name, str) or not name.isidentifier():
        raise QueryError(
            f"{kind} name {name!r} is not usable",
            hint="use letters, digits and underscores, not starting with a digit.",
        )
    if name in taken:
        raise QueryError(
            f'{kind} "{name}" exists already',
            detail=f"known: {', '.join(sorted(taken))}.",
            hint="choose another name.",
        )


def check_workers(given: int) -> int:
    """A number of workers."""
    if check_whole("workers", given) > MOST_WORKERS:
        raise PlanError(f"workers is {given}", hint=f"use at most {MOST_WORKERS}.")
    return given


def check_whole(what: str, given: int) -> int:
    """A whole number >= 1."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise PlanError(f"{what} is {given!r}", hint="use a whole number >= 1.")
    return given


def check_choice(knob: str, value: One, known: tuple[One, ...]) -> One:
    """One of the known values."""
    if value not in known:
        raise PlanError(f'{knob} "{value}" is unknown', hint=f"use one of: {', '.join(known)}.")
    return value


def read_timing(
    source: Source, event_time: str | None, lateness: str | datetime.timedelta | float | None
) -> tuple[str | None, int]:
    """Event time and lateness in microseconds: as given, else as the source has them."""
    own, delay = getattr(source, "timing", None) or (None, 0)
    column = own if event_time is None else event_time
    if lateness is None:
        return column, delay if column == own else 0
    return column, parse_duration(lateness) if lateness else 0


def check_flags(**given: bool | None) -> None:
    """Refuse what is neither True nor False: a word such as "no" would count as true."""
    for what, value in given.items():
        if value not in (True, False, None):
            raise PlanError(f"{what} is {value!r}", hint="use True or False.")


def read_idle(idle: str | datetime.timedelta | float | None) -> int | None:
    """After how many microseconds without rows a stream is idle; None if never."""
    return None if idle is None else parse_duration(idle)


def refuse_static(name: str, event_time: object, lateness: object, idle: object) -> None:
    """Refuse what makes no sense for a static stream, which is a table."""
    given = {"an event time": event_time, "a lateness": lateness, "a time after which it is idle": idle}
    if found := [what for what, value in given.items() if value is not None]:
        raise QueryError(
            f'stream "{name}" is static and has {found[0]}',
            detail="a static stream is a table: it is read before all others and takes no part in the watermark.",
            hint="leave event_time, lateness and idle out, or leave static out.",
        )


def read_bad_files(name: str, source: Source, bad_files: BadFiles) -> Source:
    """The source, which leaves out bad files if that is wanted."""
    check_choice("bad_files", bad_files, ("fail", "skip"))
    if bad_files == "fail":
        return source
    found = skip() if (skip := getattr(source, "skip_bad_files", None)) else None
    if found is None:
        raise QueryError(
            f'"{name}" is not read from files',
            detail='bad_files="skip" leaves out files that cannot be read.',
            hint="leave bad_files out, or use weft.read.parquet, .csv or .json.",
        )
    return cast("Source", found)


def refuse_new_policy() -> PlanError:
    """The error for another watermark in the middle of a run."""
    return PlanError(
        "a watermark policy was given while the session is running",
        detail="which rows are late would change in the middle; this run goes on without the change.",
        hint="stop the run first: h.stop(), or s.close().",
    )
