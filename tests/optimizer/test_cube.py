"""Hypercubes: the numbers of Squall, printed and derived (G-H1 to G-H9)."""

from __future__ import annotations

import math

import pytest

from bench.byhand import join_keys
from tests.optimizer.papers import (
    coordinates,
    hash_load,
    machine,
    mirrors,
    network_factor,
    replication,
    replication_factor,
    shared_keys,
    skew_degree,
    unspread_share,
    zipf_top,
)
from weft.errors import PlanError
from weft.optimizer.cubes.cube import (
    CubeAxis,
    Hypercube,
    JoinKeys,
    Occurrence,
    hash_cube,
    hybrid_cube,
    random_cube,
)
from weft.optimizer.cubes.skew import Skew, most_in_a_slot

CHAIN = shared_keys({"R": 1, "S": 1, "T": 1}, {"R": "xy", "S": "yz", "T": "zt"})
Z = (Occurrence("S", "z"), Occurrence("T", "z"))


def near(number: float) -> object:
    return pytest.approx(number, rel=1e-9, abs=0)


def lengths(cube: Hypercube) -> dict[str, int]:
    return {axis.name: axis.size for axis in cube.axes}


# ------------------------------------------------------------------------------------------ G-H1 to G-H3


def test_hash_cube_of_a_chain_is_8_by_8() -> None:
    cube = hash_cube(CHAIN, 64)
    assert lengths(cube) == {"y": 8, "z": 8}
    assert cube.load() == near(0.265625)
    assert (cube.total(), cube.machines) == (17, 64)
    assert [cube.copies(name) for name in "RST"] == [8, 1, 8]


def test_random_cube_of_three_is_4_by_4_by_4() -> None:
    cube = random_cube(CHAIN, 64)
    assert (cube.dims, cube.load(), cube.total(), cube.machines) == ((4, 4, 4), 0.75, 48, 64)


def test_random_axes_have_the_proportions_of_the_sizes() -> None:
    cube = random_cube(JoinKeys((("R1", 4.0), ("R2", 1.0)), ()), 64)
    assert (cube.dims, cube.load(), cube.total()) == ((16, 4), 0.5, 32)


def test_seven_machines_do_not_collapse_to_one() -> None:
    cube = random_cube(CHAIN, 7)
    assert (sorted(cube.dims), cube.machines) == ([1, 2, 3], 6)
    assert cube.load() == near(11 / 6)


def test_hybrid_cube_renames_the_skewed_key() -> None:
    cube = hybrid_cube(CHAIN, 64, Z)
    assert lengths(cube) == {"y": 9, "z'": 1, "z''": 7}
    assert [axis.kind for axis in cube.axes] == ["hash", "random", "random"]
    assert cube.load() == near(2 / 9 + 1 / 7)
    assert (cube.total(), cube.machines) == (23, 63)


def test_exact_uses_all_machines_as_squall_does() -> None:
    cube = hybrid_cube(CHAIN, 64, Z, exact=True)
    assert lengths(cube) == {"y": 8, "z'": 1, "z''": 8}
    assert (cube.load(), cube.total(), cube.machines) == (0.375, 24, 64)


def test_half_of_a_key_in_one_slot_gives_the_printed_load() -> None:
    cube, share = hash_cube(CHAIN, 64), unspread_share(0.5, 8)
    assert cube.load() - 1 / 64 - 1 / 8 + share / 8 + share == near(0.6875)


def test_zipf_two_makes_the_hash_cube_slow() -> None:
    assert zipf_top(2) == near(6 / math.pi**2)
    cube = hash_cube(CHAIN, 64)
    load = cube.load(dict.fromkeys(Z, Skew((zipf_top(2),))))
    share = hash_load(1, 6 / math.pi**2, 8)
    assert load == near(1 / 8 + share / 8 + share)
    assert load == pytest.approx(0.8641, abs=5e-5)
    assert share == pytest.approx(0.657, abs=5e-4)


