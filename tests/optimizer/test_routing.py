"""Routing on a cube, as the host does it: joining tuples meet on one machine, and loads are as estimated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.byhand import join_keys
from bench.routing import cube_route, loads
from tests.optimizer.papers import machine, mirrors, shared_keys
from tests.optimizer.places import sets
from weft.kernels.cells import hash_slots
from weft.kernels.codes import destinations
from weft.optimizer.cubes.cube import (
    CubeAxis,
    HeavyGrid,
    Hypercube,
    JoinKeys,
    Occurrence,
    hash_cube,
    hybrid_cube,
    random_cube,
)


def zipf(rng: np.random.Generator, exponent: float, values: int, n: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** exponent
    return rng.choice(values, n, p=weights / weights.sum()).astype(np.int64)


def random_keys(rng: np.random.Generator, relations: int) -> JoinKeys:
    """A connected query: chains, stars, cycles, shared keys, inequalities and cross products."""
    names = [f"r{i}" for i in range(relations)]
    equal, other = [], []
    for i in range(1, relations):
        partner = int(rng.integers(i))
        a, b = f"{names[partner]}.{'abc'[rng.integers(3)]}", f"{names[i]}.{'abc'[rng.integers(3)]}"
        kind = rng.random()
        if kind < 0.7:
            equal.append((a, b))
        elif kind < 0.9:
            other += [a, b]
    if relations > 2 and rng.random() < 0.5:
        equal.append((f"{names[0]}.{'abc'[rng.integers(3)]}", f"{names[-1]}.{'abc'[rng.integers(3)]}"))
    return join_keys({name: int(rng.integers(1, 30)) for name in names}, equal, other)


def random_data(rng: np.random.Generator, keys: JoinKeys) -> dict[str, dict[str, np.ndarray]]:
    exponent, values = float(rng.choice([0.0, 0.5, 1.0, 2.0, 3.0])), int(rng.choice([1, 3, 10]))
    return {n: {a: zipf(rng, exponent, values, int(size)) for a in "abc"} for n, size in keys.sizes}


def combinations(keys: JoinKeys, data: dict[str, dict[str, np.ndarray]]) -> list[tuple[int, ...]]:
    """Rows that agree on every class; other predicates hold for any of these, so all must meet."""
    found: list[tuple[int, ...]] = [()]
    for at, (name, size) in enumerate(keys.sizes):
        before = {n: i for i, (n, _) in enumerate(keys.sizes[:at])}
        grown = []
        for rows in found:
            fits = np.ones(int(size), dtype=bool)
            for _, members in keys.classes:
                mine = [data[name][str(m.attribute)] for m in members if m.relation == name]
                known = [
                    data[m.relation][str(m.attribute)][rows[before[m.relation]]]
                    for m in members
                    if m.relation in before
                ]
                for column in mine:
                    fits &= column == (known[0] if known else mine[0])
            grown += [(*rows, int(i)) for i in np.flatnonzero(fits)]
        found = grown
        if len(found) > 400:
            picks = np.random.default_rng(len(found)).choice(len(found), 400, replace=False)
            found = [found[i] for i in picks]
    return found


def random_heavy(rng: np.random.Generator, cube: Hypercube) -> Hypercube:
    """Spread some values of every hash axis."""
    axes = []
    for axis in cube.axes:
        if axis.kind == "random" or axis.size == 1 or rng.random() < 0.3:
            axes.append(axis)
            continue
        heavy = []
        for code in range(int(rng.integers(1, 4))):
            left, sides = axis.size, []
            for owner in dict.fromkeys(m.relation for m in axis.members):
                sides.append((owner, int(rng.integers(1, left + 1))))
                left //= sides[-1][1]
            heavy.append(HeavyGrid(code, tuple(sides)))
        axes.append(replace(axis, heavy=tuple(heavy), domain=(1, 2, 5) if rng.random() < 0.3 else ()))
    return replace(cube, axes=tuple(axes))


def check_meet_once(rng: np.random.Generator, cube: Hypercube, keys: JoinKeys, data: dict) -> None:
    seen = {}
    for name, size in keys.sizes:
        routed = cube_route(cube, name, data[name], int(size), int(rng.integers(1000)))
        assert routed[1].max(initial=0) < cube.machines
        seen[name] = sets(routed, int(size))
    for rows in combinations(keys, data):
        met = set.intersection(*(seen[name][i] for (name, _), i in zip(keys.sizes, rows, strict=True)))
        assert len(met) == 1, (cube, rows)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_joining_tuples_meet_on_exactly_one_machine(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for p in range(1, 13):
        keys = random_keys(rng, int(rng.integers(2, 5)))
        data = random_data(rng, keys)
        skewed = [o for o in keys.occurrences if rng.random() < 0.4]
        hashed = hash_cube(keys, p)
        for cube in (hashed, random_cube(keys, p), hybrid_cube(keys, p, skewed), random_heavy(rng, hashed)):
            check_meet_once(rng, cube, keys, data)


def test_single_hot_key_meets_once_however_it_is_spread() -> None:
    rng = np.random.default_rng(0)
    keys = shared_keys({"R": 20, "S": 15}, {"R": "k", "S": "k"})
    data = {name: {"k": np.zeros(int(size), dtype=np.int64)} for name, size in keys.sizes}
    axis = CubeAxis("k", "hash", 12, (Occurrence("R", "k"), Occurrence("S", "k")))
    for sides in ((12, 1), (4, 3), (2, 2), (1, 5)):
        cube = Hypercube(keys.sizes, (replace(axis, heavy=(HeavyGrid(0, (("R", sides[0]), ("S", sides[1]))),)),))
        check_meet_once(rng, cube, keys, data)


# ---------------------------------------------------------------------------------------------- balance


def test_consecutive_ids_fill_random_axes_within_one() -> None:
    keys = shared_keys(dict.fromkeys("RST", 1), {"R": "xy", "S": "yz", "T": "zt"})
    for p in (7, 12, 64):
        cube = random_cube(keys, p)
        for first, count in ((0, 100), (13, 57), (1 << 40, 99)):
            assert np.ptp(loads(cube, "R", {}, count, first)) <= 1
    # Two random axes of one relation: its cells are filled in turn, too.
    both = hybrid_cube(
        shared_keys({"R": 1, "S": 1}, {"R": "xy", "S": "xy"}), 36, [Occurrence("R", "x"), Occurrence("R", "y")]
    )
    own = [axis for axis in both.axes if axis.key("R")]
    wide = Hypercube(both.sizes, tuple(replace(axis, size=3) for axis in own))
    assert np.ptp(loads(wide, "R", {}, 59, 5)) <= 1


def test_known_values_are_dealt_in_turn() -> None:
    """G-H6"""
    for values, slots, most, least in ((15, 8, 2, 1), (8, 8, 1, 1), (25, 8, 4, 3)):
        codes = np.random.default_rng(values).integers(-(1 << 62), 1 << 62, values)
        domain = tuple(codes.tolist())
        counts = np.bincount(hash_slots(codes, slots, 0, domain), minlength=slots)
        assert (counts.max(), counts.min()) == (most, least)
        assert hash_slots(np.array([12345]), slots, 0, domain)[0] == destinations(np.array([12345]), slots)[0]


def test_one_axis_routes_like_a_keyed_store() -> None:
    keys = shared_keys({"R": 1, "S": 1}, {"R": "k", "S": "k"})
    codes = np.arange(-500, 500)
    rows, machines = cube_route(hash_cube(keys, 8), "S", {"k": codes}, 1000)
    assert (rows == np.arange(1000)).all()
    assert (machines == destinations(codes, 8)).all()


def test_equal_values_on_two_axes_part_ways() -> None:
    keys = shared_keys(dict.fromkeys("RST", 1), {"R": "y", "S": "yz", "T": "z"})
    codes = np.arange(10_000)
    assert loads(hash_cube(keys, 64), "S", {"y": codes, "z": codes}, 10_000).min() > 0


def test_lost_state_is_the_union_of_mirrors() -> None:
    """G-H7"""
    keys = shared_keys(dict.fromkeys("RST", 100), {"R": "xy", "S": "yz", "T": "zt"})
    cube = random_cube(keys, 64)
    lost = machine(cube, (1, 1, 1))
    for name in "RST":
        rows, machines = cube_route(cube, name, {}, 100)
        held = {m: set(rows[machines == m].tolist()) for m in range(64)}
        assert held[lost]
        assert all(held[m] == held[lost] for m in mirrors(cube, name, lost))


# --------------------------------------------------------------------------------------- Squall, table 1


def test_table_1_at_a_hundredth_of_its_size() -> None:
    """TPCH9-Partial, zipf 2 on Lineitem.partkey; loads by routing alone, in millions at scale."""
    scale, rng = 100, np.random.default_rng(1)
    sizes = {"P": 1_063, "PS": 80_000, "L": 599_861}
    keys = join_keys(sizes, [("P.pk", "PS.pk"), ("PS.pk", "L.pk"), ("PS.sk", "L.sk")])
    heavy = rng.zipf(2.0, sizes["L"]).astype(np.int64) % 20_000
    data = {
        "P": {"pk": rng.permutation(20_000)[:1_063].astype(np.int64)},
        "PS": {"pk": np.arange(80_000) // 4, "sk": rng.integers(0, 1_000, 80_000)},
        "L": {"pk": heavy, "sk": rng.integers(0, 1_000, sizes["L"])},
    }

    def measured(cube: Hypercube) -> tuple[float, float, float]:
        found = np.sum([loads(cube, name, data[name], rows) for name, rows in sizes.items()], axis=0)
        return found.max() * scale / 1e6, found.mean() * scale / 1e6, found.sum() / sum(sizes.values())

    most, mean, copies = measured(hash_cube(keys, 8))
    assert (most, mean, copies) == (pytest.approx(38.5, rel=0.08), pytest.approx(8.5, abs=0.05), 1)
    most, mean, copies = measured(random_cube(keys, 8))
    assert (most, mean, copies) == (
        pytest.approx(15.6, abs=0.05),
        pytest.approx(15.6, abs=0.05),
        pytest.approx(1.83, abs=0.01),
    )
    most, mean, copies = measured(hybrid_cube(keys, 8, [Occurrence("L", "pk")]))
    assert (mean, copies) == (pytest.approx(8.6, abs=0.05), pytest.approx(1.01, abs=0.005))
    assert most < 1.2 * mean  # the paper's suppkey was uneven (22.8); this one is not


def test_machine_numbers_count_the_first_axis_most() -> None:
    keys = shared_keys({"R": 6, "S": 2}, {})
    cube = random_cube(keys, 12)
    assert cube.dims == (6, 2)
    assert machine(cube, (5, 1)) == 11 == machine(cube, (3, 1)) + 4
    assert cube_route(cube, "R", {}, 1, 4)[1].tolist() == [8, 9]
