"""The calibration: real parts are run, and prices come out."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import calibrate, cli
from weft.calibrate import compare, measure, show, slope
from weft.errors import HostError
from weft.optimizer.cost.prices import NAMES, Prices

DAY = datetime.date(2026, 11, 15)


def clock(*seconds: float) -> Iterator[float]:
    yield from seconds


def test_slope_is_the_median_difference_per_unit_of_work() -> None:
    less, more = clock(9, 1, 2, 3), clock(99, 11, 12, 900)
    assert slope("sent", lambda: next(less), lambda: next(more), work=5, turns=3) == 2.0


def test_price_that_drowns_in_noise_gets_more_turns() -> None:
    less, more = clock(9, 2, 1, 1), clock(9, 1, 2, 2)
    assert slope("sent", lambda: next(less), lambda: next(more), work=1, turns=1) == 1.0


def test_price_that_is_never_positive_is_refused() -> None:
    with pytest.raises(HostError, match='the price "sent" could not be measured') as refusal:
        slope("sent", lambda: 2.0, lambda: 1.0, work=1, turns=2)
    assert refusal.value.hint == "try again when the machine is idle."


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0412, "41.2 ms"), (1.5, "1.50 s"), (2.5e-7, "250 ns"), (1.25e-6, "1.25 us"), (1e-8, "10.0 ns")],
)
def test_seconds_are_shown_in_the_unit_that_suits_them(seconds: float, shown: str) -> None:
    assert show(seconds) == shown


def test_comparison_has_a_line_per_price() -> None:
    lines = compare(Prices(wave=Prices().wave * 2), Prices()).splitlines()
    assert [line.split()[0] for line in lines] == ["price", *NAMES]
    assert lines[1].split()[5] == "2.00"
    assert lines[2].split()[5] == "1.00"


@pytest.mark.parametrize("dry", [True, False])
def test_prices_are_kept_unless_it_is_a_dry_run(
    dry: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Prices(wave=0.05, source="calibrated on 2026-11-15")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(calibrate, "measure", lambda **_: found)
    with pytest.raises(SystemExit) as end:
        cli.main(["calibrate", *(["--dry-run"] if dry else [])])
    assert not end.value.code
    said = capsys.readouterr().out
    assert compare(found, Prices()) in said
    assert Prices.load() == (Prices() if dry else found)
    assert ("not saved" in said) == dry


@pytest.mark.spark
def test_quick_calibration_gives_sane_prices() -> None:
    said: list[str] = []
    prices = measure(say=said.append, today=DAY, quick=True)
    assert all(0 < getattr(prices, name) < math.inf for name in NAMES)
    assert prices.source == "calibrated on 2026-11-15"
    assert {line.split()[0] for line in said} >= set(NAMES)
    per_tuple = (prices.sent, prices.probed, prices.checked, prices.matched, prices.stored, prices.emitted)
    assert prices.wave > 1e3 * max(per_tuple)
    assert prices.batch > prices.wave
    assert 1e-9 < min(per_tuple) <= max(per_tuple) < 1e-4