def test_hash_is_2_times_slower_than_hybrid_under_skew_and_random_as_well() -> None:
    hybrid = hybrid_cube(CHAIN, 64, Z).load()
    assert 0.75 / hybrid == pytest.approx(2.05, abs=0.01)
    assert 0.6875 / hybrid == pytest.approx(1.88, abs=0.01)


# ------------------------------------------------------------------------------------------------- G-H4


@pytest.mark.parametrize(("size", "load"), [(0.05, 0.08125), (0.01, 0.04125), (0.001, 0.03225)])
def test_a_small_relation_is_copied_everywhere(size: float, load: float) -> None:
    keys = shared_keys({"R": 1, "S": 1, "T": size}, {"R": "y", "S": "yz", "T": "z"})
    cube = hybrid_cube(keys, 64, Z)
    assert lengths(cube) == {"y": 64, "z'": 1, "z''": 1}
    assert cube.load() == near(load)
    assert cube.copies("T") == 64


def test_a_tenth_is_not_small_enough_to_be_copied_everywhere() -> None:
    cube = hybrid_cube(shared_keys({"R": 1, "S": 1, "T": 0.1}, {"R": "y", "S": "yz", "T": "z"}), 64, Z)
    assert lengths(cube) == {"y": 32, "z'": 1, "z''": 2}
    assert cube.load() == near(0.1125)


def test_only_the_skewed_occurrence_leaves_the_axis() -> None:
    keys = shared_keys({"R": 1, "S": 1, "T": 1}, {"R": "xz", "S": "yz", "T": "zt"})
    cube = hybrid_cube(keys, 64, [Occurrence("T", "z")])
    assert lengths(cube) == {"z": 9, "z'": 7}
    assert cube.axes[0].members == (Occurrence("R", "z"), Occurrence("S", "z"))
    assert (cube.load(), cube.total(), cube.machines) == (near(2 / 9 + 1 / 7), 23, 63)


def test_hybrid_saves_two_of_four_axes() -> None:
    keys = shared_keys(dict.fromkeys("RSTU", 1), {"R": "xy", "S": "yz", "T": "zt", "U": "t"})
    cube = hybrid_cube(keys, 64, Z)
    assert {n: s for n, s in lengths(cube).items() if s > 1} == {"y": 8, "t": 8}
    assert (cube.load(), cube.total(), cube.machines) == (0.5, 32, 64)
    other = random_cube(keys, 64)
    assert (sorted(other.dims), other.load(), other.machines) == ([2, 3, 3, 3], near(1.5), 54)


INEQUALITY = join_keys(dict.fromkeys("RST", 1), [("R.x", "S.x")], ["S.x", "T.y"])


def test_an_inequality_has_an_axis_of_its_own() -> None:
    cube = hybrid_cube(INEQUALITY, 64)
    assert [(a.name, a.kind, a.size) for a in cube.axes] == [("x", "hash", 9), ("y", "hash", 7)]
    assert (cube.load(), cube.total(), cube.machines) == (near(2 / 9 + 1 / 7), 23, 63)
    skewed = hybrid_cube(INEQUALITY, 64, [Occurrence("T", "y")])
    assert [(a.kind, a.size) for a in skewed.axes] == [("hash", 9), ("random", 7)]


def test_a_skewed_side_of_an_equality_makes_three_axes() -> None:
    cube = hybrid_cube(INEQUALITY, 64, [Occurrence("S", "x")])
    assert [(a.name, a.kind, a.size) for a in cube.axes] == [
        ("x", "hash", 4),
        ("x'", "random", 4),
        ("y", "hash", 4),
    ]
    assert (cube.load(), cube.total()) == (0.75, 48)


def test_star_partitions_the_fact_under_random_and_spreads_axes_under_hash() -> None:
    star = shared_keys({"F": 1000, "A": 1, "B": 1, "C": 1}, {"F": "abc", "A": "a", "B": "b", "C": "c"})
    cube = random_cube(star, 16)
    assert (cube.dims, cube.load(), cube.machines) == ((16, 1, 1, 1), 65.5, 16)
    hashed = hash_cube(star, 16)  # X15
    assert (sorted(hashed.dims), hashed.load()) == ([2, 2, 4], 63.75)
    assert 1000 / 16 + 1 / 16 + 2 == 64.5625


