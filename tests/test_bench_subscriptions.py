"""The bench of the kernels for subscriptions runs, and all of them find the same pairs."""

from __future__ import annotations

import pytest

from bench import subscriptions


@pytest.mark.parametrize("dimensions", ["5,5", "1,2"])
def test_all_kernels_find_the_same(dimensions: str, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--boxes", "700", "--tuples", "15", "--results", "1,3", "--selectivity", "0.05", "--added", "9"]
    subscriptions.main([*small, "--dimensions", dimensions])
    printed = capsys.readouterr().out
    assert printed.count("tuples/s") == 8


def test_different_pairs_are_an_error() -> None:
    with pytest.raises(SystemExit, match="different pairs"):
        subscriptions._same("tree", {(0, 1)}, {(0, 2)}, 10)
