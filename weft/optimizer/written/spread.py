"""Spreads in plain data: what a written plan and a checkpoint hold of them.

    axis      (length, "copy") | (length, "random") | (length, key, domain, heavy), the key as SQL text
    regions   ("regions", key, bounds, workers)

What must hold: all aliases see the same cube; every axis has an owner; aliases that hash the same axis hash it by
expressions that the query makes equal.  Otherwise results would be missing or doubled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from weft.errors import PlanError
from weft.expr.model import Column, Expr, aliases, columns
from weft.expr.render import to_sql
from weft.optimizer.cost.estimate import classes
from weft.query.model import Query
from weft.topology.spread import Axis, Cube, Heavy, Regions, Spread


def write_spread(query: Query, spread: Mapping[int, Spread]) -> dict[str, Any]:
    """Alias -> its spread in plain data."""
    return {query.aliases[store.bit_length() - 1]: _plain(found) for store, found in spread.items()}


def _plain(spread: Spread) -> Any:
    if isinstance(spread, Regions):
        return ("regions", to_sql(spread.key), spread.bounds, spread.workers)
    return tuple(_plain_axis(axis) for axis in spread.axes)


def _plain_axis(axis: Axis) -> Any:
    if axis.key is None:
        return (axis.size, axis.kind)
    heavy = tuple((h.code, h.sides, h.own) for h in axis.heavy)
    plain = (axis.size, to_sql(axis.key))
    return (*plain, axis.domain, heavy) if axis.domain or heavy else plain


def read_spread(query: Query, given: Mapping[str, Any]) -> dict[int, Spread]:
    """The spreads of all aliases; nothing where nothing is given."""
    if not given:
        return {}
    if sorted(given) != sorted(query.aliases):
        raise PlanError(
            f"the plan spreads {', '.join(sorted(given))}",
            detail=f"the query has the aliases {', '.join(query.aliases)}.",
            hint="give a spread for each of them, or for none.",
        )
    known = _expressions(query)
    found = {1 << query.position(alias): _read(alias, plain, known) for alias, plain in given.items()}
    cubes = {store: spread for store, spread in found.items() if isinstance(spread, Cube)}
    if cubes:
        _check(query, cubes)
    return found


def _expressions(query: Query) -> dict[str, Expr]:
    """What a spread may hash or cut: the sides of equalities, and the sides and columns of any join predicate."""
    found: dict[str, Expr] = {to_sql(expr): expr for expr in classes(query)}
    for predicate in query.joins:
        for side in getattr(predicate, "args", ()):
            if len(aliases(side)) == 1:
                found.setdefault(to_sql(side), side)
        for column in columns(predicate):
            found.setdefault(to_sql(column), Column(column.alias, column.name, column.type))
    return found


def _read(alias: str, plain: Any, known: Mapping[str, Expr]) -> Spread:
    try:
        if plain and plain[0] == "regions":
            _, text, bounds, workers = plain
            return Regions(_key(alias, text, known), tuple(bounds), tuple(tuple(w) for w in workers))
        return Cube(tuple(_axis(alias, axis, known) for axis in plain))
    except (TypeError, ValueError, IndexError) as error:
        hint = 'give axes as (length, key), the key an expression, "random" or "copy".'
        raise PlanError(f'the spread of "{alias}" is {plain!r}', hint=hint) from error


def _axis(alias: str, plain: Any, known: Mapping[str, Expr]) -> Axis:
    size, text, *more = plain
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(size)
    if text == "random":
        return Axis(size, "random")
    if text == "copy":
        return Axis(size, "copy")
    domain, heavy = more or ((), ())
    grids = tuple(Heavy(code, tuple(sides), own) for code, sides, own in heavy)
    return Axis(size, "hash", _key(alias, text, known), tuple(domain), grids)


def _key(alias: str, text: str, known: Mapping[str, Expr]) -> Expr:
    usable = {name: expr for name, expr in known.items() if aliases(expr) == {alias}}
    if text not in usable:
        raise PlanError(
            f'"{text}" cannot spread "{alias}"',
            detail=f"expressions that its predicates offer: {', '.join(usable) or 'none'}.",
            hint='use one of these, "random" or "copy".',
        )
    return usable[text]


def _check(query: Query, cubes: Mapping[int, Cube]) -> None:
    lengths = {tuple(axis.size for axis in cube.axes) for cube in cubes.values()}
    if len(lengths) > 1 or len(cubes) < len(query.aliases):
        raise PlanError("the aliases are not on one cube", hint="give all of them the same axes in the same order.")
    equal = classes(query)
    for number, axes in enumerate(zip(*(cube.axes for cube in cubes.values()), strict=True), start=1):
        keys = [axis.key for axis in axes if axis.key is not None]
        dealt = sum(axis.kind == "random" for axis in axes)
        joined = len({equal.get(key, to_sql(key)) for key in keys}) <= 1
        _check_values(number, [axis for axis in axes if axis.key is not None])
        if not (joined and dealt + bool(keys) == 1):
            raise PlanError(
                f"axis {number} of the cube is owned by {len(keys) + dealt} aliases that do not belong together",
                detail="results would be missing or doubled.",
                hint="an axis is dealt at random by one alias, or hashed by aliases whose keys the query makes equal.",
            )


def _check_values(number: int, axes: Sequence[Axis]) -> None:
    """All owners of an axis deal the same values, and each has a side of its own in the grid of a heavy one."""
    alike = len({(axis.domain, tuple((h.code, h.sides) for h in axis.heavy)) for axis in axes}) <= 1
    alike = alike and all(len({h.code for h in axis.heavy}) == len(axis.heavy) for axis in axes)
    sides = [list(found) for found in zip(*(axis.heavy for axis in axes), strict=True)] if alike else []
    fits = all(
        sorted(h.own for h in found) == list(range(len(found[0].sides)))
        and min(found[0].sides) >= 1
        and math.prod(found[0].sides) <= axes[0].size
        for found in sides
    )
    if not (alike and fits):
        raise PlanError(
            f"heavy or dealt values of axis {number} do not belong together",
            detail="results would be missing or doubled.",
            hint="give all owners the same values and sides; each owner has its own side; their product fits the axis.",
        )


def check_fits(spread: Mapping[int, Spread], workers: int) -> None:
    """Refuse a spread over more workers than there are: rows on missing workers would be lost."""
    most = max((_workers(found) for found in spread.values()), default=1)
    if most > workers:
        raise PlanError(
            f"the plan spreads rows over {most} workers, there are {workers}",
            detail="rows on a missing worker would join nothing.",
            hint=f"make the product of the lengths at most {workers}, or give the session more workers.",
        )


def _workers(spread: Spread) -> int:
    if isinstance(spread, Cube):
        return spread.workers
    return 1 + max((worker for found in spread.workers for worker in found), default=-1)
