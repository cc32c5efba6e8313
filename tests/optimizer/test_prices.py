"""Prices of the host: they are checked, and a damaged file of a machine stops nobody."""

from __future__ import annotations

import json
import math
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from weft.errors import PlanError, SinkError
from weft.optimizer.cost.prices import NAMES, Machine, Prices

HERE = Machine("here", 2, "one cpu")
MEASURED = Prices(wave=0.05, sent=3e-7, source="calibrated on 2026-11-15")


def environ(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder)}


def test_shipped_prices_are_positive_and_a_wave_costs_as_much_as_thousands_of_tuples() -> None:
    prices = Prices()
    assert all(0 < getattr(prices, name) < 1 for name in NAMES)
    assert prices.source == "shipped"
    assert prices.batch > prices.wave > 1e4 * max(prices.sent, prices.probed, prices.matched, prices.stored)
    assert prices.checked < prices.matched


def test_without_a_file_prices_are_the_shipped_ones(tmp_path: Path) -> None:
    assert Prices.load(environ(tmp_path / "nothing here"), HERE) == Prices()
    (tmp_path / "file").touch()
    assert Prices.load(environ(tmp_path / "file"), HERE) == Prices()


def test_saved_prices_come_back(tmp_path: Path) -> None:
    path = MEASURED.save(environ(tmp_path / "new"), HERE)
    assert Prices.load(environ(tmp_path / "new"), HERE) == MEASURED
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    later = replace(MEASURED, wave=0.06)
    assert later.save(environ(tmp_path / "new"), HERE) == path
    assert Prices.load(environ(tmp_path / "new"), HERE) == later


def test_home_is_used_where_no_cache_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = MEASURED.save({"XDG_CACHE_HOME": ""}, HERE)
    assert path.parent == tmp_path / ".cache" / "weft"
    assert Prices.load({}, HERE) == MEASURED


@pytest.mark.parametrize("other", [replace(HERE, node="there"), replace(HERE, cores=4), replace(HERE, model="x")])
def test_prices_of_another_machine_are_not_ours(other: Machine, tmp_path: Path) -> None:
    MEASURED.save(environ(tmp_path), HERE)
    assert Prices.load(environ(tmp_path), other) == Prices()


def test_this_machine_stays_the_same() -> None:
    assert Machine.this() == Machine.this()
    assert Machine.this().cores >= 1
    assert Machine.this().model


def damaged(path: Path, kind: str) -> None:
    content = json.loads(path.read_text())
    match kind:
        case "cut":
            path.write_text(path.read_text()[:40])
        case "bytes":
            path.write_bytes(b"\xff\xfe\x00")
        case "list":
            path.write_text("[1]")
        case "lacks":
            del content["prices"]["wave"]
        case "strange":
            content["prices"]["colour"] = 1.0
        case "zero":
            content["prices"]["sent"] = 0
        case "text":
            content["prices"]["sent"] = "1"
        case "infinite":
            content["prices"]["sent"] = math.inf
        case "folder":
            path.unlink()
            path.mkdir()
    if kind in ("lacks", "strange", "zero", "text", "infinite"):
        path.write_text(json.dumps(content))


@pytest.mark.parametrize("kind", ["cut", "bytes", "list", "lacks", "strange", "zero", "text", "infinite", "folder"])
def test_damaged_file_is_a_warning_and_shipped_prices(kind: str, tmp_path: Path) -> None:
    path = MEASURED.save(environ(tmp_path), HERE)
    damaged(path, kind)
    with pytest.warns(UserWarning, match=r"cannot be used") as said:
        assert Prices.load(environ(tmp_path), HERE) == Prices()
    [warning] = said
    assert str(path) in str(warning.message)
    assert "\ndetail: " in str(warning.message)
    assert "\nhint: run weft calibrate again" in str(warning.message)


def test_prices_that_cannot_be_saved_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch(stat.S_IRUSR)
    with pytest.raises(SinkError, match="prices cannot be saved") as refusal:
        MEASURED.save(environ(tmp_path / "file"), HERE)
    assert refusal.value.hint


@pytest.mark.parametrize("price", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_price_is_a_positive_number(price: float) -> None:
    with pytest.raises(PlanError, match='the price "probed" is'):
        Prices(probed=price)


def test_plain_data_gives_the_prices_back() -> None:
    assert Prices.from_plain(json.loads(json.dumps(MEASURED.plain()))) == MEASURED
