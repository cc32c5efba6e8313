"""Random changes against the oracle after every batch; `python -m tests.changing --n 1000` runs more."""

from pathlib import Path

import pytest

from tests.changing import check_changing, check_moving, make_changing_case
from tests.groups import Tally

CHUNKS, EACH = 2, 14


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_views_are_what_is_left_after_every_batch(chunk: int) -> None:
    tally = Tally()
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        case = make_changing_case(seed)
        try:
            tally += check_changing(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.changing --seed {seed} --n 1 -v")
            raise
    print(tally)
    assert tally.views >= 100
    assert tally.rows >= 300
    assert tally.gone >= 30, "next to nothing was taken back"
    assert tally.deaths >= 5


@pytest.mark.fuzz
def test_views_stay_right_while_plans_and_workers_change(tmp_path: Path) -> None:
    tally = Tally()
    for seed in range(100, 116):
        case = make_changing_case(seed)
        try:
            tally += check_moving(case, tmp_path / str(seed))
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.changing --seed {seed} --n 1 -v")
            raise
    assert tally.taken_up >= 15, "next to nothing was changed"
    assert tally.rows >= 300


def test_cases_have_all_there_is_to_draw() -> None:
    """Otherwise the test above would say less than it seems to."""
    cases = [make_changing_case(seed) for seed in range(200)]
    texts = [text for case in cases for text in case.queries.values()]
    for part in ("GROUP BY", "SELECT DISTINCT", "min(", "max(", "count(DISTINCT", "HAVING", "WITHIN"):
        assert sum(part in text for text in texts) >= 8, part
    assert sum("GROUP BY" not in text for text in texts) >= 50
    assert sum("key" in how for case in cases for how in case.how.values()) >= 30
    assert sum(len(case.how) < len(case.streams) for case in cases) >= 20, "some streams do not change"
