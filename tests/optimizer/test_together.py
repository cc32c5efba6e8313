"""Plans of many queries, chosen together: exact answers, never predicted to cost more, and shared as they say."""

from __future__ import annotations

import random

import pytest

import weft
from tests.fuzz import small_limits
from tests.shared import Shared, make_shared
from weft.host.inprocess.run import InProcess
from weft.optimizer.choose import Choice
from weft.optimizer.known import Known
from weft.optimizer.plan import SHARINGS, Sharing, choices, topology
from weft.optimizer.whole import whole_bill
from weft.optimizer.wishes import Wishes
from weft.testing import assert_same_rows, expected_after_lateness
from weft.topology.model import Topology


def statistics(rng: random.Random, case: Shared) -> weft.Statistics:
    """Any numbers: they may change the plan, never the answer.  Large ones, so that waves do not decide everything."""
    streams = sorted({r.stream.name for query in case.queries.values() for r in query.relations})
    rates = {name: 10 ** rng.uniform(2, 5) for name in streams} if rng.random() < 0.4 else {}
    return weft.Statistics(
        {name: float(int(10 ** rng.uniform(3, 8))) for name in streams},
        rates=rates,
        distinct={f"{name}.{column}": 10 ** rng.uniform(0, 6) for name in streams for column in ("k", "j", "v")},
    )


def plan(case: Shared, known: Known, sharing: Sharing) -> tuple[tuple[Choice, ...], Topology]:
    made = choices(
        case.queries, case.workers, dict.fromkeys(case.queries, Wishes()), dict.fromkeys(case.queries, known), sharing
    )
    return made, topology(made, sharing=sharing)


def run(case: Shared, made: Topology) -> None:
    host = InProcess(made)
    with small_limits(random.Random(case.seed)):
        for batch in case.batches:
            host.feed(batch)
    for name, query in case.queries.items():
        assert_same_rows(host.table(name), expected_after_lateness(query, case.batches), f"{case}{name}: ")


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(10))
def test_every_way_of_sharing_answers_what_the_oracle_answers(chunk: int) -> None:
    joint = 0
    for seed in range(chunk * 12, (chunk + 1) * 12):
        rng, case = random.Random(seed), make_shared(seed + 40_000)
        known, seconds = Known(statistics(rng, case)), dict[str, float]()
        for sharing in SHARINGS:
            chosen, made = plan(case, known, sharing)
            seconds[sharing] = whole_bill(made, chosen).seconds
            run(case, made)
            joint += sharing == "global" and any(choice.chosen.layout.lines for choice in chosen)
        assert seconds["global"] <= seconds["local"] * (1 + 1e-9) <= seconds["none"] * (1 + 1e-6), str(case)
    assert joint > 1, "hardly any plan is one of lines"
