"""The comparison with peers: its data is as described, every system that starts here agrees, and files are written."""

from __future__ import annotations

import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from xml.etree import ElementTree

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from bench import nexmark, peerrun, peers, peersetup, scaledata
from bench.measure import Seen, size_of, watch_process
from bench.peerloads import BAND, CHAIN, LOADS, NEXMARK, STAR, TPCH, Load
from bench.peerrun import RIGHT, Row
from bench.peersetup import SYSTEMS
from bench.peersystems.job import Compare, Job, Join, OneOf, Step, needed_columns, read, unescaped_uri
from bench.scalepicture import Line, chart
from bench.streams import cache_streams

JOINS = {**TPCH, "window": CHAIN, "band": BAND, "star": STAR, **{name: join for name, (join, _) in NEXMARK.items()}}


# --------------------------------------------------------------------------------------------------- jobs


@pytest.mark.parametrize("name", JOINS)
def test_job_survives_its_way_through_json(name: str) -> None:
    job = Job("w", "weft", JOINS[name], {"r": {"x": "bigint"}}, 10, 2, "in", "out", 2, 5)
    assert read(job.text) == job


def test_window_is_pairwise_where_a_system_has_no_word_for_it() -> None:
    steps = (Step("b", (("ak", "bk"),)), Step("c", (("bk", "ck"),)))
    join = Join("a", steps, ("ak",), times=(("a", "at"), ("b", "bt"), ("c", "ct")), within=10)
    assert [c.sql for c in join.window("c")] == ["ct > at - 10", "ct < at + 10", "ct > bt - 10", "ct < bt + 10"]
    assert "WITHIN" not in join.sql()
    assert join.sql(lambda _: (), "WITHIN INTERVAL '10' MILLISECOND").endswith("WITHIN INTERVAL '10' MILLISECOND")


def test_conditions_are_written_as_sql() -> None:
    assert Compare("x", "=", plus=10).sql == "x = 10"
    assert Compare("x", ">=", "y").sql == "x >= y"
    assert OneOf("s", ("OR", "CA")).sql == "s IN ('OR', 'CA')"


def test_needed_columns_are_those_that_anything_names() -> None:
    schemas = {"offer": dict.fromkeys(("o_id", "o_ts", "o_price", "o_no"), "bigint"), "wish": {"w_ts": "bigint"}}
    assert needed_columns(BAND, schemas) == {"offer": ("o_id", "o_ts", "o_price"), "wish": ("w_ts",)}


# --------------------------------------------------------------------------------------------------- data


def test_nexmark_has_its_proportions_and_no_dangling_ids() -> None:
    made = nexmark.tables(50_000, seed=7)
    assert [made[name].num_rows for name in ("person", "auction", "bid")] == [1_000, 3_000, 46_000]
    assert made["auction"]["a_seller"].to_numpy().max() < 1_000
    assert made["bid"]["b_auction"].to_numpy().max() < 3_000
    assert all(np.all(np.diff(made[n][c].to_numpy()) >= 0) for n, c in (("person", "p_ts"), ("bid", "b_ts")))
    assert made == nexmark.tables(50_000, seed=7)


def test_nexmark_hot_keys_get_their_share() -> None:
    bids = nexmark.tables(500_000, seed=7)["bid"]
    hot = np.mean(bids["b_bidder"].to_numpy() % nexmark.HOT == 1)
    assert hot == pytest.approx(0.75, abs=0.05)
    assert np.mean(bids["b_auction"].to_numpy() % nexmark.HOT == 0) == pytest.approx(0.5, abs=0.05)


