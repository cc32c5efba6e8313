"""Random queries as other engines write them, over streams that stay or change, compared with DuckDB after every batch.

    python -m tests.others --n 1000 --seed 0      many cases in this process
    python -m tests.others --seed 4711 --n 1 -v   one case again, printed in full

Aggregates with OVER, neighbours, values by their places, first rows, UNION BY NAME, GROUPING SETS, EXCEPT ALL, lists of
groups, LATERAL with groups, subqueries of one row and those that refer two levels out.  Streams, rows and comparisons
are those of `tests.wide`.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace

from tests.outer import COLUMNS
from tests.seeds import run_seeds
from tests.wide import Tally, Wide, World, check_world, make_world


class Others(Wide):
    """Texts of random queries; all columns that decide an order are in it, so that there is one answer."""

    def text(self) -> str:
        """A query."""
        return self.rng.choice((
            self._over, self._over, self._neighbour, self._place, self._sets, self._counted, self._gathered,
            self._each, self._each, self._one_row, self._far, self._all_keys, self._edge, self._first, self._by_name,
        ))()  # fmt: skip

    def _rows(self) -> tuple[str, list[str]]:
        source, seen = self._join(self.rng.choice((1, 1, 2)))
        return source, self.rng.sample(seen, 3) if len(seen) > 2 else [*seen, seen[0], seen[0]][:3]

    def _over(self) -> str:
        source, (g, o, x) = self._rows()
        order = f" ORDER BY {self._order(o)}" if self.rng.random() < 0.5 else ""
        by = f"PARTITION BY {g}" if self.rng.random() < 0.7 else ""
        if order and self.rng.random() < 0.5:
            order += f" {self._frame()}"
        what = self.rng.choice((f"SUM({x})", "COUNT(*)", f"MAX({x})", f"COUNT({x}) FILTER (WHERE {o} > 1)"))
        total = f"CAST({what} OVER ({by}{order}) AS BIGINT)"
        if self.rng.random() < 0.3:
            return f"SELECT {g} AS c0, {o} AS c1, {x} AS c2 FROM {source} QUALIFY {total} > 1"
        return f"SELECT {g} AS c0, {o} AS c1, {total} AS c2, MIN({x}) OVER () AS c3 FROM {source}"

    def _frame(self) -> str:
        """A frame by the values of the order, or by their places; it need not hold the row itself."""
        low, high = sorted(self.rng.randint(-2, 2) for _ in range(2))
        begin, end = (f"{abs(far)} {'PRECEDING' if far < 0 else 'FOLLOWING'}" for far in (low, high))
        bounds = self.rng.choice((
            f"{begin} AND {end}", f"{begin} AND {end}", f"UNBOUNDED PRECEDING AND {end}",
            f"{begin} AND UNBOUNDED FOLLOWING", "CURRENT ROW AND UNBOUNDED FOLLOWING",
        ))  # fmt: skip
        return f"{self.rng.choice(('RANGE', 'GROUPS'))} BETWEEN {bounds}"

    def _neighbour(self) -> str:
        source, (g, o, x) = self._rows()
        order = ", ".join(self._order(column) for column in (o, x, g))
        what = self.rng.choice((
            f"LAG({x})", f"LEAD({x}, 2)", f"LAG({x}, 1, 7)", f"FIRST_VALUE({x})",
            f"LAG({x}, CAST({g} AS INTEGER))", f"LEAD({x}, CAST({o} AS INTEGER), 7)",
        ))  # fmt: skip
        over = f"{what} OVER (PARTITION BY {g} ORDER BY {order})"
        return f"SELECT {g} AS c0, {o} AS c1, {x} AS c2, {over} AS c3 FROM {source}"

    def _edge(self) -> str:
        """A value by its place in a frame, or all of its values, in an order in which every row has its own place."""
        source, (g, o, x) = self._rows()
        what = self.rng.choice((
            f"FIRST_VALUE({x})", f"LAST_VALUE({x})", f"NTH_VALUE({x}, {self.rng.randint(1, 3)})",
            f"FIRST_VALUE({x} IGNORE NULLS)", f"LAST_VALUE({x} IGNORE NULLS)", f"NTH_VALUE({x}, 2 IGNORE NULLS)",
            f"ARRAY_AGG({x})", f"STRING_AGG(CAST({x} AS VARCHAR), '-')",
        ))  # fmt: skip
        order = ", ".join(self._order(column) for column in (o, x, g))
        frame = self._frame().replace("RANGE", "ROWS") if self.rng.random() < 0.7 else ""
        over = f"{what} OVER (PARTITION BY {g} ORDER BY {order} {frame})"
        return f"SELECT {g} AS c0, {o} AS c1, {x} AS c2, {over} AS c3 FROM {source}"

    def _first(self) -> str:
        """First rows by what is not selected, or hidden by an output of that name."""
        source, (g, o, x) = self._rows()
        order = ", ".join(self._order(column) for column in (o, x, g))
        items = f"{g} AS c0, -{o} AS {o.split('.')[1]}"
        number = self.rng.choice((f"COUNT(*) OVER (PARTITION BY {g})", f"RANK() OVER (ORDER BY {x})", "1"))
        qualify = f" QUALIFY COUNT(*) OVER (PARTITION BY {x}) > 1" if self.rng.random() < 0.3 else ""
        return f"SELECT {items}, {number} AS c2 FROM {source}{qualify} ORDER BY {order} LIMIT {self.rng.randint(1, 5)}"

    def _by_name(self) -> str:
        names = ["c0", "c1", "c2"]
        parts = []
        for _ in range(self.rng.randint(2, 3)):
            source, seen = self._join(self.rng.choice((1, 2)))
            shown = self.rng.sample(names, self.rng.randint(1, 3))
            parts.append(f"SELECT {', '.join(f'{self.rng.choice(seen)} AS {name}' for name in shown)} FROM {source}")
        return self.rng.choice((" UNION ALL BY NAME ", " UNION BY NAME ")).join(parts)

    def _place(self) -> str:
        source, (g, o, x) = self._rows()
        order = ", ".join(self._order(column) for column in (o, x, g))
        tied, whole = (self.rng.choice((f"PERCENT_RANK() OVER {w}", f"CUME_DIST() OVER {w}")) for w in ("t", "()"))
        part = f"NTILE({self.rng.randint(1, 5)}) OVER (w ORDER BY {order})"
        items = f"{g} AS c0, {o} AS c1, {tied} AS c2, {whole} AS c3, {part} AS c4, COUNT({x}) OVER t AS c5"
        return f"SELECT {items} FROM {source} WINDOW w AS (PARTITION BY {g}), t AS (w ORDER BY {self._order(o)})"

    def _sets(self) -> str:
        source, (g, h, x) = self._rows()
        sets = self.rng.choice((
            f"ROLLUP ({g}, {h})", f"CUBE ({g}, {h})", f"GROUPING SETS (({g}, {h}), ({h}))", f"{g}, ROLLUP ({h})",
        ))  # fmt: skip
        having = " HAVING COUNT(*) > 1" if self.rng.random() < 0.3 else ""
        items = f"{g} AS c0, {h} AS c1, MAX({x}) AS c2, GROUPING({g}, {h}) AS c3"
        return f"SELECT {items} FROM {source} GROUP BY {sets}{having}"

    def _counted(self) -> str:
        op = self.rng.choice(("EXCEPT ALL", "INTERSECT ALL"))
        width = self.rng.randint(1, 2)
        return f"{self._plain(width)} {op} {self._plain(width)}"

    def _gathered(self) -> str:
        source, (g, o, x) = self._rows()
        what = self.rng.choice((
            f"ARRAY_AGG({x} ORDER BY {self._order(x)})", f"STRING_AGG(CAST({x} AS VARCHAR), '-' ORDER BY {o}, {x})",
            f"SUM(DISTINCT {x})", f"MEDIAN({x})", f"ROUND(STDDEV({x}), 6)", f"ROUND(VAR_POP({x}), 6)",
            f"QUANTILE_DISC({x}, 0.5)", f"ARRAY_AGG(DISTINCT {x} ORDER BY {x})", f"BIT_XOR({x})",
            f"ARG_MAX({o}, 10 * {x} + {o})", f"ROUND(COVAR_POP({x}, {o}), 6)", f"ROUND(REGR_SXY({x}, {o}), 6)",
            f"REGR_COUNT({x}, {o})", f"ROUND(REGR_AVGX({x}, {o}), 6)", f"ROUND(REGR_SLOPE(2 * {o} + 1, {o}), 6)",
        ))  # fmt: skip
        return f"SELECT {g} AS c0, {what} AS c1 FROM {source} GROUP BY {g}"

    def _one(self) -> tuple[str, str, list[str]]:
        name = self.rng.choice([*COLUMNS])
        self.number += 1
        alias = f"{name}{self.number}"
        return f"{name} AS {alias}", alias, [f"{alias}.{column}" for column in COLUMNS[name]]

    def _each(self) -> str:
        source, seen = self._join(self.rng.choice((1, 1, 2)))
        inner, _, own = self._one()
        outer = self.rng.choice(seen)
        tie = f"{own[0]} {self.rng.choice(('=', '<', '<='))} {outer}"
        body = self.rng.choice((
            f"SELECT {own[1]} AS p, COUNT(*) AS q FROM {inner} WHERE {tie} GROUP BY {own[1]}",
            f"SELECT DISTINCT {own[1]} AS p, {own[2]} AS q FROM {inner} WHERE {tie}",
            f"SELECT {own[1]} AS p, {own[2]} AS q FROM {inner} WHERE {tie} ORDER BY {own[1]}, {own[2]} LIMIT 2",
        ))  # fmt: skip
        join = self.rng.choice(("JOIN", "LEFT JOIN"))
        items = f"{seen[0]} AS c0, {outer} AS c1, l.p AS c2, l.q AS c3"
        return f"SELECT {items} FROM {source} {join} LATERAL ({body}) AS l ON TRUE"

    def _one_row(self) -> str:
        source, seen = self._join(self.rng.choice((1, 1, 2)))
        inner, _, own = self._one()
        outer, value = self.rng.choice(seen), self.rng.choice(seen)
        what = self.rng.choice((f"MAX({own[1]})", "COUNT(*)", f"MIN({own[2]})"))
        having = self.rng.choice(("", "", " HAVING COUNT(*) > 1", " HAVING COUNT(*) = 0"))
        body = f"(SELECT {what} FROM {inner} WHERE {own[0]} {self.rng.choice(('=', '='))} {outer}{having})"
        items = f"{seen[0]} AS c0, {value} AS c1"
        if self.rng.random() < 0.3:
            return f"SELECT {items}, {body} AS c2 FROM {source}"
        asked = self.rng.choice(
            (f"{value} IN {body}", f"{value} NOT IN {body}", f"EXISTS {body}", f"NOT EXISTS {body}")
        )
        return f"SELECT {items} FROM {source} WHERE {asked}"

    def _far(self) -> str:
        outer, _, seen = self._one()
        middle, _, own = self._one()
        inner, _, last = self._one()
        negated, again = (self.rng.choice(("", "NOT ")) for _ in range(2))
        deep = f"{again}EXISTS (SELECT 1 FROM {inner} WHERE {last[0]} = {seen[1]} AND {last[1]} >= {own[1]})"
        asked = f"{negated}EXISTS (SELECT 1 FROM {middle} WHERE {own[0]} = {seen[0]} AND {deep})"
        return f"SELECT {seen[0]} AS c0, {seen[2]} AS c1 FROM {outer} WHERE {asked}"

    def _all_keys(self) -> str:
        source, (g, h, x) = self._rows()
        inner = f"(SELECT {g} AS g, {h} AS h, {x} AS x FROM {source} ORDER BY {x})"
        return f"SELECT * EXCLUDE (x), CAST(SUM(x) AS BIGINT) AS s FROM {inner} AS r GROUP BY ALL"


def make_other(seed: int) -> World:
    """The case of a seed."""
    return replace(make_world(seed), texts=[Others(random.Random(seed + 1), size=2).text()])


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.others",
        "random queries as other engines write them",
        lambda seed, _: make_other(seed),
        lambda world, _: check_world(world),
        Tally(),
        on_spark=False,
    )


if __name__ == "__main__":
    sys.exit(main())
