"""Uneven load is noticed while a plan runs and afterwards, in the same words, with a scheme that helps."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.explain.uneven import uneven_load
from weft.host.batch import Report
from weft.observe.progress import Progress
from weft.observe.report import RunReport, Tally
from weft.session.run import RECENT, Watch
from weft.testing import Trial, assert_same_rows

SQL = "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.a = s.a"
WORKERS, ROWS = 8, 2_000


def open_session(strategy: str = "flat", statistics: weft.Statistics | None = None) -> weft.Session:
    s = weft.Session("unused", workers=WORKERS)
    for name in "RS":
        s.stream(name, weft.read.batches([pa.table({"n": [0], "a": [0]})]))
    s.query("q", SQL, strategy=strategy, statistics=statistics or weft.Statistics({"R": 1e4, "S": 1e4}))
    return s


def batch(keys: np.ndarray, start: int) -> dict[str, pa.Table]:
    """Few rows of S join, whatever R looks like."""
    other = np.arange(start, start + len(keys) // 20)
    return {
        "R": pa.table({"n": np.arange(start, start + len(keys)), "a": keys}),
        "S": pa.table({"n": other, "a": other % 5_000}),
    }


def even(at: int, hot: float = 0.0) -> dict[str, pa.Table]:
    rng = np.random.default_rng(at)
    return batch(np.where(rng.random(ROWS) < hot, 7, rng.integers(0, 5_000, ROWS)), at * ROWS)


def watch_batches(trial: Trial, batches: Sequence[dict[str, pa.Table]]) -> list[Progress]:
    """The progress of a run as a session would see it."""
    watch = Watch(
        lambda: WORKERS,
        lambda _, load: uneven_load(load, WORKERS, trial.choices, lambda: trial.manifest.observed),
    )
    return [watch.see(progress(at, trial.feed(tables))) for at, tables in enumerate(batches)]


def report_of(done: Sequence[Progress]) -> RunReport:
    tally = Tally()
    for batch_done in done:
        tally.add(batch_done)
    return tally.report(1.0)


def progress(at: int, report: Report) -> Progress:
    return Progress(at, 1.0, 0, 0, 0, None, report)


def test_a_value_that_becomes_frequent_is_noticed_once_with_the_cure() -> None:
    trial = Trial(open_session())
    done = watch_batches(trial, [*(even(at) for at in range(4)), *(even(at, 0.8) for at in range(4, 10))])
    at = [p.batch for p in done if p.notices]
    assert len(at) == 1
    assert at[0] >= 4
    [notice] = report_of(done).notices
    assert notice.kind == "uneven-load"
    assert 'strategy="hypercube:hybrid", statistics=s.observed()' in notice.action
    assert notice.message in done[at[0]].line()
    assert all(line in str(report_of(done)) for line in notice.lines())


def test_the_cure_is_even_and_joins_the_same_rows() -> None:
    """What the notice proposes, done."""
    batches = [even(at, 0.7) for at in range(6)]
    trial = Trial(open_session())
    [notice] = [notice for p in watch_batches(trial, batches) for notice in p.notices]
    [strategy] = re.findall('strategy="([^"]+)"', notice.action)
    other = Trial(open_session(strategy, trial.manifest.observed))
    assert not any(p.notices for p in watch_batches(other, batches))
    assert other.counters.skew_degree(WORKERS) < 1.2 < trial.counters.skew_degree(WORKERS)
    assert_same_rows(other.table("q"), trial.table("q"))


def test_rows_in_the_order_of_their_keys_are_cured_by_dealing_them() -> None:
    """Over the whole run no value is frequent; in its last stretch there is one in each batch."""
    calm = [even(at) for at in range(2 * RECENT)]
    ordered = [batch(np.full(ROWS, 9_000 + at), at * ROWS) for at in range(2 * RECENT, 3 * RECENT)]
    told = [notice for p in watch_batches(Trial(open_session()), [*calm, *ordered]) for notice in p.notices]
    assert [re.findall('strategy="([^"]+)"', notice.action) for notice in told] == [["hypercube:random"]]


def test_an_even_run_and_a_short_one_say_nothing() -> None:
    assert not any(p.notices for p in watch_batches(Trial(open_session()), [even(at) for at in range(3)]))
    assert not any(p.notices for p in watch_batches(Trial(open_session()), [batch(np.full(300, 7), 0)]))


def test_it_is_told_again_if_the_load_was_even_in_between() -> None:
    hot, calm = [0.9] * 3, [0.0] * (3 * RECENT)
    done = watch_batches(Trial(open_session()), [even(at, share) for at, share in enumerate([*hot, *calm, *hot, *hot])])
    assert sum(bool(p.notices) for p in done) == 2


def test_explain_says_the_same_of_the_whole_run() -> None:
    trial = Trial(open_session())
    hot = batch(np.where(np.arange(3 * ROWS) % 5, 7, np.arange(3 * ROWS)), 0)
    [notice] = [notice for p in watch_batches(trial, [hot]) for notice in p.notices]
    said = trial.explain("chosen", analyze=True)
    assert all(line in said for line in notice.lines())


@pytest.mark.parametrize("query", ["q", None])
def test_a_notice_that_fails_does_not_end_a_run(query: str | None) -> None:
    def fails(_: int, _load: weft.Counters) -> None:
        if query:
            raise weft.PlanError("no")

    watch = Watch(lambda: WORKERS, fails)
    trial = Trial(open_session())
    assert not watch.see(progress(0, trial.feed(even(0, 0.9)))).notices
