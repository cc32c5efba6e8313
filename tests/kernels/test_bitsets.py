"""Points looked up in many boxes, part by part, while boxes come and go: what a nested loop over all boxes finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.kernels.bitsets import BitSets
from weft.kernels.codes import HIGHEST, LOWEST


def draw_boxes(rng: np.random.Generator, count: int, width: int, wide: int) -> tuple[Any, Any]:
    """Boxes with all kinds of ends: wide, of one value, empty, and without one end or both."""
    low = rng.integers(-wide, wide, (count, width))
    high = low + rng.integers(-1, wide, (count, width))
    kind = rng.random((count, width))
    high = np.where(kind < 0.2, low, high)
    low = np.where((kind > 0.6) & (kind < 0.8), LOWEST, low)
    return low, np.where(kind > 0.7, HIGHEST, high)


def brute(low: Any, high: Any, there: Any, points: Any, valid: Any, free: Any = None) -> list[tuple[int, int]]:
    inside = (points[:, None, :] >= low[None]) & (points[:, None, :] <= high[None])
    free = (low == LOWEST) & (high == HIGHEST) if free is None else free
    met = np.where(valid[:, None, :], inside, free[None]).all(axis=2) & there[None]
    return [(int(p), int(b)) for p, b in zip(*np.nonzero(met), strict=True)]


def found_in(sets: BitSets, box_of: Any, points: Any, valid: Any, parts: list[list[int]]) -> list[tuple[int, int]]:
    """All pairs, each part narrowed only where a point differs from the one before it."""
    levels = np.full(len(points), len(parts))
    for level in range(len(parts) - 1, -1, -1):
        part = parts[level]
        new = (points[1:, part] != points[:-1, part]).any(axis=1) | (valid[1:, part] != valid[:-1, part]).any(axis=1)
        levels[1:][new] = level
    levels[:1] = 0
    found = [*sets.find(parts, points, levels, valid, most=7)]
    pairs = [(int(o), int(box_of[s])) for owners, slots in found for o, s in zip(owners, slots, strict=True)]
    for part in parts:  # what is found by all parts is not ruled out by one
        wanted = sets.has_any(part, points[:, part], valid[:, part])
        assert all(wanted[owner] for owner, _ in pairs)
    return sorted(pairs)


@pytest.mark.parametrize("seed", range(80))
def test_boxes_come_and_go(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, wide = int(rng.choice([1, 2, 3, 5, 10, 34])), int(rng.choice([3, 20, 10**6]))
    low, high = draw_boxes(rng, 700, width, wide)
    known = int(rng.choice([0, 1, 63, 64, 65, 300]))
    slabs = int(rng.choice([2, 5, 128, 255]))
    sets = BitSets(low[:known], high[:known], slabs=slabs, room=int(rng.choice([0, 64, 700])))
    box_of = np.full(5000, -1)
    box_of[sets.slots] = np.arange(known)
    slot_of = np.full(700, -1)
    slot_of[:known] = sets.slots
    there = np.zeros(700, dtype=bool)
    there[:known] = True
    for _ in range(4):
        more = min(700 - known, int(rng.integers(0, 200)))
        slot_of[known : known + more] = sets.add(low[known : known + more], high[known : known + more])
        box_of[slot_of[known : known + more]] = np.arange(known, known + more)
        there[known : known + more] = True
        known += more
        gone = rng.choice(known, min(known, int(rng.integers(0, 60))), replace=False) if known else np.empty(0, int)
        sets.remove(slot_of[gone])
        there[gone] = False
        points = rng.integers(-wide - 1, 2 * wide, (25, width))
        points[rng.random((25, width)) < 0.05] = rng.choice([LOWEST, HIGHEST])
        valid = rng.random((25, width)) < 0.9
        for column in range(width):  # points that follow each other agree in some dimensions
            run = int(rng.integers(1, 6))
            points[:, column], valid[:, column] = (a[np.arange(25) // run * run, column] for a in (points, valid))
        order = rng.permutation(width).tolist()
        cut = int(rng.integers(1, width + 1))
        parts = [part for part in (order[:cut], order[cut:]) if part]
        assert found_in(sets, box_of, points, valid, parts) == brute(low, high, there, points, valid)


@pytest.mark.parametrize("seed", range(6))
def test_points_pass_over_groups(seed: int) -> None:
    """Several groups of words: most points reach some of them, and go on from a point that has reached others."""
    rng = np.random.default_rng(seed)
    count, width = int(rng.choice([9_000, 13_000])), 4
    low = rng.integers(0, 1000, (count, width))
    high = low + rng.integers(-1, 200, (count, width))
    free = rng.random((count, width)) < 0.002
    low, high = np.where(free, LOWEST, low), np.where(free, HIGHEST, high)
    sets = BitSets(low[:8_000], high[:8_000], room=int(rng.choice([0, 4_000])))
    slots = np.concatenate([sets.slots, sets.add(low[8_000:], high[8_000:])])
    box_of = np.full(len(sets.ends), -1)
    box_of[slots] = np.arange(count)
    gone = rng.choice(count, 500, replace=False)
    sets.remove(slots[gone])
    there = ~np.isin(np.arange(count), gone)
    points = rng.integers(-50, 1300, (60, width))
    valid = rng.random((60, width)) < 0.97
    for column, run in enumerate((10, 10, 5, 1)):
        points[:, column], valid[:, column] = (a[np.arange(60) // run * run, column] for a in (points, valid))
    for parts in ([[0, 1], [2], [3]], [[0, 1, 2], [3]], [[3, 2, 1, 0]]):
        assert found_in(sets, box_of, points, valid, parts) == brute(low, high, there, points, valid)


@pytest.mark.parametrize("seed", range(12))
def test_runs_of_points_are_met_by_boxes(seed: int) -> None:
    """Many points that agree in the first parts: what these leave is compared with 64 of them at once."""
    rng = np.random.default_rng(seed)
    count, width, wide = int(rng.choice([70, 900, 5_000])), 6, int(rng.choice([8, 300]))
    low, high = draw_boxes(rng, count, width, wide)
    free = (low == LOWEST) & (high == HIGHEST) & (rng.random((count, width)) < 0.7)  # else both are given
    sets = BitSets(low, high, free=free, slabs=int(rng.choice([3, 40, 255])))
    box_of = np.full(len(sets.ends), -1)
    box_of[sets.slots] = np.arange(count)
    gone = rng.choice(count, count // 9, replace=False)
    sets.remove(sets.slots[gone])
    points, valid = rng.integers(-wide - 1, 2 * wide, (300, width)), rng.random((300, width)) < 0.95
    points[rng.random((300, width)) < 0.03] = rng.choice([LOWEST, HIGHEST])
    runs = (int(rng.choice([63, 64, 65, 150])), int(rng.choice([5, 20, 64])), int(rng.choice([1, 2])))
    for column in range(width):
        at = np.arange(300) // runs[column // 2] * runs[column // 2]
        points[:, column], valid[:, column] = points[at, column], valid[at, column]
    wanted = brute(low, high, ~np.isin(np.arange(count), gone), points, valid, free)
    for parts in ([[1, 0], [2, 3], [5, 4]], [[0, 1], [4, 2, 3, 5]], [[3, 0, 2, 1], [4, 5]], [[*range(width)]]):
        assert found_in(sets, box_of, points, valid, parts) == wanted


@pytest.mark.parametrize("seed", range(16))
def test_points_lie_beside_ends(seed: int) -> None:
    """Points at the ends of boxes and next to them, where neither slabs nor places in slabs decide."""
    rng = np.random.default_rng(seed)
    count, width, wide = 700, int(rng.choice([4, 16, 20])), int(rng.choice([300, 2**20, 2**62]))
    low, high = rng.integers(-wide, -wide // 2, (count, width)), rng.integers(wide // 2, wide, (count, width))
    kind = rng.random((count, width))
    low, high = np.where(kind < 0.1, LOWEST, low), np.where(kind > 0.9, HIGHEST, high)
    free = (rng.random((count, width)) < 0.1) & (low == LOWEST)
    high = np.where(free, HIGHEST, high)
    sets = BitSets(low[:500], high[:500], free=free[:500], slabs=int(rng.choice([2, 3, 40, 255])))
    slots = np.concatenate([sets.slots, sets.add(low[500:], high[500:], free[500:])])
    box_of = np.full(len(sets.ends), -1)
    box_of[slots] = np.arange(count)
    ends = np.where(rng.random((200, width)) < 0.5, low[rng.integers(0, count, 200)], high[rng.integers(0, count, 200)])
    points = np.where(rng.random((200, width)) < 0.4, np.clip(ends, -wide, wide) + rng.integers(-1, 2, ends.shape), 0)
    valid = rng.random((200, width)) < 0.98
    cut = width // 2
    runs = np.arange(200) // 70 * 70
    points[:, :cut], valid[:, :cut] = points[runs, :cut], valid[runs, :cut]
    wanted = brute(low, high, np.ones(count, dtype=bool), points, valid, free)
    assert wanted
    for parts in ([[*range(cut)], [*range(cut, width)]], [[*range(width)]]):
        assert found_in(sets, box_of, points, valid, parts) == wanted


@pytest.mark.parametrize("seed", range(40))
def test_a_slab_has_as_many_cuts_before_it_as_its_codes(seed: int) -> None:
    """However codes are spread: evenly, in heaps, far from all others, at the ends of what there is."""
    rng = np.random.default_rng(seed)
    wide = int(rng.choice([3, 200, 30_000, 2**40, 2**62]))
    ends = rng.integers(-wide, wide, (int(rng.choice([1, 30, 2_000])), 1))
    ends[rng.random(len(ends)) < rng.choice([0.0, 0.5])] //= wide // 2
    ends[:1] = rng.choice([LOWEST + 1, HIGHEST - 1, 0])
    sets = BitSets(ends, np.maximum(ends, np.minimum(ends, HIGHEST - 9) + 5), slabs=int(rng.choice([2, 40, 255])))
    cuts = sets.begins[0, 1 : sets.highest[0] + 1]
    near = np.concatenate([cuts, cuts - 1, ends[:, 0], [LOWEST, HIGHEST], rng.integers(LOWEST, HIGHEST, 200)])
    places, _ = sets._places(np.zeros(1, dtype=np.int64), near[:, None])
    assert places[0, : len(near)].tolist() == np.searchsorted(cuts, near, side="right").tolist()


def test_many_results_continue_one_tuple() -> None:
    """The example of the paper's figure 5: two stored partners of one tuple, of which one is for q3."""
    b = np.array([[0, 5], [6, 8], [7, 7], [8, 9], [0, 6], [10, 20]])
    c = np.array([[0, 10], [0, 10], [20, 40], [20, 30], [50, 60], [60, 70]])
    low, high = np.stack([b[:, 0], c[:, 0]], axis=1), np.stack([b[:, 1], c[:, 1]], axis=1)
    sets = BitSets(low, high)
    name = dict(zip(sets.slots.tolist(), ("q1", "q2", "q3", "q4", "q5", "q6"), strict=True))
    ((owners, slots),) = sets.find([[0], [1]], np.array([[7, 25], [7, 55]]), np.array([0, 1]))
    assert [(int(o), name[int(s)]) for o, s in zip(owners, slots, strict=True)] == [(0, "q3")]
    assert sets.has_any([0], np.array([[7], [30]])).tolist() == [True, False]


