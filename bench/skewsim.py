"""Routing at the scale of Squall's tables: every row goes through the cube, none of them is joined.

    TPCH9-Partial   Lineitem.partkey zipf 2; a line's supplier is one of the four of its part, as dbgen has it, so the
                    suppliers of a frequent part are frequent too (Tables 1 and 2)
    WebAnalytics    two arcs through one hub page, joined with crawled content (Table 1, G-H9)
    3-Reachability  arcs three times; ends fall as x^-1/2 over the pages (G-H8)
    TaskCount       failed tasks with their machine and job (G-H9)

Three cubes are the paper's; `parted` is what "hypercube:hybrid" chooses here, knowing the heavy values of a sample.
Rows are drawn in chunks from their number and a seed, so nothing has to fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.byhand import join_keys
from bench.routing import loads
from weft.kernels.codes import Codes, Ints
from weft.optimizer.cost.prices import Prices
from weft.optimizer.cubes.cube import (
    Hypercube,
    JoinKeys,
    Occurrence,
    Skews,
    hash_cube,
    hybrid_cube,
    random_cube,
)
from weft.optimizer.cubes.plan import weight
from weft.optimizer.cubes.search import choose_cube
from weft.optimizer.cubes.skew import Skew
from weft.stats.held import Held
from weft.stats.values import heaviest

CHUNK = 1 << 20
SAMPLE = 100_000
"""Rows that heavy values are looked for in, as `s.analyze()` does."""
Columns = dict[str, Ints]
Draw = Callable[[np.random.Generator, Ints], Columns]
"""Numbers of rows -> their join keys."""
Paper = tuple[float | None, float | None, float | None]
"""Largest load and average load in millions, replication."""
NONE: Paper = (None, None, None)


@dataclass(frozen=True, slots=True)
class Relation:
    """How many rows there are, and what they look like."""

    rows: int
    draw: Draw

    def chunks(self, seed: int, share: float) -> Iterator[tuple[Ints, Columns]]:
        """A share of the rows, by number and key."""
        end = round(self.rows * share)
        for start in range(0, end, CHUNK):
            ids = np.arange(start, min(start + CHUNK, end), dtype=np.int64)
            yield ids, self.draw(np.random.default_rng([seed, start]), ids)


@dataclass(frozen=True, slots=True)
class Join:
    """A query of the paper on its machines."""

    name: str
    machines: int
    relations: Mapping[str, Relation]
    equal: tuple[tuple[str, str], ...]
    skewed: tuple[str, ...]
    """What the paper calls skewed: "relation.attribute"."""
    paper: Mapping[str, Paper]
    distinct: Mapping[str, int] = field(default_factory=dict)
    """How many values "relation.attribute" has."""
    scale: float = 1.0
    """Of the rows there are in the paper, how many each of these stands for."""

    @property
    def keys(self) -> JoinKeys:
        return join_keys({name: relation.rows for name, relation in self.relations.items()}, self.equal)

    def skews(self, seed: int) -> Skews:
        """What a sample of the rows tells."""
        found: dict[Occurrence, Skew] = {}
        for at, (name, relation) in enumerate(self.relations.items()):
            _, columns = next(relation.chunks(seed + at, min(1.0, SAMPLE / relation.rows)))
            for attribute, values in columns.items():
                tops = heaviest(Held(Codes(values, None, exact=True)))
                distinct = float(self.distinct.get(f"{name}.{attribute}", len(np.unique(values))))
                codes = tuple(code for code, _ in tops)
                found[Occurrence(name, attribute)] = Skew(tuple(s for _, s in tops), codes, max(distinct, len(tops)))
        return found

    def cubes(self, skews: Skews) -> dict[str, Hypercube]:
        """Scheme -> cube."""
        keys, p = self.keys, self.machines
        skewed = [Occurrence(*text.split(".")) for text in self.skewed]
        return {
            "hash": hash_cube(keys, p),
            "random": random_cube(keys, p),
            "hybrid": hybrid_cube(keys, p, skewed),
            "parted": choose_cube(keys, p, skews, weight=weight(Prices()))[0].cube,
        }


@dataclass(frozen=True, slots=True)
class Simulated:
    """The loads of a cube, in rows of the paper."""

    join: str
    scheme: str
    dims: tuple[int, ...]
    machines: int
    most: float
    mean: float
    replication: float
    model: float
    """Largest load as the optimizer has it."""
    paper: Paper


def simulate(join: Join, share: float = 1.0, seed: int = 7) -> list[Simulated]:
    """Route a share of all rows under every scheme; loads are scaled up again."""
    skews = join.skews(seed)
    cubes = join.cubes(skews)
    found = {scheme: np.zeros(cube.machines, dtype=np.int64) for scheme, cube in cubes.items()}
    rows = 0
    for at, (name, relation) in enumerate(join.relations.items()):
        for ids, columns in relation.chunks(seed + at, share):
            rows += len(ids)
            for scheme, cube in cubes.items():
                found[scheme] += loads(cube, name, columns, len(ids), int(ids[0]))
    factor = join.scale / share
    return [
        Simulated(
            join.name, scheme, tuple(n for n in cube.dims if n > 1) or (1,), join.machines,
            float(found[scheme].max()) * factor, float(found[scheme].mean()) * factor,
            float(found[scheme].sum()) / rows, cube.load(skews) * join.scale, join.paper.get(scheme, NONE),
        )
        for scheme, cube in cubes.items()
    ]  # fmt: skip


# ------------------------------------------------------------------------------------------------- queries


def supplier(part: Ints, turn: Ints, suppliers: int) -> Ints:
    """The supplier of a part, by turn from 0 to 3 (TPC-H 4.2.3)."""
    return (part + turn * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1


def lines(parts: int, suppliers: int, exponent: float = 2.0) -> Draw:
    """Part and supplier of order lines; parts follow a zipf law."""

    def draw(rng: np.random.Generator, ids: Ints) -> Columns:
        part = (rng.zipf(exponent, len(ids)).astype(np.int64) - 1) % parts + 1
        return {"partkey": part, "suppkey": supplier(part, rng.integers(0, 4, len(ids)), suppliers)}

    return draw


def tpch9(name: str, machines: int, paper: Mapping[str, Paper], scale: float = 1.0) -> Join:
    """Lineitem, PartSupp and Part after its filter, at ten gigabytes (G-H5)."""
    parts, suppliers = 2_000_000, 100_000
    relations = {
        "P": Relation(106_280, lambda _rng, ids: {"partkey": ids * 18 + 3}),
        "PS": Relation(
            8_000_000,
            lambda _rng, ids: {"partkey": ids // 4 + 1, "suppkey": supplier(ids // 4 + 1, ids % 4, suppliers)},
        ),
        "L": Relation(59_986_060, lines(parts, suppliers)),
    }
    equal = (("P.partkey", "PS.partkey"), ("PS.partkey", "L.partkey"), ("PS.suppkey", "L.suppkey"))
    distinct = {"PS.partkey": parts, "PS.suppkey": suppliers, "L.partkey": parts, "L.suppkey": suppliers}
    return Join(name, machines, relations, equal, ("L.partkey",), paper, distinct | {"P.partkey": 106_280}, scale)


def web_analytics() -> Join:
    """Page 0 is the hub; who links to it is mostly crawled."""
    relations = {
        "W1": Relation(1_030_000, lambda _rng, ids: {"from": ids * 41 + 1, "to": np.zeros(len(ids), np.int64)}),
        "W2": Relation(3_900_000, lambda _rng, ids: {"from": np.zeros(len(ids), np.int64)}),
        "C": Relation(43_000_000, lambda _rng, ids: {"url": ids + 1}),
    }
    paper: dict[str, Paper] = {"hash": (2.26, 2.18, None), "hybrid": (2.07, 2.0, None)}
    equal = (("W1.from", "C.url"), ("W1.to", "W2.from"))
    distinct = {"W1.from": 1_030_000, "C.url": 43_000_000, "W1.to": 1, "W2.from": 1}
    return Join("WebAnalytics", 40, relations, equal, ("W1.to", "W2.from"), paper, distinct)


def ends(pages: int) -> Draw:
    """Arcs whose ends prefer pages of low number."""

    def draw(rng: np.random.Generator, ids: Ints) -> Columns:
        return {end: (rng.random(len(ids)) ** 2 * pages).astype(np.int64) for end in ("from", "to")}

    return draw


def reachability() -> Join:
    arcs, pages = 10_200_000, 2_000_000
    relations = {name: Relation(arcs, ends(pages)) for name in ("w1", "w2", "w3")}
    paper: dict[str, Paper] = {"hash": (None, 3.683, 13 / 3)}
    distinct = {f"{name}.{end}": pages for name in relations for end in ("from", "to")}
    return Join("3-Reachability", 36, relations, (("w1.to", "w2.from"), ("w2.to", "w3.from")), (), paper, distinct)


def task_count() -> Join:
    machines, jobs = 37_780, 2_012_240
    relations = {
        "machine": Relation(machines, lambda _rng, ids: {"id": ids}),
        "job": Relation(jobs, lambda _rng, ids: {"id": ids}),
        "task": Relation(
            13_829_780,
            lambda rng, ids: {"machine": rng.integers(0, machines, len(ids)), "job": rng.integers(0, jobs, len(ids))},
        ),
    }
    paper: dict[str, Paper] = {"hash": (None, 2.018, None), "random": (None, 3.779, None)}
    equal = (("machine.id", "task.machine"), ("job.id", "task.job"))
    distinct = {"machine.id": machines, "task.machine": machines, "job.id": jobs, "task.job": jobs}
    return Join("TaskCount", 8, relations, equal, (), paper, distinct)


TABLE_10G: Mapping[str, Paper] = {"hash": (38.5, 8.5, 1.0), "random": (15.6, 15.6, 1.83), "hybrid": (22.8, 8.6, 1.01)}
TABLE_80G: Mapping[str, Paper] = {"random": (35.0, 35.0, 6.19), "hybrid": (78.9, 6.3, 1.11)}


def joins() -> Sequence[Join]:
    """All queries; of 80 gigabytes an eighth of the rows is routed, each for eight."""
    return (
        tpch9("TPCH9 10G", 8, TABLE_10G),
        tpch9("TPCH9 80G", 100, TABLE_80G, scale=8.0),
        web_analytics(),
        reachability(),
        task_count(),
    )
