"""now(): the time of the batch in which a result is made, the same when the batch is run again."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.host.state.depot import Depot
from weft.host.state.mirror import Mirror
from weft.host.state.moment import fix_moment
from weft.testing import Trial, crash_at, no_crash

BEGIN = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us"))])
HOUR = dt.timedelta(hours=1)
TEXTS = {
    "one": "SELECT k, now() AS t, current_date AS d, CURRENT_TIMESTAMP = now() AS same FROM a",
    "pair": "SELECT a.k, now() AS t FROM a JOIN b ON a.k = b.k",
    "young": "SELECT a.k FROM a JOIN b ON a.k = b.k WHERE a.ts > localtimestamp - INTERVAL '1' DAY",
    "new": "SELECT k FROM a WHERE ts > localtimestamp - INTERVAL '1' DAY",
    "last": "SELECT k % 2 AS odd, COUNT(*) AS n, MAX(now()) AS t FROM a GROUP BY 1",
    "by": "SELECT date_trunc('hour', now()) AS t, COUNT(*) AS n FROM a GROUP BY 1",
    "read": "SELECT d.k, now() AS t FROM (SELECT DISTINCT k FROM a) d JOIN b ON b.k = d.k",
}


def rows(*found: tuple[int, int]) -> pa.Table:
    times = [BEGIN.replace(tzinfo=None) + hours * HOUR for _, hours in found]
    return pa.table({"k": [k for k, _ in found], "ts": pa.array(times, pa.timestamp("us"))}, SCHEMA)


def open_session() -> weft.Session:
    session = weft.Session("never-made", workers=2, progress=False)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([SCHEMA.empty_table()]))
    return session


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = BEGIN

    def __call__(self) -> float:
        return self.time.timestamp()


def answer(trial: Trial, name: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in trial.table(name).to_pylist())


def test_result_has_the_time_of_the_batch_that_made_it() -> None:
    session, clock = open_session(), Clock()
    for name, text in TEXTS.items():
        session.query(name, text)
    trial = Trial(session)
    trial.running.clock = clock
    trial.feed({"a": rows((1, 0), (2, -30))})
    clock.time = later = BEGIN + 20 * HOUR
    trial.feed({"b": rows((1, 0), (2, 0))})
    clock.time = latest = BEGIN + 30 * HOUR
    trial.feed({"a": rows((4, 20), (1, 20)), "b": rows((1, 0))})
    day = BEGIN.date()
    assert answer(trial, "one") == [
        (1, BEGIN, day, True), (1, latest, latest.date(), True), (2, BEGIN, day, True), (4, latest, latest.date(), True)
    ]  # fmt: skip
    assert answer(trial, "pair") == [(1, later), (1, latest), (1, latest), (1, latest), (2, later)]
    assert answer(trial, "young") == [(1,), (1,), (1,)], "the first row joined once while it was young"
    assert answer(trial, "new") == [(1,), (1,), (4,)]
    assert answer(trial, "last") == [(0, 2, latest), (1, 2, latest)]
    assert answer(trial, "by") == [(BEGIN, 2), (latest, 2)]
    assert answer(trial, "read") == [(1, later), (1, latest), (2, later)]


def test_batch_that_is_run_again_has_the_time_of_its_first_attempt() -> None:
    session, clock = open_session(), Clock()
    session.query("q", TEXTS["pair"])
    trial = Trial(session)
    trial.running.clock = clock
    crash_at(session, "commit before", 0)
    with pytest.raises(weft.WeftError):
        trial.feed({"a": rows((1, 0)), "b": rows((1, 0))})
    no_crash(session)
    clock.time = BEGIN + HOUR
    trial.feed({"a": rows((1, 0)), "b": rows((1, 0))})
    assert answer(trial, "q") == [(1, BEGIN)]


def test_time_of_a_batch_is_written_down_and_never_goes_back(tmp_path: Path) -> None:
    assert fix_moment(tmp_path, 0, lambda: 10.0) == 10_000_000
    assert fix_moment(tmp_path, 0, lambda: 99.0) == 10_000_000
    assert fix_moment(tmp_path, 1, lambda: 5.0) == 10_000_000
    assert fix_moment(tmp_path, 2, lambda: 11.0) == 11_000_000


def test_time_of_a_batch_is_kept_with_a_checkpoint_at_a_url(tmp_path: Path) -> None:
    depot = Depot(f"file://{tmp_path / 'depot'}")
    mirror = Mirror(depot)
    mirror.take()
    assert fix_moment(mirror.root, 0, lambda: 10.0) == 10_000_000
    mirror.release()
    assert fix_moment(Mirror(depot).root, 0, lambda: 99.0) == 10_000_000


REFUSED = [
    ("SELECT k, now() AS t FROM a GROUP BY k", "beside groups", "MAX(now())"),
    ("SELECT k FROM a GROUP BY k HAVING MAX(ts) > localtimestamp", "beside groups", "MAX(now())"),
    ("SELECT a.k, now() AS t FROM a LEFT JOIN b ON a.k = b.k", "rows that may change", "event times"),
    ("SELECT k, now() AS t FROM (SELECT k, COUNT(*) AS n FROM a GROUP BY k) d", "rows that may change", "event times"),
    ("SELECT now(k) AS t FROM a", "takes 0 arguments", ""),
]


@pytest.mark.parametrize(("text", "said", "cure"), REFUSED)
def test_time_that_would_not_stay_is_refused(text: str, said: str, cure: str) -> None:
    with pytest.raises(weft.WeftError) as caught:
        open_session().query("q", text)
    assert said in caught.value.message
    assert "^" in str(caught.value.detail)
    assert cure in str(caught.value.hint or "")


def test_column_of_that_name_comes_first() -> None:
    session = weft.Session("never-made", workers=1, progress=False)
    table = pa.table({"current_date": [7]})
    session.stream("a", weft.read.batches([table]))
    session.query("q", "SELECT current_date FROM a")
    trial = Trial(session)
    trial.feed({"a": table})
    assert answer(trial, "q") == [(7,)]


def test_conditions_on_the_time_of_a_batch_are_not_measured(tmp_path: Path) -> None:
    session = weft.Session(tmp_path, workers=2, progress=False)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([rows((1, 0), (2, 0), (3, 0))]))
    session.query("q", f"{TEXTS['young']} AND b.ts < now()::TIMESTAMP AND a.ts::DATE = current_date")
    session.query("one", f"{TEXTS['new']} AND ts::DATE < current_date")
    assert session.analyze().rows("a") == 3
    assert "q" in str(session.explain())