def test_a_box_is_removed_once_and_restored() -> None:
    low, high = np.zeros((3, 1), dtype=np.int64), np.ones((3, 1), dtype=np.int64)
    sets = BitSets(low, high)

    def slots() -> list[int]:
        return sorted(int(s) for _, some in sets.find([[0]], np.array([[1]]), np.array([0])) for s in some)

    for _ in range(2):
        sets.remove(sets.slots[:1])
        assert slots() == sorted(sets.slots[1:].tolist())
    sets.restore()
    assert slots() == sorted(sets.slots.tolist())


@pytest.mark.parametrize("shift", [0, 1, 7, 32, 63])
def test_slabs_may_lie_anywhere_in_memory(shift: int) -> None:
    rng = np.random.default_rng(shift)
    low, high = draw_boxes(rng, 300, 3, 50)
    sets = BitSets(low, high)
    room = np.zeros(sets.slabs.nbytes + 128, dtype=np.uint8)
    begin = -room.ctypes.data % 64 + shift
    moved = room[begin : begin + sets.slabs.nbytes].reshape(sets.slabs.shape)
    moved[:] = sets.slabs
    sets.slabs = moved
    points, valid = rng.integers(-5, 60, (200, 3)), rng.random((200, 3)) > 0.1
    box_of = np.full(5000, -1)
    box_of[sets.slots] = np.arange(300)
    wanted = brute(low, high, np.ones(300, dtype=bool), points, valid)
    assert found_in(sets, box_of, points, valid, [[0, 1], [2]]) == wanted
