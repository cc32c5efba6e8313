"""A checkpoint in an object store: results exactly once, also if requests fail, runs die, or two runs want it."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from tests.objectstore import Store
from tests.spark._kit import expected, found, make_input, make_session
from weft.host.crash import CrashPoint, points
from weft.host.state.depot import Depot
from weft.host.state.place import Place
from weft.host.url import read_url

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store().running() as running:
        yield running


def _forget_copies(url: str) -> None:
    """What happens if workers start on other machines."""
    shutil.rmtree(Place("", Depot(url)).folder, ignore_errors=True)


def test_every_result_once_although_runs_die_and_requests_fail_or_are_slow(tmp_path: Path, store: Store) -> None:
    """Crash points in turn, each followed by a run that goes on, sometimes on another machine."""
    url, dice = store.url("crashes"), random.Random(5)
    names = dice.sample([name for name in points(3) if "migrate" not in name and "before" not in name], 4)
    make_input(tmp_path, len(names) + 1, seed=3)
    store.failing = store.slow = 0.01
    try:
        for batch, point in enumerate(names, start=1):
            session = make_session(tmp_path, plans="kept", checkpoint=url)
            session.crash_point = CrashPoint(point, batch)
            with pytest.raises(weft.HostError, match=f"crash point reached: {point}"):
                session.run()
            if dice.random() < 0.5:
                _forget_copies(url)
        make_session(tmp_path, plans="kept", checkpoint=url).run()
    finally:
        store.failing = store.slow = 0.0
    assert store.failed
    assert store.delayed
    assert found(tmp_path) == expected(tmp_path)
    left = [name for name in store.names("crashes/results") if name != "crashes/results/"]
    assert not left, "published results are gone from the checkpoint, and so are the marks of their folders"
    _forget_copies(url)


def test_the_newer_of_two_runs_goes_on(tmp_path: Path, store: Store) -> None:
    """The older one finds out when it wants to commit, and publishes nothing of that batch."""
    url = store.url("two")
    make_input(tmp_path, 3, seed=4)
    older = make_session(tmp_path, checkpoint=url)
    taken: list[weft.RunReport] = []

    def steal(_df: object, batch: int) -> None:
        if batch == 1 and not taken:
            newer = make_session(tmp_path, checkpoint=url)
            newer.query("more", "SELECT r.id FROM r").to_memory()
            taken.append(newer.run())

    older.query("more", "SELECT r.id FROM r").foreach_batch(steal)
    with pytest.raises(weft.StateError, match="was taken by another run"):
        older.run()
    assert taken[0].count == 2
    assert found(tmp_path) == expected(tmp_path)
    _forget_copies(url)


def test_a_url_may_come_as_a_path(tmp_path: Path) -> None:
    for url in ("s3://bucket/a/b?region=x", "file:///a/b", "gs://b/c"):
        assert read_url(url) == read_url(Path(url)) == url
    assert read_url("state") is None
    assert read_url(tmp_path) is None


def test_a_url_shows_no_secret_and_a_wrong_one_is_refused(tmp_path: Path, store: Store) -> None:
    session = weft.Session(store.url("none"))
    assert "secret" not in repr(session)
    with pytest.raises(weft.StateError, match="cannot be used"):
        weft.Session("nonsense://bucket/path")
    url = f"file://{tempfile.mkdtemp(dir=tmp_path)}/checkpoint"
    make_input(tmp_path, 2, seed=6)
    make_session(tmp_path, checkpoint=url).run()
    assert found(tmp_path) == expected(tmp_path)