def test_relations_on_one_key_are_not_copied() -> None:
    keys = shared_keys({"L": 60, "PS": 8, "P": 2}, {"L": "k", "PS": "k", "P": "k"})
    cube = hash_cube(keys, 10)
    assert (cube.dims, cube.load(), replication(cube)) == ((10,), 7, 1)


def test_triangle_and_self_join_have_an_axis_for_each_class() -> None:
    triangle = hash_cube(shared_keys(dict.fromkeys("RST", 1), {"R": "xy", "S": "yz", "T": "zx"}), 64)
    assert (triangle.dims, triangle.load()) == ((4, 4, 4), near(3 / 16))
    twice = hash_cube(join_keys({"e1": 1, "e2": 1}, [("e1.to", "e2.from")]), 8)
    assert (twice.dims, twice.axes[0].members) == ((8,), (Occurrence("e1", "to"), Occurrence("e2", "from")))


# ------------------------------------------------------------------------------------------- G-H5 to G-H9

PARTS = {"P": 106_280.0, "PS": 8_000_000.0, "L": 59_986_060.0}
TPCH9 = [("P.partkey", "PS.partkey"), ("PS.partkey", "L.partkey"), ("PS.suppkey", "L.suppkey")]
LINE_PART = Occurrence("L", "partkey")


def test_tpch9_on_8_machines() -> None:
    keys = join_keys(PARTS, TPCH9)
    random = random_cube(keys, 8)
    assert (random.dims, random.load(), replication(random)) == (
        (1, 1, 8),
        near(15_604_537.5),
        pytest.approx(1.8333, abs=5e-5),
    )
    hybrid = hybrid_cube(keys, 8, [LINE_PART])
    assert lengths(hybrid) == {"partkey": 1, "partkey'": 1, "suppkey": 8}
    assert (hybrid.load(), replication(hybrid)) == (near(8_604_537.5), pytest.approx(1.0109, abs=5e-5))
    hashed = hash_cube(keys, 8)
    assert (lengths(hashed), hashed.load(), replication(hashed)) == ({"partkey": 8, "suppkey": 1}, 8_511_542.5, 1)
    assert hashed.load({LINE_PART: Skew((zipf_top(2),))}) == pytest.approx(40.4e6, abs=0.05e6)


def test_tpch9_on_100_machines() -> None:
    keys = join_keys({name: 8 * size for name, size in PARTS.items()}, TPCH9)
    random, hybrid = random_cube(keys, 100), hybrid_cube(keys, 100, [LINE_PART])
    assert (random.dims, random.load()) == ((1, 4, 25), pytest.approx(36.05e6, abs=0.005e6))
    assert (hybrid.dims, hybrid.load()) == ((1, 1, 100), pytest.approx(6.289e6, abs=0.0005e6))
    assert replication(random) == pytest.approx(6.62, abs=0.005)
    assert replication(hybrid) == pytest.approx(1.155, abs=0.0005)


def test_three_reachability() -> None:
    arcs = 10.2e6
    keys = join_keys(dict.fromkeys(("w1", "w2", "w3"), arcs), [("w1.to", "w2.from"), ("w2.to", "w3.from")])
    cube = hash_cube(keys, 36)
    assert (cube.dims, cube.load()) == ((6, 6), near(arcs * 13 / 36))
    assert (cube.total(), replication(cube)) == (near(132.6e6), near(13 / 3))
    assert (3 * arcs + 130e6) / cube.total() == pytest.approx(1.211, abs=5e-4)


