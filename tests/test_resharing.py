"""Sessions whose sharing changes; `python -m tests.resharing --n 1000` runs more."""

from collections import Counter

import pytest

from tests.resharing import check, make


@pytest.mark.fuzz
def test_no_answer_changes_when_plans_for_all_come_and_go() -> None:
    tally: Counter[str] = Counter()
    for seed in range(100, 104):
        case = make(seed)
        try:
            tally += check(case)
        except Exception as error:
            error.add_note(f"{case}\nrepeat: python -m tests.resharing --seed {seed} --n 1 -v")
            raise
    print(tally)
    assert tally["answers"] >= 40
    assert tally["rows"] >= 300
    assert tally["sharing"] >= 4
    assert tally["together"] >= 1, "no plan was chosen for all queries"


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [770016, 770027])
def test_rows_that_are_late_for_one_query_only_stay_apart_when_plans_unite_stores(seed: int) -> None:
    assert check(make(seed))["answers"] >= 15
