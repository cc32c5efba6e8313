"""The search for axis lengths, compared with a scan of all vectors."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest

from weft.errors import PlanError
from weft.optimizer.cubes.dimensions import Shares, best_dimensions, load, total_sent
from weft.optimizer.cubes.skew import Skew


def vectors(axes: int, p: int) -> Iterator[tuple[int, ...]]:
    if not axes:
        yield ()
        return
    for n in range(1, p + 1):
        yield from ((n, *rest) for rest in vectors(axes - 1, p // n))


def scan(sizes, owned, axes, p, shares: Shares, exact: bool, weight: float) -> tuple[int, ...]:
    def score(dims):
        sent = total_sent(sizes, owned, dims)
        value = float(f"{load(sizes, owned, dims, shares) + weight * sent / p:.11e}")
        rest = (float(f"{sent:.11e}"), math.prod(dims), max(dims))
        return (value, rest[2], rest[0], dims) if exact else (value, *rest, dims)

    return min((d for d in vectors(axes, p) if not exact or math.prod(d) == p), key=score)


def random_problem(rng: np.random.Generator):
    axes, relations = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    owned = [sorted(rng.choice(axes, rng.integers(0, axes + 1), replace=False).tolist()) for _ in range(relations)]
    for axis in set(range(axes)) - {a for mine in owned for a in mine}:
        owned[int(rng.integers(relations))].append(axis)
    sizes = rng.choice([0.0, 1.0, 1.0, 2.0, 3.0, 7.5, 100.0], relations).tolist()
    return sizes, owned, axes


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("weight", [0.0, 0.3])
def test_search_finds_what_a_scan_of_all_finds(exact: bool, weight: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        sizes, owned, axes = random_problem(rng)
        p = int(rng.integers(1, 40))
        shares = {}
        for i, mine in enumerate(owned):
            for a in mine:
                if rng.random() < 0.3:
                    skew = Skew((float(rng.uniform(0.01, 1)),), distinct=float(rng.choice([2, 9, 50, 1e6])))
                    shares[i, a] = skew.table(p)
        found = best_dimensions(sizes, owned, axes, p, shares=shares, exact=exact, weight=weight)
        assert found == scan(sizes, owned, axes, p, shares, exact, weight), (sizes, owned, p, shares)


def test_a_thousand_machines_and_eight_axes_take_no_time() -> None:
    rng = np.random.default_rng(1)
    shapes = [
        ([1.0] * 8, [[i] for i in range(8)]),
        ([1.7**i for i in range(8)], [[i] for i in range(8)]),
        ([1.0] * 9, [[0], *([i, i + 1] for i in range(7)), [7]]),
        ([1.0] * 8, [[i, (i + 1) % 8] for i in range(8)]),
        ([1000.0, *range(1, 9)], [list(range(8)), *([i] for i in range(8))]),
        (list(range(1, 29)), [list(pair) for pair in combinations(range(8), 2)]),
    ]
    begin = time.process_time()
    for sizes, owned in shapes:
        for p in (960, 997, 1000):
            dims = best_dimensions(sizes, owned, 8, p)
            assert math.prod(dims) <= p
            best = load(sizes, owned, dims, {})
            for _ in range(50):  # no random vector of the same product is better
                other = _random_vector(rng, p)
                assert load(sizes, owned, other, {}) >= best * (1 - 1e-12)
    assert time.process_time() - begin < 30


def _random_vector(rng: np.random.Generator, p: int) -> list[int]:
    dims = [1] * 8
    while math.prod(dims) * 2 <= p:
        dims[int(rng.integers(8))] += 1
    return dims if math.prod(dims) <= p else [1] * 8


def test_more_attributes_never_lower_the_load() -> None:
    """Squall 4: an attribute of one relation is no join key, and giving it an axis buys nothing."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        sizes, owned, axes = random_problem(rng)
        i = int(rng.integers(len(sizes)))
        if not owned[i]:
            continue
        more = [[*mine, axes] if j == i else mine for j, mine in enumerate(owned)]
        plain = load(sizes, owned, best_dimensions(sizes, owned, axes, 24), {})
        assert load(sizes, more, best_dimensions(sizes, more, axes + 1, 24), {}) == pytest.approx(plain, rel=1e-12)


def test_no_machine_is_refused() -> None:
    with pytest.raises(PlanError):
        best_dimensions([1.0], [[0]], 1, 0)