def test_web_analytics() -> None:
    keys = join_keys({"W1": 1.03e6, "W2": 3.9e6, "C": 43e6}, [("W1.from", "C.url"), ("W1.to", "W2.from")])
    hashed, random = hash_cube(keys, 40), random_cube(keys, 40)
    assert (hashed.dims, hashed.load()) == ((20, 2), near(4.12575e6))
    assert (random.dims, random.load()) == ((1, 2, 20), near(5.13e6))
    hub = [Occurrence("W1", "to"), Occurrence("W2", "from")]
    hybrid = hybrid_cube(keys, 40, hub)
    assert ([a.size for a in hybrid.axes], hybrid.load()) == ([20, 1, 2], near(4.1515e6))


def test_task_count() -> None:
    sizes = {"machine": 37_780.0, "job": 2_012_240.0, "task": 13_829_780.0}
    keys = join_keys(sizes, [("machine.id", "task.machine"), ("job.id", "task.job")])
    hashed, random = hash_cube(keys, 8), random_cube(keys, 8)
    assert (hashed.dims, hashed.load()) == ((1, 8), near(2_018_032.5))
    assert (random.dims, random.load()) == ((1, 1, 8), near(3_778_742.5))
    assert (sizes["machine"] + sizes["job"]) / sizes["task"] == pytest.approx(0.148, abs=5e-4)


def test_a_lost_machine_is_rebuilt_from_its_mirrors() -> None:
    cube = random_cube(CHAIN, 64)
    lost = machine(cube, (1, 1, 1))
    assert {coordinates(cube, m)[0] for m in mirrors(cube, "R", lost)} == {1}
    assert [len(list(mirrors(cube, name, lost))) for name in "RST"] == [16, 16, 16]
    assert all(machine(cube, coordinates(cube, m)) == m for m in range(64))


# ---------------------------------------------------------------------------------------------- metrics


def test_metrics_follow_their_definitions() -> None:
    assert replication_factor(132.6e6, 3 * 10.2e6) == near(13 / 3)
    assert skew_degree([4, 1, 1, 2]) == 2
    assert skew_degree([0, 0]) == 1
    assert network_factor([(10, 5), (5, 2)], 10, 1) == 2
    assert hash_cube(CHAIN, 64).skew_degree() == near(1)
    assert hash_cube(CHAIN, 64).skew_degree(dict.fromkeys(Z, Skew((0.5,)))) > 2


def test_15_values_hashed_on_8_slots_crowd_and_dealt_ones_do_not() -> None:
    assert most_in_a_slot(15, 8) >= 3
    assert most_in_a_slot(8, 8) >= 2
    assert Skew(distinct=15, dealt=True).share(8) == near(2 / 15)
    assert Skew(distinct=25, dealt=True).share(8) == near(4 / 25)


# ------------------------------------------------------------------------------------------------ inputs


def test_classes_close_over_equalities() -> None:
    keys = join_keys(dict.fromkeys("ABCD", 1), [("A.x", "B.y"), ("C.z", "D.w"), ("B.y", "C.z")], ["D.v"])
    assert [len(members) for _, members in keys.classes] == [4, 1]


def test_a_relation_without_keys_has_a_random_axis_in_the_hybrid() -> None:
    keys = join_keys({"R": 1, "S": 1, "X": 1}, [("R.k", "S.k")])
    assert [(a.name, a.kind) for a in hybrid_cube(keys, 64).axes] == [("k", "hash"), ("X", "random")]
    assert hash_cube(keys, 64).copies("X") == 64


def test_what_makes_no_cube_is_refused() -> None:
    with pytest.raises(PlanError):
        JoinKeys((("R", 1.0), ("R", 1.0)), ())
    with pytest.raises(PlanError):
        join_keys({"R": 1}, [("R.x", "S.x")])
    with pytest.raises(PlanError):
        hybrid_cube(CHAIN, 4, [Occurrence("R", "y2")])
    with pytest.raises(PlanError):
        Hypercube((("R", 1.0),), (CubeAxis("a", "random", 2, (Occurrence("R", "a"), Occurrence("S", "a"))),))
    with pytest.raises(PlanError):
        Skew((0.2, 0.3))
