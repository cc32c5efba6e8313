"""Statistics: what is known about streams and predicates, and nothing that is not.

    Statistics(rows={"orders": 1_500_000}, selectivities={("c", "o"): 1 / 150_000})

Unknown is None: no question is ever answered by a silent 0 or 1.  Code that needs a number where none is known takes
it from `Defaults`, the only place with assumed numbers, so that every assumption can be found.

Names are aliases of a query or names of streams.  A number of an alias holds after its selections and wins
over the number of its stream.  Selectivities are shares in [0, 1] of all pairs, and symmetric:
(a, b) and (b, a) are one number.  Statistics are values: a change gives new ones, JSON gives equal ones back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.stats.given import (
    PARTS,
    Pair,
    Table,
    Tops,
    ascending,
    normalized,
    numbers_by_name,
    pair,
    read_document,
    read_numbers,
    read_object,
    read_tops,
    symmetric,
)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a cost model assumes where nothing is known.

    The shares are those that textbook optimizers have used since System R.  They are high for joins over a key, so
    that a join nobody measured is made late and its result is not kept.
    """

    rows: float = 10_000.0
    """Rows of a stream; public CLASH assumes the same."""
    width: float = 100.0
    """Bytes of a row."""
    equality: float = 1 / 10
    """Share of pairs that an equality lets through, where no distinct counts are known."""
    band: float = 1 / 4
    """The same for a bound from both sides."""
    inequality: float = 1 / 3
    """The same for a bound from one side."""
    other: float = 1 / 2
    """The same for any other predicate: functions, <>, LIKE."""
    selection: float = 1.0
    """Share of rows that a predicate over one alias lets through: all of them, so that the plan fits in any case."""


DEFAULTS = Defaults()
LARGE = 0.1
"""A value with more than this share of the rows is much more frequent than others."""
FEW = 0.05
"""By this share of all rows the frequent values of a key may differ, and count as the same."""
HARDLY = 0.05
"""So few partners of a row are as good as none."""


