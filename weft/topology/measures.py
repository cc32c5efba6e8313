"""How the aggregates of a group are kept: as numbers that can be added up, or as least and greatest values.

    valid x         how many arguments are not NULL
    true x          how many are true
    float x         their sum, for floating-point arguments
    limb i of x     their sum, for whole numbers and decimals: of 32 bits of the argument, the last limb of all the rest
    least x, greatest x
    values x        how many different values there are; the values themselves are in a store of their own
    list x          the values that are in such a store
    finite x, nan x, above x, below x
                    instead of float, where rows may be taken back: the sum of finite arguments, and how many are NaN,
                    infinite and negative infinite, since these cannot be subtracted

Where rows may be taken back, the next least value must be known when the least one goes.  So least and greatest are no
numbers of a group there, but are found among its values, which have a store of their own.

A sum in limbs is exact: limbs are added up as 64-bit numbers, far from overflow, and put together when the value is
asked for.  COUNT(*) needs nothing, since it is the weight of the group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Expr, text_of
from weft.query.grouping import Aggregate, Grouping
from weft.query.model import MEASURE

Number = OneOf[
    "valid",
    "true",
    "float",
    "limb0",
    "limb1",
    "limb2",
    "least",
    "greatest",
    "values",
    "finite",
    "nan",
    "above",
    "below",
    "list",
]

EXTREMES = ("least", "greatest")

TWO_LIMBS = 19
"""Decimals of this precision have two limbs, longer ones three: so no limb but the last exceeds 32 bits by much."""


@dataclass(frozen=True, slots=True)
class Part:
    """One number of one argument."""

    number: Number
    argument: str

    @property
    def name(self) -> str:
        """The hidden column in which a group has it."""
        return measure_name(self.number, self.argument)


def measure_name(number: str, of: str) -> str:
    """The hidden column of a number of an argument."""
    return f"{MEASURE}{number} {of}"


def travelling_name(number: str, argument: Expr) -> str:
    """The hidden column in which tuples bring a number of an argument to whoever wants it."""
    return measure_name(number, hashlib.blake2b(text_of(argument).encode(), digest_size=6).hexdigest())


def united_by(name: str) -> OneOf["sum", "min", "max"]:
    """How the values of a hidden column are united when rows become one."""
    number = name.removeprefix(MEASURE).partition(" ")[0]
    return "min" if number == "least" else "max" if number == "greatest" else "sum"


def limbs(kind: pa.DataType) -> tuple[Number, ...]:
    """The limbs of a whole number or decimal."""
    if pt.is_decimal(kind):
        return ("limb0", "limb1") if kind.precision <= TWO_LIMBS else ("limb0", "limb1", "limb2")
    return ("limb0", "limb1") if kind.bit_width == 64 else ("limb0",)


def numbers(aggregate: Aggregate, kind: pa.DataType | None, changing: bool = False) -> tuple[Number, ...]:
    """The numbers of an aggregate whose argument has a type."""
    match aggregate.kind:
        case "count":
            return () if aggregate.argument is None else ("valid",)
        case "sum" | "avg":
            assert kind is not None
            if not pt.is_floating(kind):
                return (*limbs(kind), "valid")
            return ("finite", "nan", "above", "below", "valid") if changing else ("float", "valid")
        case "min":
            return ("least",)
        case "max":
            return ("greatest",)
        case "distinct":
            return ("values",)
        case "list":
            return ("list",)
    return ("true", "valid")


def parts(grouping: Grouping, types: Mapping[str, pa.DataType]) -> tuple[Part, ...]:
    """All numbers that a grouping keeps, each once; `types` are those of the join's outputs."""
    return tuple(dict.fromkeys(_parts(grouping, types)))


def _parts(grouping: Grouping, types: Mapping[str, pa.DataType]) -> Iterator[Part]:
    for aggregate in grouping.aggregates:
        argument = aggregate.argument or ""
        for number in numbers(aggregate, types.get(argument), grouping.changing):
            if not (number == "list" or (grouping.changing and number in EXTREMES)):
                yield Part(number, argument)


def valued(grouping: Grouping) -> tuple[str, ...]:
    """Arguments whose values are kept: those that are counted, and those whose least or greatest may go."""
    kinds = ("distinct", "list", "min", "max") if grouping.changing else ("distinct", "list")
    asked = (aggregate.argument for aggregate in grouping.aggregates if aggregate.kind in kinds)
    return tuple(dict.fromkeys(name for name in asked if name is not None))


def extremes(grouping: Grouping) -> tuple[Part, ...]:
    """What is found among the values of an argument: all of them, and the least where rows may be taken back."""
    kinds: dict[str, Number] = {"min": "least", "max": "greatest", "list": "list"}
    asked = ((a.kind, a.argument) for a in grouping.aggregates if grouping.changing or a.kind == "list")
    return tuple(dict.fromkeys(Part(kinds[kind], argument) for kind, argument in asked if kind in kinds and argument))
