"""Stages, formats, measured numbers and notices, asked as a user asks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.topology.shop import QUERIES, declare, session
from weft.explain import FORMATS, STAGES
from weft.explain.notices import KINDS
from weft.explain.words import MOST
from weft.testing import Trial

CHAIN = """SELECT c.name, o.id, l.part FROM customer c, orders o, lines l
           WHERE o.customer = c.id AND l."order" = o.id"""


def page(s: weft.Session | Trial, stage: str = "topology", analyze: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(s.explain(stage, "json", analyze))
    return found


def kinds(s: weft.Session | Trial, analyze: bool = False) -> list[str]:
    found = [notice["kind"] for notice in page(s, analyze=analyze)["notices"]]
    assert found == [notice["kind"] for notice in page(s, "chosen", analyze)["notices"]]
    assert found == [kind for kind in KINDS if kind in found], "each kind once, in the order of all kinds"
    return found


def notice(s: weft.Session | Trial, kind: str, analyze: bool = False) -> dict[str, str]:
    (found,) = [n for n in page(s, analyze=analyze)["notices"] if n["kind"] == kind]
    assert all(found.values())
    return dict(found)


def open_session(sql: str, workers: int = 4, known: Mapping[str, float] | None = None, **wishes: Any) -> weft.Session:
    s = session(workers)
    if known is not None:
        s.options(statistics=weft.Statistics(known))
    s.query("q", sql, **wishes)
    return s


# ----------------------------------------------------------------------------------- stages and formats


@pytest.mark.parametrize("wrong", [{"stage": "logical"}, {"format": "xml"}, {"stage": None}, {"format": ["text"]}])
def test_unknown_stage_or_format_is_refused_with_what_exists(wrong: dict[str, Any]) -> None:
    with pytest.raises(weft.PlanError, match="is unknown") as refusal:
        open_session(CHAIN).explain(**wrong)
    assert refusal.value.hint == f"use one of: {', '.join(STAGES if 'stage' in wrong else FORMATS)}."


@pytest.mark.parametrize("stage", STAGES)
def test_a_session_without_queries_has_nothing_to_explain(stage: str) -> None:
    with pytest.raises(weft.PlanError, match="no query"):
        session().explain(stage)


@pytest.mark.parametrize("stage", ["parsed", "resolved", "candidates"])
def test_what_no_run_can_measure_is_refused(stage: str) -> None:
    with pytest.raises(weft.PlanError, match="nothing to measure"):
        open_session(CHAIN).explain(stage, analyze=True)


def test_what_was_written_shows_before_it_can_be_planned() -> None:
    s = session()
    s.query("q", "SELECT o.* FROM orders o, lines l WHERE o.price + l.price > 0")
    s.query("bad", CHAIN, strategy=weft.Plan(placement={"c": "c.name"}))
    assert "select  o.*" in s.explain("parsed")
    assert "join o, l  on o.price + l.price > 0" in s.explain("resolved")
    with pytest.raises(weft.PlanError, match="cannot place"):
        s.explain("candidates")


def test_builder_and_text_are_parsed_alike() -> None:
    text, built = session(), session()
    text.query(
        "q", "SELECT o.id, l.part AS what FROM orders o WITHIN INTERVAL '1' HOUR, lines l WHERE l.price > o.price"
    )
    sources = weft.rel("orders", "o", within="1 hour"), weft.rel("lines", "l")
    built.query("q", weft.from_(*sources).where("l.price > o.price").select("o.id", what=weft.col("l.part")))
    assert text.explain("parsed") == built.explain("parsed")


def test_a_finished_query_was_never_written() -> None:
    made = open_session(CHAIN).queries["q"].query
    with pytest.raises(weft.PlanError, match="not known"):
        Trial({"q": made}).explain("parsed")
    assert "stream lines" in Trial({"q": made}).explain("resolved")


# -------------------------------------------------------------------------------------------- candidates


def test_a_plan_says_why_it_won() -> None:
    def why(**wishes: Any) -> str:
        return str(page(open_session(CHAIN, **wishes), "candidates")["queries"][0]["because"])

    sizes = {"customer": 10.0, "orders": 1e5, "lines": 1e6}
    assert "nothing is known" in why()
    assert "it is the cheapest of" in why(known=sizes)
    assert 'strategy="flat" was asked for' in why(strategy="flat")
    assert "by hand" in why(strategy=weft.Plan([("c", "o")]))
    two = open_session(QUERIES["matched"])
    assert "no other tree" in page(two, "candidates")["queries"][0]["because"]


def test_long_lists_are_shortened_and_counted() -> None:
    names = "abcdef"
    s = session()
    for name in names:
        declare(s, name, {"k": pa.int64(), "j": pa.int64()})
    s.options(statistics=weft.Statistics(dict.fromkeys(names, 1000.0), distinct={f"{n}.k": 1000 for n in names}))
    s.query("q", f"SELECT a.k FROM {', '.join(names)} WHERE " + " AND ".join(f"a.k = {n}.k" for n in names[1:]))
    found = page(s, "candidates")["queries"][0]
    assert found["considered"] > len(found["candidates"]) >= 10
    assert f"and {found['considered'] - len(found['candidates'])} more, up to" in s.explain("candidates")
    assert [c["chosen"] for c in found["candidates"]].count(True) == 1
    assert "flat" in [c["name"] for c in found["candidates"]]


def test_assumed_numbers_are_told_from_known_ones() -> None:
    s = session().options(statistics=weft.Statistics({"orders": 5.0}, distinct={"orders.id": 5}))
    s.query("q", CHAIN)
    found = page(s, "candidates")["queries"][0]
    assert {i["alias"]: i["assumed"] for i in found["inputs"]} == {"c": True, "o": False, "l": True}
    assert {tuple(p["aliases"]): p["assumed"] for p in found["pairs"]} == {("c", "o"): True, ("o", "l"): False}
    assert "rows of c, rows of l, selectivity of c, o" in notice(s, "assumed-statistics")["detail"]


# ---------------------------------------------------------------------------------------------- measured


ORDERS = pa.table({"id": range(100), "who": [i % 10 for i in range(100)]})
LINES = pa.table({"oid": [i % 100 for i in range(400)], "part": range(400)})
PEOPLE = pa.table({"pid": range(10)})
TABLES = {"orders": ORDERS, "lines": LINES, "people": PEOPLE}
BOUGHT = "SELECT p.pid, l.part FROM people p, orders o, lines l WHERE o.who = p.pid AND l.oid = o.id"


def shop(root: Path, workers: int, **wishes: Any) -> weft.Session:
    s = weft.Session(root, workers=workers)
    for name, table in TABLES.items():
        s.stream(name, weft.read.batches([table]))
    s.query("q", BOUGHT, **wishes)
    s.analyze()
    return s


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("strategy", ["flat", "left_deep"])
def test_exact_statistics_give_exact_estimates(tmp_path: Path, workers: int, strategy: str) -> None:
    s = shop(tmp_path / "state", workers, strategy=strategy)
    trial = Trial(s)
    trial.feed(TABLES)
    found = page(trial, analyze=True)
    assert found["batches_measured"] == 1
    assert all(store["rows"]["ratio"] == pytest.approx(1.0, rel=0.02) for store in found["stores"])
    query = found["queries"][0]
    assert query["results"]["measured"] == 400
    assert query["results"]["ratio"] == pytest.approx(1.0, rel=0.02)
    first = [way["parts"][0] for way in query["ways"]]
    assert all(probe["tuples_in"]["ratio"] == pytest.approx(1.0, rel=0.02) for probe in first)
    last = [way["parts"][-1]["matches"]["measured"] for way in query["ways"]]
    assert sum(last) == 400


def test_a_session_reads_what_its_checkpoint_counted(tmp_path: Path) -> None:
    s = shop(tmp_path / "state", 2)
    assert notice(s, "nothing-measured", analyze=True)["action"] == "s.run()"
    assert not (tmp_path / "state").exists()
    trial = Trial(s, state=tmp_path / "state")
    trial.feed({"orders": ORDERS})
    trial.feed({"lines": LINES, "people": PEOPLE})
    for stage in ("chosen", "topology"):
        assert s.explain(stage, analyze=True) == trial.explain(stage, analyze=True)
    assert "measured in 2 batches" in s.explain(analyze=True)
    assert "measured" not in s.explain()


def test_a_shared_store_is_measured_once(tmp_path: Path) -> None:
    s = weft.Session(tmp_path / "state", workers=1)
    s.stream("orders", weft.read.batches([ORDERS]))
    s.query("pairs", "SELECT a.id FROM orders a, orders b WHERE a.who = b.who")
    s.query("more", "SELECT a.id FROM orders a, orders b WHERE a.who = b.who AND a.id < b.id")
    s.analyze()
    trial = Trial(s)
    trial.feed({"orders": ORDERS})
    (store,) = page(trial, analyze=True)["stores"]
    assert len(store["users"]) == 4
    assert store["rows"] == {"unit": "rows", "estimated": 100.0, "measured": 100, "ratio": 1.0}


def test_windows_are_measured_by_the_second() -> None:
    times = pa.array([i * 1_000_000 for i in range(600)], pa.timestamp("us"))
    ticks = pa.table({"k": [i % 10 for i in range(600)], "ts": times})
    s = weft.Session("unused", workers=1)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([ticks]), event_time="ts")
    s.query("q", "SELECT a.ts FROM a, b WHERE a.k = b.k WITHIN INTERVAL '1' MINUTE")
    s.analyze()
    assert page(s)["queries"][0]["ways"][0]["parts"][0]["tuples_in"]["unit"] == "tuples a second"
    trial = Trial(s)
    for start in range(0, 600, 60):
        trial.feed({"a": ticks.slice(start, 60), "b": ticks.slice(start, 60)})
    query = page(trial, analyze=True)["queries"][0]
    probes = [way["parts"][0] for way in query["ways"]]
    assert [probe["tuples_in"]["measured"] for probe in probes] == [600, 600]
    assert [probe["tuples_in"]["ratio"] for probe in probes] == pytest.approx([1.0, 1.0], rel=0.02)
    assert sum(probe["matches"]["measured"] for probe in probes) == query["results"]["measured"]
    assert query["results"]["ratio"] == pytest.approx(1.0, rel=0.2)


# ----------------------------------------------------------------------------------------------- notices


def test_state_without_bound_is_noticed() -> None:
    assert kinds(open_session(QUERIES["matched"])) == ["no-statistics"]
    found = notice(open_session('SELECT o.id FROM orders o, lines l WHERE l."order" = o.id'), "unbounded-state")
    assert found["message"] == "2 stores grow without bound"
    assert found["detail"] == "s0 (orders, for q), s1 (lines, for q)."
    assert "WITHIN" in found["action"]


def test_stores_without_bound_are_listed_with_their_queries_and_streams_without_time() -> None:
    s = session()
    s.query("named", QUERIES["named"])
    s.query("lines", 'SELECT o.id FROM orders o, lines l WHERE l."order" = o.id')
    s.query("all", CHAIN, strategy=weft.Plan([("c", "o")]))
    found = notice(s, "unbounded-state")
    stores = [store for store in page(s)["stores"] if store["retention_micros"] is None]
    assert found["message"] == f"{len(stores)} stores grow without bound"
    for store in stores:
        queries = dict.fromkeys(user.split(".")[0] for user in store["users"])
        assert f"{store['name']} ({store['of']}, for {', '.join(queries)})" in found["detail"]
    assert found["detail"].endswith("; without event time: customer.")
    assert found["action"] == 's.stream("customer", source, event_time="...")'


def test_long_lists_in_notices_are_shortened() -> None:
    s = session()
    for i in range(MOST):
        s.query(
            f"q{i}", f'SELECT o.id FROM orders o, lines l WHERE l."order" = o.id AND o.id <> {i} AND l.price <> {i}'
        )
    found = notice(s, "unbounded-state")
    assert found["message"] == f"{2 * MOST} stores grow without bound"
    assert found["detail"].count("for q") == MOST
    assert found["detail"].endswith(f", and {MOST} more.")


def test_a_key_that_would_avoid_a_broadcast_is_named_and_can_be_used() -> None:
    s = open_session(QUERIES["triangle"])
    found = notice(s, "avoidable-broadcast")
    assert found["detail"] == "q: l to s0 (orders), placed by o.customer and not by o.id."
    assert found["action"] == "s.query(\"q\", sql, strategy=weft.Plan(placement={'o': 'o.id'}))"
    again = session()
    eval(found["action"], {"s": again, "sql": QUERIES["triangle"], "weft": weft})
    assert "q: k to s0" in notice(again, "avoidable-broadcast")["detail"]  # somebody has to be broadcast
    assert (
        "scattered and not by" in page(open_session(QUERIES["matched"], placement="scattered"))["notices"][0]["detail"]
    )


def test_a_theta_join_is_broadcast_and_says_so() -> None:
    s = open_session("SELECT o.id FROM orders o, lines l WHERE o.price < l.price WITHIN INTERVAL '1' HOUR")
    found = notice(s, "theta-broadcast")
    assert "q: l to s0 (orders); q: o to s1 (lines)" in found["detail"]
    assert "4 times" in found["detail"]
    again = session()
    eval(found["action"], {"s": again, "sql": s.queries["q"].draft, "weft": weft})
    assert notice(again, "theta-broadcast")["detail"].startswith("q: o to s1 (lines); ")
    assert "theta-broadcast" not in kinds(open_session(QUERIES["near"], workers=1))


def test_a_cross_product_is_noticed() -> None:
    s = open_session(
        "SELECT o.id FROM orders o WITHIN INTERVAL '1' HOUR, lines l WITHIN INTERVAL '1' HOUR", cross_product=True
    )
    assert kinds(s) == ["cross-product", "no-statistics"]
    assert "q: l with s0 (orders); q: o with s1 (lines)" in notice(s, "cross-product")["detail"]


def test_a_large_intermediate_result_is_noticed_and_can_be_refused() -> None:
    numbers = weft.Statistics({"customer": 100.0, "orders": 100.0, "lines": 100.0}, selectivities={("c", "o"): 0.5})
    s = session().options(statistics=numbers)
    s.query("q", CHAIN, strategy=weft.Plan([("c", "o")]))
    found = notice(s, "large-intermediate")
    assert found["detail"] == "s3 (c + o, for q): 5 k rows, made of 200."
    again = session().options(statistics=numbers)
    eval(found["action"], {"s": again, "sql": CHAIN})
    assert "large-intermediate" not in kinds(again)


def test_a_store_beyond_its_capacity_is_noticed() -> None:
    rows = {"customer": 10.0, "orders": 1000.0, "lines": 100.0}
    s = open_session(CHAIN, known=rows, capacity=100, strategy="flat")
    assert notice(s, "over-capacity")["action"] == "s.options(workers=10)"
    assert "over-capacity" not in kinds(open_session(CHAIN, workers=10, known=rows, capacity=100, strategy="flat"))
    narrow = open_session(CHAIN, workers=10, known=rows, capacity=100, strategy="flat", parallelism={"o": 2})
    assert notice(narrow, "over-capacity")["action"].endswith("strategy=weft.Plan(parallelism={'o': 10}))")


def test_estimates_that_are_far_off_are_noticed(tmp_path: Path) -> None:
    s = shop(tmp_path / "state", 1, strategy="flat")
    s.options(statistics=weft.Statistics({"orders": 1e6, "lines": 10.0, "people": 10.0}))
    trial = Trial(s)
    trial.feed(TABLES)
    found = notice(trial, "wrong-estimate", analyze=True)
    assert re.fullmatch(r"1 estimate is more than 10 times off", found["message"])
    assert found["detail"].startswith("rows in s2 (lines): 10 expected"), "orders may still come"
    assert "s.observed()" in found["action"]
    assert "empty checkpoint" not in json.dumps(found)


def test_an_estimate_is_wrong_only_where_both_sides_have_come() -> None:
    """All of a came before all of b: the probes by rows of a have found nothing, and that says nothing."""
    rows = pa.table({"k": [i % 50 for i in range(1000)]})
    s = weft.Session("unused", workers=1)
    for name in "ab":
        s.stream(name, weft.read.batches([rows]))
    s.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k")
    s.analyze()
    trial = Trial(s)
    trial.feed({"a": rows})
    assert "wrong-estimate" not in kinds(trial, analyze=True), "b has not come"
    trial.feed({"b": rows})
    assert "wrong-estimate" not in kinds(trial, analyze=True)
    wrong = weft.Session("unused", workers=1)
    for name in "ab":
        wrong.stream(name, weft.read.batches([rows]))
    wrong.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k")
    wrong.options(statistics=weft.Statistics({"a": 1000.0, "b": 1000.0}, selectivities={("a", "b"): 0.5}))
    trial = Trial(wrong)
    trial.feed({"a": rows})
    assert "wrong-estimate" not in kinds(trial, analyze=True)
    trial.feed({"b": rows})
    found = notice(trial, "wrong-estimate", analyze=True)
    assert found["detail"] == "matches of a + b in q: 500 k expected, 20 k measured."


def test_a_store_holds_what_it_holds_now() -> None:
    times = pa.array([i * 1_000_000 for i in range(600)], pa.timestamp("us"))
    ticks = pa.table({"k": [i % 10 for i in range(600)], "ts": times})
    s = weft.Session("unused", workers=1)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([ticks]), event_time="ts")
    s.query("q", "SELECT a.ts FROM a, b WHERE a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30' SECOND")
    s.analyze()
    trial = Trial(s)
    for start in range(0, 600, 20):
        trial.feed({"a": ticks.slice(start, 20), "b": ticks.slice(start, 20)})
    stores = page(trial, analyze=True)["stores"]
    assert {store["id"]: store["rows"]["measured"] for store in stores} == trial.state_rows
    assert max(trial.state_rows.values()) < 200
