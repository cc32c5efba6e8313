"""Classes of what pairs make equal."""

from __future__ import annotations

import random

from weft.optimizer.graph.equal import lead_classes


def test_a_class_is_led_by_the_first_of_the_pair_that_joined_it() -> None:
    assert lead_classes([("a", "b"), ("c", "d"), ("d", "b")]) == dict.fromkeys("abcd", "c")
    assert lead_classes([("a", "b"), ("c", "b")]) == dict.fromkeys("abc", "c")


def test_members_stand_in_the_order_in_which_pairs_name_them() -> None:
    assert [*lead_classes([("c", "a"), ("b", "b"), ("a", "d")])] == ["c", "a", "b", "d"]


def test_what_no_pair_connects_stays_apart() -> None:
    assert lead_classes([(1, 1), (2, 3), (3, 2)]) == {1: 1, 2: 2, 3: 2}
    assert lead_classes([]) == {}


def test_random_pairs_give_the_classes_of_relabelling() -> None:
    rng = random.Random(5)
    for _ in range(200):
        pairs = [(rng.randrange(12), rng.randrange(12)) for _ in range(rng.randrange(15))]
        leader: dict[int, int] = {}
        for pair in pairs:
            keep, gone = (leader.setdefault(member, member) for member in pair)
            leader = {member: keep if led == gone else led for member, led in leader.items()}
        assert lead_classes(pairs) == leader
        assert [*lead_classes(pairs)] == [*leader]
