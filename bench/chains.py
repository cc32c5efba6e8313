"""Chains R1 - R2 - ... - Rn with a given selectivity on every edge: the custom data of MultiStream (000) V.

    r1(id1, b1)   r2(id2, a2, b2)   ...   rn(idn, an)        joined by b1 = a2, b2 = a3, ...

An edge of selectivity f has keys from a domain of 1/f values.  Every relation takes each value equally often;
the rows that are left over take values at random, each at most once.  So every join of neighbours has the expected size
size * size * f, to the row where the domain divides one of the sizes, and no value is heavier than another.

The letters follow the text of the paper, which defines them for every experiment: V.B has L = 1e-8, "medium" 1e-6
and 1e-5; V.C has M = 1e-6 and L = 1e-5 in custom-MLM.  custom-MHL is named without numbers; it takes those of V.B.

Scaling keeps size * f, the partners of a tuple: with it the shape of all sizes, and every ratio of costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.streams import CACHE, SEED, cache_streams
from bench.workload import Workload

PAPER = 1_000_000
"""Rows of a relation in the paper."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Relations r1 to rn and the selectivity between each and the next."""

    name: str
    sizes: tuple[int, ...]
    selectivities: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) != len(self.selectivities) + 1 or not all(0 < f <= 1 for f in self.selectivities):
            raise ValueError(f"no chain over {self.sizes} with selectivities {self.selectivities}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"r{i + 1}" for i in range(len(self.sizes)))

    @property
    def domains(self) -> tuple[int, ...]:
        """How many values the keys of each edge have."""
        return tuple(round(1 / f) for f in self.selectivities)

    @property
    def sql(self) -> str:
        ids = ", ".join(f"id{i + 1}" for i in range(len(self.sizes)))
        joins = " ".join(f"JOIN r{i + 1} ON b{i} = a{i + 1}" for i in range(1, len(self.sizes)))
        return f"SELECT {ids} FROM r1 {joins}"

    def scaled(self, size: int) -> Chain:
        """The same chain with `size` rows in its largest relation; every tuple keeps its number of partners."""
        share = size / max(self.sizes)
        sizes = tuple(max(1, round(rows * share)) for rows in self.sizes)
        return Chain(self.name, sizes, tuple(f / share for f in self.selectivities))

    def tables(self, seed: int = SEED) -> dict[str, pa.Table]:
        """The relations; the same seed gives the same rows."""
        rng = np.random.default_rng(seed)
        columns = {name: {f"id{i + 1}": np.arange(self.sizes[i])} for i, name in enumerate(self.names)}
        for i, (domain, (left, right)) in enumerate(zip(self.domains, pairwise(self.names), strict=True)):
            columns[left][f"b{i + 1}"] = even_keys(rng, self.sizes[i], domain)
            columns[right][f"a{i + 2}"] = even_keys(rng, self.sizes[i + 1], domain)
        return {name: pa.table(found) for name, found in columns.items()}

    def workload(self, batches: int, cache: Path = CACHE) -> Workload:
        """The chain as streams."""
        shape = "-".join([*map(str, self.sizes), *(f"{f:g}" for f in self.selectivities)])
        folder = cache_streams(cache / f"chain-{shape}-{SEED}-{batches}", self.tables, batches)
        edges = {pair: 1 / domain for pair, domain in zip(pairwise(self.names), self.domains, strict=True)}
        return Workload(self.name, folder, self.sql, dict(zip(self.names, self.sizes, strict=True)), edges)


def even_keys(rng: np.random.Generator, size: int, domain: int) -> npt.NDArray[np.int64]:
    """`size` keys from 0 to `domain`, each value equally often or once more, in random order."""
    times, rest = divmod(size, domain)
    more = rng.choice(domain, rest, replace=False)
    return rng.permutation(np.concatenate([np.tile(np.arange(domain), times), more]))


LLLL = Chain("LLLL", (PAPER,) * 5, (1e-8,) * 4)
LLLL_MEDIUM = Chain("LLLL 1e-6", (PAPER,) * 5, (1e-6,) * 4)
LLLL_LARGE = Chain("LLLL 1e-5", (PAPER,) * 5, (1e-5,) * 4)
MLM = Chain("MLM", (PAPER,) * 4, (1e-6, 1e-5, 1e-6))
MHL = Chain("MHL", (PAPER,) * 4, (1e-6, 1e-5, 1e-8))
MMM = Chain("MMM", (PAPER,) * 4, (1e-6,) * 3)
