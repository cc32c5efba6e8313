"""Schemes for two relations: hash, 1-Bucket, ContRand."""

from __future__ import annotations

import numpy as np
import pytest

from bench.byhand import join_keys
from bench.routing import cube_route, loads
from tests.optimizer.papers import bistream_probes, one_bucket, shared_keys
from tests.optimizer.places import sets
from weft.errors import PlanError
from weft.optimizer.cubes.cube import Occurrence, hash_cube
from weft.optimizer.cubes.skew import Skew
from weft.optimizer.cubes.twoway import cont_rand

KEYS = join_keys({"R": 1000, "S": 1000}, [("R.k", "S.k")])


def test_one_bucket_sends_to_8_of_64_where_bistream_asks_32() -> None:
    """G-H10"""
    cube = one_bucket(1, 1, 64)
    assert (cube.dims, cube.copies("left"), cube.copies("right")) == ((8, 8), 8, 8)
    assert bistream_probes(64) == 32
    assert bistream_probes(64, groups=8) == 4
    assert one_bucket(4, 1, 64).dims == (16, 4)


def test_cont_rand_lies_between_hash_and_one_bucket() -> None:
    assert cont_rand(KEYS, 64, groups=64).dims == (64, 1, 1)
    assert cont_rand(KEYS, 64, groups=1).dims == (1, 8, 8)
    four = cont_rand(KEYS, 64, groups=4)
    assert (four.dims, four.copies("R")) == ((4, 4, 4), 4)
    assert cont_rand(KEYS, 64).load() == hash_cube(KEYS, 64).load()


def test_cont_rand_takes_fewer_groups_the_more_skew_there_is() -> None:
    groups = []
    for top in (0.001, 0.02, 0.2, 0.9):
        skews = {Occurrence(r, "k"): Skew((top,)) for r in "RS"}
        cube = cont_rand(KEYS, 64, skews=skews)
        groups.append(cube.dims[0])
        assert cube.load(skews) <= min(hash_cube(KEYS, 64).load(skews), one_bucket(1000, 1000, 64).load()) * (1 + 1e-12)
    assert groups == sorted(groups, reverse=True)
    assert groups[0] == 64
    assert groups[-1] == 1


@pytest.mark.parametrize("groups", [1, 2, 3, 12])
def test_pairs_of_a_key_meet_once_under_cont_rand(groups: int) -> None:
    rng = np.random.default_rng(groups)
    cube = cont_rand(KEYS, 12, groups=groups)
    codes = {name: rng.integers(0, 5, 60) for name in "RS"}
    seen = {n: sets(cube_route(cube, n, {"k": codes[n]}, 60), 60) for n in "RS"}
    for i, j in zip(*np.nonzero(codes["R"][:, None] == codes["S"][None, :]), strict=True):
        assert len(seen["R"][i] & seen["S"][j]) == 1


def test_one_bucket_is_even_for_any_order_and_any_key() -> None:
    cube = one_bucket(900, 900, 9)
    found = loads(cube, "left", {}, 900) + loads(cube, "right", {}, 900)
    assert found.max() == found.min() == 600


def test_what_is_no_two_way_join_is_refused() -> None:
    with pytest.raises(PlanError):
        cont_rand(shared_keys(dict.fromkeys("RST", 1), {"R": "k", "S": "k", "T": "k"}), 4)
    with pytest.raises(PlanError):
        cont_rand(shared_keys({"R": 1, "S": 1}, {}), 4)
