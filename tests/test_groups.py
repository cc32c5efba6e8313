"""Random aggregate queries against the oracle after every batch; `python -m tests.groups --n 1000` runs more."""

import pytest

from tests.groups import Tally, check_groups, make_grouped_case

CHUNKS, EACH = 4, 22


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_views_are_what_the_oracle_says_after_every_batch(chunk: int) -> None:
    tally = Tally()
    for seed in range(chunk * EACH, (chunk + 1) * EACH):
        case = make_grouped_case(seed)
        try:
            tally += check_groups(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.groups --seed {seed} --n 1 -v")
            raise
    print(tally)
    assert tally.views >= 300
    assert tally.rows >= 400, "the views of this chunk are next to empty"
    assert tally.deaths >= 10
    assert tally.taken_up >= 5
    assert tally.mixed >= 3
    assert tally.final >= 10


def test_cases_have_all_there_is_to_draw() -> None:
    """Otherwise the test above would say less than it seems to."""
    texts = [text for seed in range(200) for text in make_grouped_case(seed).queries.values()]
    for part in ("GROUP BY", "HAVING", "SELECT DISTINCT", "FILTER", "window(", "window.end", "count(DISTINCT", "avg("):
        assert sum(part in text for text in texts) >= 10, part
