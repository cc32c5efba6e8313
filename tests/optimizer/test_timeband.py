"""Estimates of time bands, compared with counted pairs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from weft.optimizer.cost.estimate import estimate
from weft.query.model import Query, Stream
from weft.sql import to_query
from weft.stats.analyze import analyze
from weft.stats.model import DEFAULTS, Statistics
from weft.stats.sample import Sample

SECOND = 1_000_000
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
STREAMS = {name: Stream(name, SCHEMA, "ts") for name in ("r", "s")}
BAND = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '2' SECOND"


def query(condition: str, window_a: int | None = None, window_b: int | None = None) -> Query:
    found = to_query(f"SELECT a.k FROM r a JOIN s b ON {condition}", STREAMS, cross_product=True)
    a, b = found.relations
    return replace(found, relations=(replace(a, window=window_a), replace(b, window=window_b)))


def band(low: int | None, high: int | None) -> str:
    """Bounds on time(b) - time(a), in microseconds; None is open."""
    parts = [] if low is None else [f"b.ts >= a.ts + {_interval(low)}"]
    parts += [] if high is None else [f"b.ts - a.ts <= {_interval(high)}"]
    return " AND ".join(parts)


def _interval(microseconds: int) -> str:
    sign = "-" if microseconds < 0 else ""
    return f"INTERVAL '{sign}{abs(microseconds) // SECOND}' SECOND"


def share(asked: Query, known: Statistics) -> float:
    [(_, _, found)] = estimate(asked, known).edges
    return found


def results(asked: Query, known: Statistics) -> float:
    graph = estimate(asked, known)
    return graph.size(graph.all)


def times(random: np.random.Generator, rate: float, start: float, span: float) -> np.ndarray:
    return np.sort(random.integers(int(start), int(start + span), max(2, round(rate * span / SECOND))))


def count(a: np.ndarray, b: np.ndarray, low: float, high: float) -> int:
    """Pairs with low <= time(b) - time(a) <= high."""
    upper = np.searchsorted(b, a + high, side="right") if high < math.inf else len(b)
    lower = np.searchsorted(b, a + low, side="left") if low > -math.inf else 0
    return int(np.sum(upper - lower))


def statistics(a: np.ndarray, b: np.ndarray, span_a: float, span_b: float) -> Statistics:
    rows = {"r": len(a), "s": len(b)}
    return Statistics(rows, rates={"r": len(a) / span_a * SECOND, "s": len(b) / span_b * SECOND})


@pytest.mark.parametrize("seed", range(60))
def test_a_band_is_estimated_within_a_factor_of_two(seed: int) -> None:
    """The shorter stream lies anywhere inside the longer one."""
    random = np.random.default_rng(seed)
    long = 10 ** random.uniform(2, 5) * SECOND
    spans = [long, long * (1.0 if random.random() < 0.5 else random.uniform(0.2, 1.0))]
    if random.random() < 0.5:
        spans.reverse()
    rates = [2_000 / span * SECOND * 10 ** random.uniform(-0.5, 0.5) for span in spans]
    starts = [random.uniform(0, long - span) for span in spans]
    a, b = (times(random, *of) for of in zip(rates, starts, spans, strict=True))
    width = int(long * random.uniform(0.01, 0.15)) // SECOND * SECOND + SECOND
    low = -random.integers(0, width // SECOND + 1) * SECOND
    found = results(query(band(int(low), int(low + width))), statistics(a, b, *spans))
    counted = count(a, b, low, low + width)
    assert counted / 2 < found < counted * 2


@pytest.mark.parametrize("seed", range(40))
def test_a_bound_from_one_side_is_estimated_within_a_factor_of_two(seed: int) -> None:
    random = np.random.default_rng(seed)
    span = 10 ** random.uniform(2, 5) * SECOND
    a, b = (times(random, 2_000 / span * SECOND * 10 ** random.uniform(-0.5, 0.5), 0, span) for _ in range(2))
    bound = int(random.uniform(-0.7, 0.7) * span) // SECOND * SECOND
    known = statistics(a, b, span, span)
    below, above = count(a, b, -math.inf, bound), count(a, b, bound, math.inf)
    assert below / 2 < results(query(band(None, bound)), known) < below * 2
    assert above / 2 < results(query(band(bound, None)), known) < above * 2


@pytest.mark.parametrize("seed", range(40))
def test_a_band_in_one_window_is_estimated_within_a_factor_of_two(seed: int) -> None:
    """Rows of `a` are forgotten after a window; rows of `b` never are."""
    random = np.random.default_rng(seed)
    span = 10 ** random.uniform(3, 5) * SECOND
    a, b = (times(random, 2_000 / span * SECOND * 10 ** random.uniform(-0.5, 0.5), 0, span) for _ in range(2))
    window = int(span * random.uniform(0.05, 0.3))
    high = int(window * random.uniform(0.1, 2)) // SECOND * SECOND + SECOND
    counted = count(a, b, 0, min(high, window - 1))
    found = results(query(band(0, high), window_a=window), statistics(a, b, span, span))
    assert counted / 2 < found < counted * 2


@pytest.mark.parametrize("seed", range(40))
def test_a_band_in_two_windows_is_estimated_within_a_factor_of_two(seed: int) -> None:
    """By the results of the whole span: rate_a * held_b * f and rate_b * held_a * f a second."""
    random = np.random.default_rng(seed)
    span = 10 ** random.uniform(3, 5) * SECOND
    a, b = (times(random, 3_000 / span * SECOND * 10 ** random.uniform(-0.5, 0.5), 0, span) for _ in range(2))
    windows = [int(span * random.uniform(0.02, 0.2)) for _ in range(2)]
    low = int(-windows[1] * random.uniform(0, 1.5)) // SECOND * SECOND
    high = int(windows[0] * random.uniform(0.1, 1.5)) // SECOND * SECOND + SECOND
    counted = count(a, b, max(low, 1 - windows[1]), min(high, windows[0] - 1))
    asked, known = query(band(low, high), *windows), statistics(a, b, span, span)
    r, s = estimate(asked, known).relations
    found = ((r.rate or 0) * s.size + (s.rate or 0) * r.size) * share(asked, known) * span / SECOND
    assert counted / 2 < found < counted * 2


def test_windows_longer_than_the_streams_change_nothing() -> None:
    known = Statistics({"r": 1000, "s": 1000}, rates={"r": 10, "s": 10})
    assert share(query(BAND, 3600 * SECOND, 3600 * SECOND), known) == share(query(BAND), known)
    assert share(query(BAND, 3600 * SECOND), known) == share(query(BAND), known)


def test_windows_alone_tell_what_a_band_lets_through() -> None:
    assert share(query(BAND, 6 * SECOND, 4 * SECOND), Statistics()) == pytest.approx(2 / 10, rel=1e-3)


def test_a_narrow_band_is_its_width_by_the_longer_span() -> None:
    known = Statistics({"r": 1000, "s": 1000}, rates={"r": 1, "s": 2})
    assert share(query(BAND), known) == pytest.approx(2 / 1000, rel=1e-3)
    assert share(query(BAND), Statistics({"r": 1000}, rates={"r": 1})) == pytest.approx(2 / 1000, rel=1e-2)


def test_a_tighter_bound_never_lets_more_through() -> None:
    known = Statistics({"r": 1000, "s": 500}, rates={"r": 1, "s": 2})
    found = [share(query(band(0, seconds * SECOND)), known) for seconds in (1, 2, 50, 400, 900, 5000)]
    assert found == sorted(found)
    assert 0 < found[0] < found[-1] <= 1


def test_what_can_hardly_be_is_rare_and_not_impossible() -> None:
    known = Statistics({"r": 100, "s": 100}, rates={"r": 1, "s": 1})
    assert 0 < share(query(band(3600 * SECOND, None)), known) < 1e-6
    assert 0 < share(query(band(10 * SECOND, 5 * SECOND)), known) < 1e-6


def test_without_rates_and_windows_the_defaults_hold() -> None:
    assert share(query(BAND), Statistics({"r": 1000, "s": 1000})) == pytest.approx(DEFAULTS.inequality**2)


def test_absurd_rates_give_a_share_all_the_same() -> None:
    for rate in (1e-300, 1e18):
        assert 0 < share(query(BAND), Statistics({"r": 1e18, "s": 1}, rates={"r": rate, "s": 1e18})) <= 1


def test_an_equality_of_times_is_no_band() -> None:
    known = Statistics({"r": 1000, "s": 1000}, rates={"r": 1, "s": 1})
    assert share(query("a.ts = b.ts"), known) == DEFAULTS.equality


def test_shares_that_are_given_decide() -> None:
    known = Statistics({"r": 1000, "s": 1000}, rates={"r": 1, "s": 1})
    low, high = "b.ts >= a.ts", "b.ts <= a.ts + INTERVAL '2' SECOND"
    one = known.with_predicate(low, 0.5)
    assert share(query(BAND), one) == pytest.approx(2 / 1000, rel=1e-3)
    assert share(query(BAND), known.with_predicate(low, 1e-5)) == 1e-5
    assert share(query(BAND), one.with_predicate(high, 0.5)) == 0.25
    assert share(query(BAND), known.with_selectivity("a", "b", 0.125)) == 0.125


def test_analysis_leaves_the_ends_of_a_band_to_the_rates() -> None:
    """Two queries give the pair two meanings, so nothing can be measured under its name."""
    random = np.random.default_rng(1)
    moments = {name: times(random, 2.0, 0, 1000 * SECOND) for name in STREAMS}
    rows = {name: pa.array(found).cast(pa.timestamp("us")) for name, found in moments.items()}
    samples = {
        name: Sample(pa.table({"k": pa.array(range(len(found))), "ts": rows[name], "#t": moments[name]}), len(found))
        for name, found in moments.items()
    }
    asked = [query(BAND), query("a.k = b.k AND b.ts >= a.ts")]
    known = analyze(STREAMS, samples, asked)
    assert known.predicate("b.ts <= a.ts + INTERVAL '2' SECOND") is None
    counted = count(moments["r"], moments["s"], 0, 2 * SECOND)
    assert counted / 2 < results(asked[0], known) < counted * 2
