"""Where workers are at home: everyone somewhere, evenly, and nobody moves without need."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from weft.host.homes import assign

executors = st.lists(st.sampled_from("abcdefgh"), min_size=1, unique=True)


@given(st.lists(executors, min_size=1, max_size=6), st.lists(st.integers(1, 20), min_size=1, max_size=3))
def test_workers_are_spread_evenly_and_move_only_if_they_must(story: list[list[str]], sizes: list[int]) -> None:
    homes: tuple[str, ...] = ()
    for turn, there in enumerate(story):
        workers = sizes[turn % len(sizes)]
        before, homes = homes, assign(homes, there, workers)
        loads = [homes.count(executor) for executor in there]
        assert len(homes) == workers
        assert set(homes) <= set(there)
        assert max(loads) - min(loads) <= 1
        stayed = Counter(home for home, old in zip(homes, before, strict=False) if home == old)
        for executor, had in Counter(old for old in before[:workers] if old in there).items():
            assert stayed[executor] >= min(had, workers // len(there)), "only what is more than a share moves"


def test_a_lost_executor_moves_its_share_and_a_new_one_gets_one() -> None:
    homes = assign((), ["1", "2", "3"], 7)
    lost = assign(homes, ["1", "3"], 7)
    assert {worker for worker in range(7) if lost[worker] != homes[worker]} == {
        worker for worker in range(7) if homes[worker] == "2"
    }
    back = assign(lost, ["1", "3", "4"], 7)
    moved = [worker for worker in range(7) if back[worker] != lost[worker]]
    assert [back[worker] for worker in moved] == ["4", "4"]
