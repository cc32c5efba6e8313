"""Sessions with queries of all kinds that change; `python -m tests.moving --n 1000` runs more."""

import pytest

from tests.moving import TEXTS, check
from tests.wide import Tally, make_world


@pytest.mark.fuzz
def test_a_query_that_is_added_answers_as_if_it_had_been_there_or_is_refused() -> None:
    tally = Tally()
    for seed in SEEDS:
        world = make_world(seed, TEXTS)
        try:
            tally += check(world)
        except Exception as error:
            error.add_note(f"{world.describe()}\nrepeat: python -m tests.moving --seed {seed} --n 1 -v")
            raise
    print(tally)
    assert tally.views >= 20
    assert tally.rows >= 60
    assert tally.kinds["refused"] >= 1


SEEDS = (4, 13, 15, 17, 30, 37, 38)
"""Some found that old rows were passed over."""
