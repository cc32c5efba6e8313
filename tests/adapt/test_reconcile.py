"""One share for each pair, where probes and the rows of an epoch say different things."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.adapt.drift import EVEN, declare, rows
from weft.adapt.hops import Hops
from weft.adapt.reconcile import reconcile
from weft.stats.model import Statistics
from weft.stats.names import Names

TEXT, PAIR = "r.a = s.a", ("r", "s")


@pytest.mark.parametrize(
    ("first", "later", "now", "then", "known", "wanted"),
    [
        (0.01, None, 0.02, 0.02, 0.01, 0.01),  # nothing moved: the probe knows best
        (0.01, None, 0.4, 0.02, 0.01, 0.2),  # the epoch has moved: the probe still sees old windows
        (None, 0.012, 0.02, 0.02, 0.01, 0.012),
        (None, 0.0001, 0.02, 0.02, 0.01, 0.01),  # only rows with other partners were asked
        (None, 0.0001, 0.02, None, None, 0.0001),  # nothing else is known
        (None, None, 0.04, 0.02, 0.01, 0.02),  # no probe any more: what it said follows the rows of epochs
    ],
)
def test_probes_are_believed_as_far_as_they_can_know(
    tmp_path: Path,
    first: float | None,
    later: float | None,
    now: float,
    then: float | None,
    known: float | None,
    wanted: float,
) -> None:
    s = declare(tmp_path, rows(np.random.default_rng(1), 0, 50, EVEN))
    query = s.queries["q"].query
    names = Names(frozenset(s.streams), (query,), Statistics())
    hops = Hops({} if first is None else {PAIR: first}, {} if later is None else {PAIR: later})
    before = Statistics(
        predicates={} if then is None else {TEXT: then}, selectivities={} if known is None else {PAIR: known}
    )
    found = reconcile(hops, Statistics(predicates={TEXT: now}), before, [query], names)
    assert found.selectivity(*PAIR) == pytest.approx(wanted)
