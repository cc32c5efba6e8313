"""What comes first, asking subscriptions or the join: both have a price, and the cheaper one is chosen."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
from bench.asking import Work, main, make
from tests.subscribing import FEED, NAME, changes, declare, draw, expected
from weft.optimizer.choose import Choice
from weft.optimizer.whole import whole_bill
from weft.optimizer.written.plan import bind, write
from weft.query.parameters import REMOVED
from weft.testing import Trial, assert_same_rows


def chosen(tmp_path: Path, work: Work, strategy: Any = "auto") -> Choice:
    (choice,) = work.session(str(tmp_path), strategy).choices
    return choice


@pytest.mark.parametrize("results", [1, 4, 16])
def test_choice_flips_where_everybody_is_wanted(results: int, tmp_path: Path) -> None:
    found = [
        chosen(tmp_path / str(wanted), make(5000, 16_000, wanted, results)).chosen.layout for wanted in (0.01, 0.1, 1.0)
    ]
    assert [layout.subscriptions for layout in found] == ["narrow", "narrow", "join"]
    assert [layout.asked for layout in found] == [(1,), (1,), None], "rows of w are wanted, so they need not ask"


def test_orders_are_weighed_and_shown(tmp_path: Path) -> None:
    session = make(5000, 16_000, 0.1, 2).session(str(tmp_path), "auto")
    (choice,) = session.choices
    orders = {c.layout.subscriptions: c.bill.micros for c in choice.weighed if c.name == choice.chosen.name}
    assert choice.chosen.bill.micros < orders["join"] <= orders["naive"]
    shown = session.explain("candidates")
    assert "subscriptions first for t" in shown
    assert "join first, naive" in shown
    assert "of 5 k subscriptions left; " in shown
    assert "subscriptions first" in session.explain("chosen")


def test_what_is_wished_is_done(tmp_path: Path) -> None:
    work = make(500, 4_000, 1.0, 1)
    for strategy in ("narrow", "join", "naive"):
        choice = chosen(tmp_path / strategy, work, strategy)
        assert (choice.chosen.layout.subscriptions, choice.chosen.layout.asked) == (strategy, None)
        assert choice.weighed == choice.candidates
    plan = weft.Plan(subscriptions="narrow", asked=["t", ("w", "t")])
    assert weft.Plan.from_json(plan.to_json()) == plan
    with pytest.raises(weft.WeftError, match="form that is not understood"):
        weft.Plan(subscriptions="best")  # type: ignore[arg-type]


def test_an_order_is_remembered(tmp_path: Path) -> None:
    choice = chosen(tmp_path, make(500, 4_000, 0.05, 1))
    plan = write(choice.query, choice.chosen.layout)
    assert (plan.subscriptions, plan.asked) == ("narrow", (("t",),))
    assert bind(plan, choice.query).asked == choice.chosen.layout.asked


def test_numbers_are_those_of_a_run(tmp_path: Path) -> None:
    """Tuples that go on are those that were expected, and the whole topology costs what its plan does."""
    work = make(5000, 20_000, 0.1, 2)
    session = work.session(str(tmp_path), "auto")
    (choice,), trial = session.choices, Trial(session)
    added = work.parameters.append_column(REMOVED, pa.array(np.zeros(len(work.parameters), dtype=np.bool_)))
    trial.feed({"w": work.w.slice(0, 0), "a-subscriptions": added})
    for i in range(40):
        trial.feed({"t": work.t.slice(i * 250, 250), "w": work.w.slice(i * 500, 500)})
    bill, whole = choice.chosen.bill, whole_bill(session.topology, [choice])
    assert whole.seconds == pytest.approx(bill.seconds)
    assert whole.total.probed == pytest.approx(bill.pcost)
    assert trial.counters.tuples_sent == pytest.approx(bill.pcost, rel=0.3)


@pytest.mark.parametrize("seed", range(10))
def test_orders_chosen_by_statistics_give_the_answer(seed: int, tmp_path: Path) -> None:
    """Sessions that know samples of what is to come, as users' sessions do."""
    rng = random.Random(5000 + seed)
    case = draw(rng)
    session = declare(case, tmp_path, rng.choice([1, 2]), known=True)
    trial = Trial(session)
    for number, batch in enumerate(case.batches):
        trial.feed({**batch, FEED: changes(case, number)})
    assert_same_rows(trial.table(NAME), expected(case))


def test_bench_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--subscriptions", "300", "--rows", "800", "--wanted", "0.1", "--results", "2", "--times", "1"])
    assert "the faster order was chosen" in capsys.readouterr().out
