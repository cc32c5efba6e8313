"""What a user may wish of a plan, and how these wishes are read and checked."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from weft.errors import PlanError
from weft.optimizer.cost.papers import Arrival, BudgetUnit
from weft.optimizer.cubes.plan import SCHEMES
from weft.optimizer.ranges import regions as ranges
from weft.optimizer.written.plan import Plan
from weft.query.model import Query
from weft.stats.model import Statistics

VIEWS = "views"
"""All connected joins are kept: a strategy, and after a "+" the local join of a cube."""
CUBES = tuple(f"hypercube:{scheme}" for scheme in SCHEMES)
STRATEGIES = ("auto", "flat", "left_deep", "tree", "exhaustive", VIEWS, *CUBES, *(f"{cube}+{VIEWS}" for cube in CUBES))
_TWO_WAY = ("two-way:1-bucket", "two-way:contrand", *ranges.SCHEMES)
TWO_WAY = (*_TWO_WAY, *(f"{scheme}+{VIEWS}" for scheme in _TWO_WAY))
"""Strategies for joins of two aliases."""
PLACEMENTS = ("keyed", "scattered")
_SCALE = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}
_BYTES = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?)\s*([kmgt]i?)?(b|bytes|rows)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a user asks of a plan."""

    strategy: str | Plan = "auto"
    budget: float = math.inf
    unit: BudgetUnit = "tuples"
    """What the budget counts."""
    placement: str = "keyed"
    """Whether stores may be keyed, or all are "scattered"."""
    capacity: float | None = None
    """Rows that a worker can hold of a store; a store lies on as many workers as it needs."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Alias -> on how many workers its store lies."""
    skewed: Mapping[str, bool] = field(default_factory=dict)
    """"alias.column" -> whether its values are uneven, whatever statistics say."""
    arrival: Arrival | None = None
    """The arrival factor; None takes "window" where all have windows and rates, else "history"."""


def read_wishes(
    strategy: object, budget: object, placement: object, capacity: object, arrival: object, parallelism: object = None,
    skewed: object = None,
) -> dict[str, Any]:  # fmt: skip
    """The wishes that are not None, by their names in `Wishes`."""
    given: dict[str, Any] = {}
    if strategy is not None:
        given["strategy"] = (
            strategy if isinstance(strategy, Plan) else _require_one_of("strategy", strategy, (*STRATEGIES, *TWO_WAY))
        )
    if budget is not None:
        given["budget"], given["unit"] = parse_budget(budget)
    if placement is not None:
        given["placement"] = _require_one_of("placement", placement, PLACEMENTS)
    if capacity is not None:
        given["capacity"] = _require_positive("capacity", capacity, "a worker holds at least one row of a store.")
    if arrival is not None:
        given["arrival"] = _require_one_of("arrival", arrival, get_args(Arrival))
    if skewed is not None:
        given["skewed"] = _read_skewed(skewed)
    if parallelism is not None:
        given["parallelism"] = _read_tasks(parallelism)
    return given


def parse_budget(given: object) -> tuple[float, BudgetUnit]:
    """A number of rows, or text with a unit: "2 GB", "500 MiB", "3_000_000 rows"."""
    if isinstance(given, str):
        found = _BYTES.fullmatch(given)
        if found is None:
            raise PlanError(f'budget "{given}" is not understood', hint='use a number of rows, or bytes as in "2 GB".')
        amount = float(found[1].replace("_", "")) * _SCALE[(found[2] or "").lower()]
        return amount, "tuples" if found[3].lower() == "rows" else "bytes"
    return _require_positive("budget", given, 'use a number of rows, or bytes as in "2 GB".'), "tuples"


def read_statistics(given: object) -> Statistics | None:
    """The statistics that a user gives, if any."""
    if given is None or isinstance(given, Statistics):
        return given
    raise PlanError(
        f"statistics are a {type(given).__name__}",
        hint="give weft.Statistics(...), Statistics.from_json(text), or call s.analyze().",
    )


def _read_tasks(given: object) -> dict[str, int]:
    if not isinstance(given, Mapping):
        raise PlanError(f"parallelism is {given!r}", hint='give it by alias: parallelism={"l": 4}.')
    for alias, tasks in given.items():
        if not isinstance(tasks, int) or isinstance(tasks, bool) or tasks < 1:
            raise PlanError(f'parallelism of "{alias}" is {tasks!r}', hint="a store lies on at least one worker.")
    return dict(given)


def _read_skewed(given: object) -> dict[str, bool]:
    if not isinstance(given, Mapping) or not all(isinstance(v, bool) and "." in k for k, v in given.items()):
        raise PlanError(f"skewed is {given!r}", hint='name an alias and a column: skewed={"l.l_partkey": True}.')
    return dict(given)


def _require_positive(knob: str, given: object, hint: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not given > 0:
        raise PlanError(f"{knob} is {given!r}", hint=hint)
    return float(given)


def _require_one_of(knob: str, value: object, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise PlanError(f"{knob} {value!r} is unknown", hint=f"use one of: {', '.join(known)}.")
    return value


def inherited(wishes: Wishes, query: Query) -> Wishes:
    """What a part of a query, such as one side of an outer join, is asked for: a strategy by name that it can have.

    A written plan names the aliases of its query, which the part does not have.  A strategy for two aliases is not for
    parts of more or fewer; that all of them together can carry it is for the parts that join.
    """
    if not isinstance(wishes.strategy, str) or (wishes.strategy in TWO_WAY and len(query.relations) < 2):
        return Wishes()
    return Wishes(wishes.strategy)