def test_every_fact_has_one_result_whatever_the_state(tmp_path: Path) -> None:
    arrivals = scaledata.growing([1_000, 5_000], delta=300, times=3, load=2_000)
    folder = scaledata.write_arrivals("test", arrivals, tmp_path)
    with duckdb.connect() as oracle:
        for name in scaledata.STREAMS:
            oracle.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder / name}/*.parquet')")
        assert oracle.execute(f"SELECT count(*) FROM ({scaledata.SQL})").fetchall() == [(1_800,)]


# ------------------------------------------------------------------------------------------- the harness


def test_watching_sees_memory_output_and_the_limit(tmp_path: Path) -> None:
    script = "import signal, pathlib; pathlib.Path('rows').mkdir(); pathlib.Path('rows/a').write_text('x')\n"
    script += "print('{\"began\": 1.5}', flush=True); held = bytearray(50_000_000); signal.pause()"
    seen = watch_process([sys.executable, "-c", script], tmp_path, 1.0, {}, tmp_path)
    assert seen.over
    assert seen.code is None
    assert seen.peak > 50_000_000
    assert seen.first_output is not None
    assert seen.told == [{"began": 1.5}]


BEGAN = [{"up": True}, {"began": 1.0}]


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (Seen(over=True), "does not start in 60 s"),
        (Seen(code=1, noise="Traceback\nImportError: no jar\n\n"), "does not start: ImportError: no jar"),
        (Seen(code=1, told=[{"up": True}, {"error": "no such join"}]), "refuses: no such join"),
        (Seen(over=True, told=[{"up": True}]), "does not take the query in 60 s"),
        (Seen(code=1, told=[*BEGAN, {"error": "no such file"}]), "failed: no such file"),
        (Seen(code=-9, told=BEGAN), "failed: killed by signal 9"),
        (Seen(over=True, told=[*BEGAN, {"batch": {"in": 1200}}]), "over 60 s, 1,200 rows done"),
        (Seen(over=True, told=BEGAN, first_output=2.0), "over 60 s, first results seen"),
        (Seen(over=True, told=BEGAN, busy=3.2), "no answer in 60 s, no result seen, 3 s of processor time"),
    ],
)
def test_a_peer_that_does_not_work_is_not_a_slow_one(seen: Seen, said: str) -> None:
    assert peerrun.say_why(seen, 60.0) == said


def test_a_path_with_a_space_stays_as_it_is() -> None:
    assert unescaped_uri(Path("/a folder/50%")) == "file:///a folder/50%"


def test_a_file_with_two_names_counts_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert size_of(tmp_path) == 5


def test_folders_that_vanish_while_they_are_measured_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "stays").write_bytes(b"12345")

    def come_and_go() -> None:
        for number in range(500):
            (tmp_path / f"{number}" / "a" / "b").mkdir(parents=True)
            shutil.rmtree(tmp_path / f"{number}")

    with ThreadPoolExecutor(1) as beside:
        going = beside.submit(come_and_go)
        while not going.done():
            assert size_of(tmp_path) == 5


def test_what_cannot_be_installed_is_skipped_with_its_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peersetup, "FOLDER", tmp_path)
    system = replace(SYSTEMS["pathway"], requirement="no-such-package==0")
    row = peerrun.measure(_tiny(tmp_path), system, 1.0, here=True)
    assert row.verdict == "skipped: no-such-package==0 is not installed here"
    monkeypatch.setattr(peersetup.subprocess, "run", lambda *_, **__: CompletedProcess([], 1, "", "no network\n"))
    assert peerrun.measure(_tiny(tmp_path), system, 1.0).verdict == "skipped: cannot be installed: no network"


def test_a_wrong_answer_is_never_replaced_by_a_right_one() -> None:
    wrong, right = Row("w", "s", "WRONG: 1", 1, seconds=1.0), Row("w", "s", RIGHT, 1, seconds=2.0)
    assert peers.better(wrong, right) == wrong == peers.better(right, wrong)
    assert peers.better(Row("w", "s", "over 1 s", 1), right) == right


def test_a_missing_row_makes_another_answer(tmp_path: Path) -> None:
    load = _tiny(tmp_path)
    assert load.truth()[0] == 5
    with duckdb.connect() as oracle:
        for name in load.join.streams:
            oracle.execute(f"CREATE VIEW {name} AS FROM read_parquet('{load.folder / name}/*.parquet')")
        for file, rows in (("all", load.join.sql()), ("few", f"FROM ({load.join.sql()}) LIMIT 4")):
            (tmp_path / file).mkdir()
            oracle.execute(f"COPY ({rows}) TO '{tmp_path / file}/rows.parquet'")
    assert load.answer(tmp_path / "all") == load.truth()
    assert load.answer(tmp_path / "few") != load.truth()


@pytest.mark.spark
def test_weft_and_peers_agree_at_tiny_scale(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Peers that are part of the development environment run in it; the others are left out."""
    systems = ["weft"]
    systems += [n for n in ("spark", "duckdb", "polars") if isinstance(peersetup.ready(SYSTEMS[n], here=True), Path)]
    monkeypatch.setitem(LOADS, "tiny", lambda _: _tiny(tmp_path))  # type: ignore[arg-type]
    asked = ["--workloads", "tiny", "--here", "--systems", ",".join(systems), "--limit", "300"]
    peers.main([*asked, "--out", str(tmp_path / "out")])

    said = capsys.readouterr().out
    numbers = json.loads((tmp_path / "out" / "peers-1.json").read_text())
    assert {row["system"]: row["verdict"] for row in numbers["rows"]} == dict.fromkeys(systems, RIGHT)
    assert "WRONG" not in said
    assert {"machine", "versions", "seed"} <= set(numbers)
    assert ElementTree.parse(tmp_path / "out" / "peers-1.svg").getroot().tag.endswith("svg")


def test_curves_are_drawn() -> None:
    drawn = chart([Line("median", ((1_000, 2.0), (50_000, 3.0)))], "rows", "seconds", "title", logarithmic=True)
    assert ElementTree.fromstring(drawn).tag.endswith("svg")


def _tiny(folder: Path) -> Load:
    """Ten rows of two streams in two batches, five results."""
    tables = {
        "auction": pa.table({"a_id": range(10), "a_seller": [i % 5 for i in range(10)], "a_item": ["x"] * 10}),
        "person": pa.table({"p_id": range(5), "p_name": list("abcde"), "p_score": [0.5 * i for i in range(5)]}),
    }
    keep = (Compare("a_id", "<", plus=5),)
    join = Join("auction", (Step("person", (("a_seller", "p_id"),)),), ("a_id", "p_name", "p_score"), keep)
    made = cache_streams(folder / "tiny", lambda: tables, 2)
    return Load("tiny", join, made, 2, {name: table.num_rows for name, table in tables.items()})
