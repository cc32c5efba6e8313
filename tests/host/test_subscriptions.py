"""Subscriptions: what one DuckDB statement says, whatever comes and goes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.subscribing import FEED, NAME, Case, changes, declare, draw, expected
from weft.testing import Trial, assert_same_rows


def run(case: Case, checkpoint: Path, workers: int, strategy: str = "auto") -> Trial:
    trial = Trial(declare(case, checkpoint, workers, strategy))
    for number, batch in enumerate(case.batches):
        trial.feed({**batch, FEED: changes(case, number)})
    return trial


@pytest.mark.parametrize("seed", range(60))
def test_random_subscriptions(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = draw(rng)
    strategy = rng.choice(["auto", "narrow", "join", "naive"])
    trial = run(case, tmp_path, rng.choice([1, 2, 3]), strategy)
    assert_same_rows(trial.table(NAME), expected(case))
