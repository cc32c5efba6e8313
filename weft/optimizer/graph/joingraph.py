"""The join graph: relations with sizes, and the selectivities between them.

All algorithms of the optimizer work on this graph and never see the query.  A set of relations is a bitmask, bit i for
the i-th relation in query order; ties are broken by that order, so plans are a function of the graph alone.

    abs(R_i)   size: rows of R_i that can be partners at a time, that is inside its window
    f_ij       selectivity: share of pairs that satisfies the predicates between R_i and R_j
    N_i        parallelism: tasks over which the store of R_i is spread; None leaves it to the cost model

A pair without an edge has f = 1 and is a cross product, even where f = 1 is also some edge's selectivity.  The size
of a set is the product of sizes and selectivities inside it (independence, as in MultiStream IV.A).

Attributes are names of classes of equal values, as in the notation R(a), S(a,b), T(b): relations that share one
are joined by equality on it.  They decide one thing only: whether the values of a tuple say which task it goes to.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from weft.errors import PlanError

MOST_SUBSETS = 20_000
"""How many connected subsets are looked at before the search gives up on larger ones."""


@dataclass(frozen=True, slots=True)
class Base:
    """A relation of the graph."""

    name: str
    size: float
    """abs(R_i)"""
    rate: float | None = None
    """Rows per second; only the cost model "window" needs it."""
    parallelism: int | None = None
    """N_i"""
    attributes: frozenset[str] = frozenset()
    """Classes of equal values that a tuple of this relation carries."""
    partitioning: tuple[str, ...] = ()
    """Attributes whose values name the task of a row; empty places rows anywhere."""
    width: float = 1.0
    """Bytes of a row, for budgets in bytes."""

    def __post_init__(self) -> None:
        for kind, number in (("size", self.size), ("rate", self.rate)):
            if number is not None and not (math.isfinite(number) and number >= 0):
                raise PlanError(f'{kind} of "{self.name}" is {number!r}', detail=f"a {kind} is a number >= 0.")
        if self.parallelism is not None and self.parallelism < 1:
            raise PlanError(
                f'parallelism of "{self.name}" is {self.parallelism}', hint="a store has at least one task."
            )


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Relations and the edges between them, by position."""

    relations: tuple[Base, ...]
    edges: tuple[tuple[int, int, float], ...]
    """(i, j, f_ij) with i < j, sorted, each pair once."""
    tables: int = 0
    """Relations that are tables: they are read before all streams, so a table is never the newest in a result."""
    looked_up: int = 0
    """Tables that change.  Rows of streams meet them as they are at that time, so a join of both is not kept."""
    _neighbours: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _sizes: dict[int, float] = field(init=False, repr=False, compare=False, default_factory=dict)
    """Sizes of sets, once asked for; a cache, not part of the value."""

    def __post_init__(self) -> None:
        names = [r.name for r in self.relations]
        if not names or len(set(names)) < len(names):
            raise PlanError(f"relations of a join graph need different names: {', '.join(names) or 'none'}")
        if [e[:2] for e in self.edges] != sorted({e[:2] for e in self.edges}):
            raise PlanError("edges of a join graph are sorted, each pair once", detail=f"they are {self.edges}.")
        near = [0] * len(names)
        for i, j, f in self.edges:
            if not (0 <= i < j < len(names) and 0 <= f <= 1):
                raise PlanError(f"edge ({i}, {j}) with selectivity {f!r} does not fit {len(names)} relations")
            near[i] |= 1 << j
            near[j] |= 1 << i
        object.__setattr__(self, "_neighbours", tuple(near))

    # ------------------------------------------------------------------------------- names and masks

    @property
    def all(self) -> int:
        """All relations."""
        return (1 << len(self.relations)) - 1

    def mask(self, *names: str) -> int:
        """The set of the named relations."""
        known = [r.name for r in self.relations]
        if unknown := [name for name in names if name not in known]:
            raise PlanError(f'no relation "{unknown[0]}"', detail=f"the graph has {', '.join(known)}.")
        return sum(1 << known.index(name) for name in set(names))

    def names(self, mask: int) -> tuple[str, ...]:
        """The names in a set, in query order."""
        return tuple(self.relations[i].name for i in bits(mask))

    def attributes(self, mask: int) -> frozenset[str]:
        """What tuples over a set of relations carry."""
        return frozenset().union(*(self.relations[i].attributes for i in bits(mask)))

    # ----------------------------------------------------------------------------------------- sizes

    def size(self, mask: int) -> float:
        """abs of the join of a set: prod abs(R_k) * prod f_kl over all k < l in it."""
        if mask not in self._sizes:
            inner = (f for i, j, f in self.edges if mask >> i & 1 and mask >> j & 1)
            self._sizes[mask] = math.prod(self.relations[i].size for i in bits(mask)) * math.prod(inner)
        return self._sizes[mask]

    def bytes(self, mask: int) -> float:
        """Bytes of the join of a set; a joined row is as wide as its members together."""
        return self.size(mask) * math.fsum(self.relations[i].width for i in bits(mask))

    def may_keep(self, mask: int) -> bool:
        """Whether the join of a set may be kept."""
        return not mask & self.looked_up or not mask & ~self.tables

    # --------------------------------------------------------------------------------- connectedness

    def neighbours(self, mask: int) -> int:
        """All relations outside a set with an edge into it."""
        near = 0
        for i in bits(mask):
            near |= self._neighbours[i]
        return near & ~mask

    def is_joinable(self, a: int, b: int) -> bool:
        """Whether an edge runs between two sets."""
        return bool(self.neighbours(a) & b)

    def is_connected(self, mask: int) -> bool:
        """Whether edges inside a set connect all of it."""
        reached = mask & -mask
        while grown := self.neighbours(reached) & mask:
            reached |= grown
        return reached == mask

    def connected_subsets(self, parts: Sequence[int] | None = None, most: int = MOST_SUBSETS) -> Iterator[int]:
        """Connected unions of one or more of the disjoint sets in `parts`, fewer parts first, each once.

        Without `parts` these are the connected sets of relations.  Stops after `most`, so that in a dense graph
        of many relations the small sets are seen and the large ones are not.
        """
        singles = tuple(1 << i for i in range(len(self.relations))) if parts is None else tuple(parts)
        level = dict.fromkeys(singles)
        while level:
            yield from level
            most -= len(level)
            grown = dict.fromkeys(m | p for m in level for p in singles if not m & p and self.is_joinable(m, p))
            level = grown if len(grown) <= most else {}

    # --------------------------------------------------------------------------------------- changes


@lru_cache(maxsize=4096)
def bits(mask: int) -> tuple[int, ...]:
    """Positions of the relations in a set, in query order."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
