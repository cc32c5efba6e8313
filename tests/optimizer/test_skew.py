"""Which keys are dealt, which cube is chosen, and what is gained when rows of heavy values are routed apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.byhand import join_keys
from bench.routing import loads
from tests.optimizer.papers import hash_load, shared_keys, zipf_top
from weft.optimizer.cubes.cube import (
    Hypercube,
    Occurrence,
    Skews,
    hash_cube,
    hybrid_cube,
    random_cube,
)
from weft.optimizer.cubes.search import choose_cube, find_skewed, hash_scheme, part_heavy
from weft.optimizer.cubes.skew import Skew, most_in_a_slot, top_share

CHAIN = shared_keys({"R": 1, "S": 1, "T": 1}, {"R": "y", "S": "yz", "T": "z"})
Z = (Occurrence("S", "z"), Occurrence("T", "z"))
ZIPF = dict.fromkeys(Z, Skew((zipf_top(2),)))


def test_frequent_values_add_to_an_even_share() -> None:
    assert hash_load(100, 20, 8) == 30
    assert top_share((0.2,), 8) == pytest.approx(0.3)
    assert top_share((), 8) == 1 / 8
    assert top_share((0.3, 0.3, 0.3), 2) == pytest.approx(0.6 + 0.1 / 2)  # three heavy values, two slots
    assert top_share((0.3, 0.3, 0.3), 8) == pytest.approx(0.3 + 0.1 / 8)


def test_the_fullest_slot_is_as_full_as_hashing_makes_it() -> None:
    rng = np.random.default_rng(3)
    for values, slots in ((15, 8), (8, 8), (100, 8), (300, 8), (5_000, 64), (100_000, 100), (100_000, 1000)):
        tries = [np.bincount(rng.integers(0, slots, values), minlength=slots).max() for _ in range(100)]
        assert most_in_a_slot(values, slots) == pytest.approx(np.mean(tries), rel=0.1)
    assert most_in_a_slot(7, 1) == 7


def test_more_slots_never_make_a_share_larger() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        tops = sorted(rng.dirichlet(np.ones(8))[:6], reverse=True)
        table = Skew(tuple(tops), distinct=float(rng.choice([8, 20, 1000, 1e7]))).table(100)
        assert (np.diff(table[1:]) <= 0).all()
        assert (table[1:] >= 1 / np.arange(1, 101) - 1e-12).all()


def test_chooser_takes_hash_without_skew_hybrid_with_some_and_deals_everything_if_all_is_skewed() -> None:
    assert choose_cube(CHAIN, 64)[0].scheme == "hash"
    best = choose_cube(CHAIN, 64, ZIPF)[0]
    # What is left of z has one owner, S, which y spreads already: renaming S.z too would change nothing.
    assert (best.scheme, best.skewed) == ("hybrid", {Occurrence("T", "z")})
    assert best.load == pytest.approx(2 / 9 + 1 / 7, rel=1e-9)
    all_skewed = dict.fromkeys(CHAIN.occurrences, Skew((0.9,)))
    best = choose_cube(CHAIN, 64, all_skewed)[0]
    assert best.load == pytest.approx(0.75, rel=1e-9)
    assert all(axis.kind == "random" for axis in best.cube.axes if axis.size > 1)


def test_hybrid_is_never_worse_than_hash() -> None:
    rng = np.random.default_rng(4)
    for _ in range(15):
        skews = {o: Skew((float(rng.uniform(0.01, 0.99)),)) for o in CHAIN.occurrences if rng.random() < 0.6}
        by = {c.scheme: c.load for c in choose_cube(CHAIN, 36, skews, part=False)}
        assert by["hybrid"] <= by["hash"] * (1 + 1e-12)


def test_weight_of_what_is_sent_changes_the_choice() -> None:
    light, heavy = choose_cube(CHAIN, 64, ZIPF)[0], choose_cube(CHAIN, 64, ZIPF, weight=50)[0]
    assert heavy.total < light.total
    assert heavy.load > light.load


def test_tpch9_deals_only_lineitem_partkey() -> None:
    sizes = {"P": 106_280.0, "PS": 8_000_000.0, "L": 59_986_060.0}
    keys = join_keys(sizes, [("P.pk", "PS.pk"), ("PS.pk", "L.pk"), ("PS.sk", "L.sk")])
    skewed = Occurrence("L", "pk")
    skews: Skews = {skewed: Skew((zipf_top(2),)), Occurrence("P", "pk"): Skew(unique=True)}
    best = choose_cube(keys, 8, skews)[0]
    # Hashing on Suppkey alone has the same load without renaming anything: Partkey has no axis to be skewed on.
    assert best.load == pytest.approx(8_604_537.5)
    assert {a.name: a.size for a in best.cube.axes if a.size > 1} == {"sk": 8}
    two = join_keys({"L": 1, "PS": 1}, [("L.pk", "PS.pk")])
    assert skewed in find_skewed(two, 64, {o: Skew((0.6,)) for o in two.occurrences})


def test_unique_keys_are_never_skewed_and_the_user_is_right() -> None:
    keys = join_keys({"R": 1, "S": 1}, [("R.k", "S.k")])
    r, s = keys.occurrences
    assert find_skewed(keys, 16, {r: Skew(skewed=True)}) == {r}
    assert find_skewed(keys, 16, {r: Skew((0.9,), skewed=False), s: Skew((0.9,), unique=True)}) == frozenset()


def test_few_values_count_as_skew_unless_they_are_dealt() -> None:
    keys = join_keys({"R": 1, "S": 1}, [("R.k", "S.k")])
    r, s = keys.occurrences
    few = {r: Skew(distinct=15), s: Skew(distinct=15)}
    assert find_skewed(keys, 8, few) == {r, s}
    assert not find_skewed(keys, 8, dict.fromkeys((r, s), Skew(distinct=15, dealt=True)))
    assert not find_skewed(keys, 8, dict.fromkeys((r, s), Skew(distinct=1e6)))


def test_web_analytics_deals_the_hub() -> None:
    """One value on both sides of an axis: hashing it would use one slot."""
    keys = join_keys({"W1": 1.03e6, "W2": 3.9e6, "C": 43e6}, [("W1.from", "C.url"), ("W1.to", "W2.from")])
    hub = Skew((1.0,), distinct=1)
    skews = {Occurrence("W1", "to"): hub, Occurrence("W2", "from"): hub, Occurrence("C", "url"): Skew(unique=True)}
    best = choose_cube(keys, 40, skews)[0]
    assert best.load == pytest.approx(4.1515e6, rel=1e-9)
    assert {a.name: a.size for a in best.cube.axes if a.size > 1} == {"from": 20, "to'": 2}


# ------------------------------------------------------------------------------------------- heavy values


def rows(seed: int, n: int, hot: float, values: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = rng.integers(1, values, n)
    codes[rng.random(n) < hot] = 0
    return codes.astype(np.int64)


def measured(cube: Hypercube, data: dict[str, np.ndarray]) -> np.ndarray:
    return np.sum([loads(cube, name, {"k": codes}, len(codes)) for name, codes in data.items()], axis=0)


def test_parted_heavy_value_lowers_the_load_below_hash_and_random() -> None:
    data = {"R": rows(1, 40_000, 0.3, 5_000), "S": rows(2, 40_000, 0.1, 5_000)}
    keys = shared_keys({n: len(c) for n, c in data.items()}, {"R": "k", "S": "k"})
    skews = {
        Occurrence(n, "k"): Skew((float((c == 0).mean()),), codes=(0,), distinct=float(len(np.unique(c))))
        for n, c in data.items()
    }
    best = choose_cube(keys, 16, skews)[0]
    assert best.scheme == "hash, heavy values parted"
    hashed, random = measured(hash_cube(keys, 16), data), measured(random_cube(keys, 16), data)
    parted = measured(best.cube, data)
    assert parted.max() < 0.65 * hashed.max()
    assert parted.max() < 0.65 * random.max()
    assert parted.max() == pytest.approx(best.load, rel=0.1)
    assert parted.sum() == pytest.approx(best.total, rel=0.001)


def test_several_equally_heavy_values_are_parted_together() -> None:
    keys = shared_keys({"R": 100, "S": 100}, {"R": "k", "S": "k"})
    four = Skew((0.2, 0.2, 0.2, 0.2), codes=(1, 2, 3, 4))
    skews = dict.fromkeys(keys.occurrences, four)
    cube = hash_cube(keys, 64)
    parted = part_heavy(cube, skews)
    assert {h.code for h in parted.axes[0].heavy} == {1, 2, 3, 4}
    assert parted.load(skews) < cube.load(skews)


def test_light_values_are_left_alone() -> None:
    keys = shared_keys({"R": 100, "S": 100}, {"R": "k", "S": "k"})
    skews = dict.fromkeys(keys.occurrences, Skew((0.0001,), codes=(7,)))
    cube = hash_cube(keys, 4)
    parted = part_heavy(cube, skews)
    assert parted.load(skews) <= cube.load(skews)
    assert part_heavy(cube, {}) == cube


def test_zipf_keys_of_a_chain_are_balanced_by_what_is_chosen() -> None:
    """The measured load of the chosen cube is near the estimate, and below both plain schemes."""
    rng = np.random.default_rng(8)
    n, weights = 30_000, 1 / np.arange(1, 2001) ** 1.2
    z = {name: rng.choice(2000, n, p=weights / weights.sum()).astype(np.int64) for name in "ST"}
    y = {name: rng.integers(0, 10_000, n) for name in "RS"}
    keys = shared_keys(dict.fromkeys("RST", n), {"R": "y", "S": "yz", "T": "z"})
    skews = {}
    for name in "ST":
        codes, counts = np.unique(z[name], return_counts=True)
        top = np.argsort(-counts)[:20]
        tops, values = tuple((counts[top] / n).tolist()), tuple(codes[top].tolist())
        skews[Occurrence(name, "z")] = Skew(tops, codes=values, distinct=float(len(codes)))

    def peak(cube: Hypercube) -> float:
        data = {"R": {"y": y["R"]}, "S": {"y": y["S"], "z": z["S"]}, "T": {"z": z["T"]}}
        return float(np.sum([loads(cube, name, data[name], n) for name in "RST"], axis=0).max())

    best = choose_cube(keys, 64, skews)[0]
    assert peak(best.cube) == pytest.approx(best.load, rel=0.25)
    assert peak(best.cube) < min(peak(hash_cube(keys, 64)), peak(random_cube(keys, 64)))
    assert peak(best.cube) < 1.1 * peak(hybrid_cube(keys, 64, Z))


def placed(codes: np.ndarray, distinct: int | None = None) -> Skew:
    """What is known of a key whose values were all counted."""
    values, counts = np.unique(codes, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    tops = tuple((counts[order] / len(codes)).tolist())
    return Skew(tops, tuple(values[order].tolist()), float(distinct or len(values)))


def test_values_of_a_small_known_domain_are_dealt_in_turn() -> None:
    """D30: 15 values on 8 machines, at best two of them on one."""
    codes = np.repeat(np.arange(100, 1600, 100), 50)
    data = {"R": codes, "S": codes}
    keys = shared_keys({n: len(c) for n, c in data.items()}, {"R": "k", "S": "k"})
    skews = {Occurrence(n, "k"): placed(c) for n, c in data.items()}
    plain, dealt = hash_cube(keys, 8), hash_scheme(keys, 8, skews)
    assert len(dealt.axes[0].domain) == 15
    assert measured(plain, data).max() >= 300
    assert measured(dealt, data).max() == dealt.load(skews) == 200
    best = choose_cube(keys, 8, skews)[0]
    assert measured(best.cube, data).max() == pytest.approx(best.load)
    assert best.load <= 200


def test_a_domain_that_may_have_more_values_is_hashed() -> None:
    codes = np.repeat(np.arange(15), 50)
    keys = shared_keys({"R": 750, "S": 750}, {"R": "k", "S": "k"})
    more = dict.fromkeys(keys.occurrences, Skew((0.05,) * 10, tuple(range(10)), 15.0))
    assert not any(axis.domain for axis in hash_scheme(keys, 8, more).axes)
    said = {o: replace(placed(codes), skewed=True) for o in keys.occurrences}
    assert not any(axis.domain for c in choose_cube(keys, 8, said) for axis in c.cube.axes)


def test_one_owner_with_a_small_domain_is_enough_to_deal_it() -> None:
    few, many = np.repeat(np.arange(9) * 7, 400), np.random.default_rng(1).integers(0, 4000, 3000)
    data = {"R": few, "S": many}
    keys = shared_keys({n: len(c) for n, c in data.items()}, {"R": "k", "S": "k"})
    skews = {Occurrence("R", "k"): placed(few), Occurrence("S", "k"): Skew((), (), 2000.0)}
    cube = hash_scheme(keys, 9, skews)
    assert len(cube.axes[0].domain) == 9
    assert measured(cube, data).max() == pytest.approx(cube.load(skews), rel=0.1)
    assert measured(cube, data).max() < 0.8 * measured(hash_cube(keys, 9), data).max()


def test_equally_heavy_values_that_share_a_slot_are_seen() -> None:
    """The hash is known, so the fullest machine is: no chance is left but that of light values."""
    rng = np.random.default_rng(5)
    for values in (4, 6, 12):
        heavy = rng.integers(0, 1 << 40, values)
        draws = [np.where(rng.random(20_000) < 0.7, rng.choice(heavy, 20_000), rng.integers(0, 9999, 20_000))]
        data = {"R": draws[0], "S": rng.integers(0, 9999, 5_000)}
        keys = shared_keys({n: len(c) for n, c in data.items()}, {"R": "k", "S": "k"})
        share = tuple([0.7 / values] * values)
        skews: Skews = {Occurrence("R", "k"): Skew(share, tuple(heavy.tolist()), 9999.0)}
        for p in (3, 5, 8, 12):
            cube = hash_cube(keys, p)
            assert measured(cube, data).max() == pytest.approx(cube.load(skews), rel=0.05)
            parted = part_heavy(cube, skews)
            assert measured(parted, data).max() == pytest.approx(parted.load(skews), rel=0.08)
