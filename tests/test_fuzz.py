"""A thousand random queries against the oracle, under every strategy and plans by dice; `make fuzz N=10000` runs more.

A pair is one plan of one query on one run.  The least numbers of a chunk say that all chunks together have 4,000 pairs,
of which 2,400 keep intermediate results.
"""

import pytest

from tests.fuzz import Tally, check, make_case
from weft.optimizer.choose import STRATEGIES

CHUNKS, EACH = 20, 42


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_queries_answer_what_the_oracle_answers(chunk: int) -> None:
    tally = Tally()
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        case = make_case(seed)
        try:
            tally += check(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.fuzz --seed {seed} --n 1 -v")
            raise
    print(tally)
    assert tally.rows > 1000, "the cases of this chunk join next to nothing"
    assert tally.pairs >= 200
    assert tally.kept >= 120
    assert tally.nested >= 35
    assert all(tally.strategies[name] >= 15 for name in (*STRATEGIES, "by hand"))