@dataclass(frozen=True, slots=True, init=False)
class Statistics:
    """Sizes, rates, widths, distinct counts and selectivities, each of them possibly unknown."""

    _rows: Table[str, float]
    _rates: Table[str, float]
    _widths: Table[str, float]
    _distinct: Table[str, float]
    _heavy: Table[str, Tops]
    _quantiles: Table[str, tuple[float, ...]]
    _selectivities: Table[Pair, float]
    _predicates: Table[str, float]

    def __init__(
        self,
        rows: Mapping[str, float] | None = None,
        *,
        rates: Mapping[str, float] | None = None,
        widths: Mapping[str, float] | None = None,
        distinct: Mapping[str, float] | None = None,
        heavy: Mapping[str, Iterable[tuple[int, float]]] | None = None,
        quantiles: Mapping[str, Iterable[float]] | None = None,
        selectivities: Mapping[Pair, float] | None = None,
        predicates: Mapping[str, float] | None = None,
    ) -> None:
        """Rows by name, rates in rows per second, widths in bytes, distinct counts by "name.column".

        Heavy hitters are given by "name.column" as pairs (equality code, share of rows), as `s.analyze()` finds them.
        Quantiles are values of "name.column" in order, equally many rows between any two; times are microseconds.
        Selectivities are given by pair of names, or by the SQL text of a predicate as `explain` prints it.
        """
        keep = object.__setattr__
        keep(self, "_rows", numbers_by_name("rows", rows))
        keep(self, "_rates", numbers_by_name("rate", rates))
        keep(self, "_widths", numbers_by_name("width", widths))
        keep(self, "_distinct", numbers_by_name("distinct count", distinct))
        keep(
            self,
            "_quantiles",
            Table(sorted((name, ascending(name, q)) for name, q in (quantiles or {}).items())),
        )
        keep(self, "_heavy", Table(sorted((name, read_tops(name, tops)) for name, tops in (heavy or {}).items())))
        keep(self, "_selectivities", symmetric(selectivities or {}))
        keep(self, "_predicates", numbers_by_name("selectivity", normalized(predicates), most=1.0))

    # ------------------------------------------------------------------------------------- questions

    def rows(self, name: str) -> float | None:
        """How many rows there are in all: of a stream, or of an alias after its selections."""
        return self._rows.get(name)

    def rate(self, name: str) -> float | None:
        """How many rows come per second."""
        return self._rates.get(name)

    def width(self, name: str) -> float | None:
        """How many bytes a row takes."""
        return self._widths.get(name)

    def distinct(self, name: str, column: str) -> float | None:
        """How many values a column has."""
        return self._distinct.get(f"{name}.{column}")

    def heavy(self, name: str, column: str) -> Tops | None:
        """The most frequent values of a column, the heaviest first: (equality code, share of rows)."""
        return self._heavy.get(f"{name}.{column}")

    def quantiles(self, name: str, column: str) -> tuple[float, ...] | None:
        """Values of a column in order, equally many rows between any two."""
        return self._quantiles.get(f"{name}.{column}")

    def selectivity(self, a: str, b: str) -> float | None:
        """f_ab: the share of all pairs of rows that satisfies every predicate between `a` and `b`."""
        return self._selectivities.get(pair(a, b))

    def predicate(self, text: str) -> float | None:
        """The share of all combinations of rows that satisfies one predicate, found by its SQL text."""
        return self._predicates.get(" ".join(text.split()))

    # --------------------------------------------------------------------------------------- changes

    def with_rows(self, name: str, rows: float) -> Statistics:
        """The same with another number of rows."""
        return self.merge(Statistics({name: rows}))

    def with_rate(self, name: str, rate: float) -> Statistics:
        """The same with another rate."""
        return self.merge(Statistics(rates={name: rate}))

    def with_width(self, name: str, width: float) -> Statistics:
        """The same with another row width."""
        return self.merge(Statistics(widths={name: width}))

    def with_distinct(self, name: str, column: str, count: float) -> Statistics:
        """The same with another distinct count."""
        return self.merge(Statistics(distinct={f"{name}.{column}": count}))

    def with_selectivity(self, a: str, b: str, selectivity: float) -> Statistics:
        """The same with another selectivity between two names."""
        return self.merge(Statistics(selectivities={(a, b): selectivity}))

    def with_predicate(self, text: str, selectivity: float) -> Statistics:
        """The same with another selectivity of one predicate."""
        return self.merge(Statistics(predicates={text: selectivity}))

    def merge(self, other: Statistics) -> Statistics:
        """Both together; where both know a number, the other's wins."""
        return Statistics(
            self._rows | other._rows,
            rates=self._rates | other._rates,
            widths=self._widths | other._widths,
            distinct=self._distinct | other._distinct,
            heavy=self._heavy | other._heavy,
            quantiles=self._quantiles | other._quantiles,
            selectivities=self._selectivities | other._selectivities,
            predicates=self._predicates | other._predicates,
        )

    def without_pairs(self, pairs: Collection[Pair]) -> Statistics:
        """The same without the selectivities of some pairs."""
        return Statistics(
            self._rows,
            rates=self._rates,
            widths=self._widths,
            distinct=self._distinct,
            heavy=self._heavy,
            quantiles=self._quantiles,
            selectivities={pair: share for pair, share in self._selectivities.items() if pair not in pairs},
            predicates=self._predicates,
        )

    def follow(self, newer: Statistics, weight: float, jump: float) -> Statistics:
        """The newer numbers, drawn towards these, so that chance does not look like change.

        A number moves by `weight` of the way, on a scale of ratios.  One that differs by more than the factor `jump`
        is taken as it is: that is no chance.  Rows only grow, so they are the newer ones, and so are frequent values
        and quantiles.  What the newer ones do not know is forgotten.
        """
        plain = {
            name: Table((key, _near(old.get(key), value, weight, jump)) for key, value in new.items())
            for name in _NUMBERS
            for old, new in ((getattr(self, name), getattr(newer, name)),)
        }
        return newer.merge(
            Statistics(
                rates=plain["_rates"],
                widths=plain["_widths"],
                distinct=plain["_distinct"],
                selectivities=plain["_selectivities"],
                predicates=plain["_predicates"],
            )
        )

    def differences(self, other: Statistics, factor: float) -> dict[str, tuple[float, float]]:
        """What is known in both and differs by more than a factor: name -> (here, there)."""
        found: dict[str, tuple[float, float]] = {}
        for name, what in _NUMBERS.items():
            here, there = getattr(self, name), getattr(other, name)
            for key in here.keys() & there.keys():
                low, high = sorted((here[key], there[key]))
                if high > factor * low:
                    named = f"{what} {' - '.join(key) if isinstance(key, tuple) else key}"
                    found[named] = here[key], there[key]
        return dict(sorted(found.items()))

    def resembles(self, other: Statistics, factor: float) -> bool:
        """Whether streams look alike: nothing differs by more than a factor, and the same values are frequent.

        Shares of pairs do not count: what probes found in windows is partly of earlier rows.
        """
        keys = self._heavy.keys() & other._heavy.keys()
        mine = self.without_pairs(self._selectivities)
        alike = all(_same_top(self._heavy[key], other._heavy[key]) for key in keys)
        return alike and not mine.differences(other, factor)

    def is_still(self, other: Statistics, factor: float) -> bool:
        """Whether nothing has moved: the same is known, no number differs by more than a factor, and frequent values
        have the same shares, give or take `FEW` of all rows.  Shares so small that hardly any row finds a partner in
        any stream are alike.
        """
        names = (*_NUMBERS, "_rows", "_heavy")
        if any(getattr(self, name).keys() != getattr(other, name).keys() for name in names):
            return False
        rare = HARDLY / max([*self._rows.values(), *other._rows.values()], default=1.0)
        least = {name: rare if name in _SHARES else 0.0 for name in (*_NUMBERS, "_rows")}
        numbers = (
            (max(here[key], floor), max(there[key], floor))
            for name, floor in least.items()
            for here, there in ((getattr(self, name), getattr(other, name)),)
            for key in here
        )
        return all(max(two) <= factor * min(two) for two in numbers) and all(
            _moved(self._heavy[key], other._heavy[key]) <= FEW for key in self._heavy
        )

    def __repr__(self) -> str:
        parts: list[tuple[str, Mapping[Any, Any]]] = [
            ("rows", self._rows), ("rates", self._rates), ("widths", self._widths), ("distinct counts", self._distinct),
            ("frequent values", self._heavy), ("quantiles", self._quantiles), ("selectivities", self._selectivities),
            ("shares of predicates", self._predicates),
        ]  # fmt: skip
        lines = [f"  {what}: {_shown(known)}" for what, known in parts if known]
        return "\n".join(["<statistics>", *lines]) if lines else "<statistics: nothing is known>"

    # ------------------------------------------------------------------------------------------ JSON

    def to_json(self) -> str:
        """The statistics as JSON text, the same for equal ones; a pair stands under its first name only."""
        nested: dict[str, dict[str, float]] = {}
        for (a, b), share in self._selectivities.items():
            nested.setdefault(a, {})[b] = share
        parts = {
            "rows": self._rows,
            "rates": self._rates,
            "widths": self._widths,
            "distinct": self._distinct,
            "quantiles": {name: list(values) for name, values in self._quantiles.items()},
            "heavy": {name: [list(top) for top in tops] for name, tops in self._heavy.items()},
            "selectivities": nested,
            "predicates": self._predicates,
        }
        return json.dumps({key: part for key, part in parts.items() if part}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> Statistics:
        """Statistics from the text of :meth:`to_json`; a selectivity may be given in either direction, or in both."""
        document = read_document(text)
        plain = [key for key in PARTS if key not in ("selectivities", "heavy", "quantiles")]
        flat = {key: read_numbers(key, document.get(key, {})) for key in plain}
        heavy: Any = read_object("heavy", document.get("heavy", {}))
        quantiles: Any = read_object("quantiles", document.get("quantiles", {}))
        nested = read_object("selectivities", document.get("selectivities", {}))
        pairs = {(a, b): f for a, inner in nested.items() for b, f in read_numbers(f"selectivities.{a}", inner).items()}
        return cls(selectivities=pairs, heavy=heavy, quantiles=quantiles, **flat)


_NUMBERS = {
    "_rates": "rate of", "_widths": "width of", "_distinct": "values of",
    "_selectivities": "share of pairs", "_predicates": "share of",
}  # fmt: skip
_SHARES = ("_selectivities", "_predicates")


def _near(old: float | None, new: float, weight: float, jump: float) -> float:
    if old is None or not min(old, new) > 0 or not 1 / jump <= new / old <= jump:
        return new
    return float(old * (new / old) ** weight)


def _same_top(a: Tops, b: Tops) -> bool:
    """Whether the same values have a large part of the rows."""
    large = [{code for code, share in tops if share > LARGE} for tops in (a, b)]
    return large[0] == large[1]


def _moved(a: Tops, b: Tops) -> float:
    """The share of all rows by which frequent values differ."""
    before, after = dict(a), dict(b)
    return max(
        (abs(before.get(code, 0.0) - after.get(code, 0.0)) for code in before.keys() | after.keys()), default=0.0
    )


def _shown(known: Mapping[Any, Any]) -> str:
    """Some names with their numbers, for people."""
    named = {", ".join(key) if isinstance(key, tuple) else key: value for key, value in known.items()}
    shown = [f"{key} {value:.6g}" if isinstance(value, int | float) else str(key) for key, value in named.items()]
    return "; ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
