"""A thousand random queries against the oracle; `make fuzz N=10000` runs more."""

import pytest

from tests.fuzz import check, make_case

CHUNKS, EACH = 20, 55


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_queries_answer_what_the_oracle_answers(chunk: int) -> None:
    rows = 0
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        case = make_case(seed)
        try:
            rows += check(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.fuzz --seed {seed} --n 1 -v")
            raise
    assert rows > 500, "the cases of this chunk join next to nothing"
