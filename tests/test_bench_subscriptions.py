"""The bench of the kernels for subscriptions runs, and all of them find the same pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import subscribed, subscriptionfigures, subscriptions
from bench.peersystems.subscribing import Job


@pytest.mark.parametrize("dimensions", ["5,5", "1,2"])
def test_all_kernels_find_the_same(dimensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--boxes", "700", "--tuples", "15", "--results", "1,3", "--selectivity", "0.05", "--added", "9"]
    subscriptions.main([*small, "--dimensions", dimensions])
    printed = capsys.readouterr().out
    assert printed.count("tuples/s") == 8


def test_different_pairs_are_an_error() -> None:
    with pytest.raises(SystemExit, match="different pairs"):
        subscriptions._same("tree", {(0, 1)}, {(0, 2)}, 10)


def test_the_figures_of_the_paper_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subscriptionfigures.main(["--tuples", "3", "--share", "0.002", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    assert [f"figure {number}:" in printed for number in range(8, 14)] == [True] * 6
    assert len(list(tmp_path.glob("*.svg"))) == 6
    assert (tmp_path / "subscriptions-figures.md").read_text().count(".svg)") == 6


def test_the_workload_for_systems_has_the_results_that_it_promises(tmp_path: Path) -> None:
    job = Job("", subscriptions=200, tuples=30, results=4, attributes=2, batches=3)
    subscribed.make(tmp_path, job, selectivity=0.05)
    results, _ = subscribed.truth(tmp_path, job)
    assert 0.5 < results / (30 * 4 * 200 * 0.05) < 2
    assert subscribed._rate([(1.0, 10), (2.0, 10), (4.0, 10), (5.0, 20)]) == 10
