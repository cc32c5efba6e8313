"""A thousand random queries against the oracle, under every strategy and random plans; `make fuzz N=10000` runs more.

A pair is one plan of one query on one run.  There are more than 4,000 of them; half keep intermediate results, a third
of these results of results.  Each chunk has least numbers of them, so that this stays true.
"""

import pytest

from tests.fuzz import TREES, Tally, check, make_case
from weft.optimizer.wishes import STRATEGIES

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
    assert tally.pairs >= 130
    assert tally.kept >= 45
    assert tally.nested >= 10
    assert tally.answered >= 12, "plans with intermediate results join next to nothing"
    assert all(tally.strategies[name] >= 8 for name in (*TREES, "by hand"))
    assert all(tally.strategies[name] for name in STRATEGIES if "+" not in name)
    assert sum(tally.strategies[name] for name in STRATEGIES if "+" in name) >= 3


def test_there_are_a_thousand_queries() -> None:
    assert sum(len(set(make_case(seed).queries.values())) for seed in range(CHUNKS * EACH)) >= 1000
