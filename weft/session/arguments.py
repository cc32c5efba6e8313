"""Arguments of a session, checked: what cannot be meant is refused at once, with what can."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from weft.errors import HostError, PlanError, QueryError

One = TypeVar("One", bound=str)


def check_spark(spark: object) -> None:
    """A classic Spark session, or None."""
    if spark is not None and type(spark).__module__.startswith("pyspark.sql.connect"):
        raise HostError(
            "a Spark Connect session cannot run Weft",
            detail="Weft ships its plan to the workers and commits on the driver, which needs the driver itself.",
            hint="use a classic session: SparkSession.builder.master(...).getOrCreate().",
        )
    if spark is not None and not hasattr(spark, "sparkContext"):
        raise PlanError(f"spark is a {type(spark).__name__}", hint="give a SparkSession, or nothing.")


def check_name(kind: str, name: str, taken: Iterable[str]) -> None:
    """A name that SQL can use, and nothing else has."""
    if not isinstance(name, str) or not name.isidentifier():
        raise QueryError(
            f"{kind} name {name!r} is not usable",
            hint="use letters, digits and underscores, not starting with a digit.",
        )
    if name in taken:
        raise QueryError(f'{kind} "{name}" exists already', detail=f"known: {', '.join(sorted(taken))}.")


def whole(what: str, given: int) -> int:
    """A whole number from 1."""
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise PlanError(f"{what} is {given!r}", hint="use any whole number from 1.")
    return given


def one_of(knob: str, value: One, known: tuple[One, ...]) -> One:
    """One of the values there are."""
    if value not in known:
        raise PlanError(f'{knob} "{value}" is unknown', hint=f"use one of: {', '.join(known)}.")
    return value
