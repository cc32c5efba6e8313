"""Random joins with tables, versions and nearest rows against the oracle; `make fuzz` runs more."""

import random

import pytest

from tests.tabled import Present, cases, check, dated_text, present_text
from tests.wide import Tally

CHUNKS, EACH = 2, 10


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_joins_with_tables_answer_what_the_oracle_answers(chunk: int) -> None:
    tally = Tally()
    for case in cases(chunk * EACH, EACH):
        try:
            one = check(case)
        except Exception as error:
            error.add_note(f"{case.describe()}\nrepeat: python -m tests.tabled --seed {case.seed} --n 1 -v")
            raise
        tally = Tally(tally.views + one.views, tally.rows + one.rows, tally.kinds + one.kinds)
    print(tally)
    assert tally.views >= 40
    assert tally.rows >= 50


def test_cases_have_all_there_is_to_draw() -> None:
    texts, modes = list[str](), set[str]()
    for seed in range(80):
        rng = random.Random(seed)
        texts += [present_text(rng).whole, dated_text(rng).text]
        modes |= {*Present.of(rng).modes.values()}
    for part in (
        "LEFT JOIN",
        "ANTI JOIN",
        "EXISTS",
        " IN (",
        "AS OF now()",
        "AS OF o.ts",
        "ASOF",
        "WITHIN",
        "GROUP BY",
    ):
        assert sum(part in text for text in texts) >= 5, part
    assert modes == {"once", "replaced", "counted", "told"}
