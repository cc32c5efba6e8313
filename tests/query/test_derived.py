"""Queries that read the results of others in the same batch."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

import weft
from tests.nested import Nested, check
from weft.errors import WeftError
from weft.query.derived import Closes, Derived
from weft.query.model import Stream
from weft.query.resolve import resolve
from weft.sql import parse
from weft.testing import Trial

TEXTS = """
SELECT a.k, a.x FROM a JOIN b ON a.k = b.k UNION ALL SELECT c.k, c.z FROM c
SELECT k FROM a UNION SELECT k FROM b UNION ALL SELECT k FROM c
(SELECT k FROM a UNION ALL SELECT k FROM b) UNION (SELECT k FROM c)
WITH t AS (SELECT k FROM a) SELECT k FROM t UNION ALL SELECT k + 1 FROM t
SELECT d.k, d.x, c.z FROM (SELECT a.k, b.y AS x FROM a JOIN b ON a.k = b.k UNION ALL SELECT k, z FROM c) d JOIN c ON d.k = c.k
SELECT k, NULL AS x FROM a UNION ALL SELECT k, y FROM b
SELECT k, 1.5 AS x FROM a UNION ALL SELECT k, y FROM b
SELECT sum(m) AS s, count(*) AS n FROM (SELECT k, max(x) AS m FROM a GROUP BY k) d
SELECT d.k, m, z FROM (SELECT k, count(*) AS m FROM a GROUP BY k) d JOIN c ON d.k = c.k
SELECT a.k, a.x FROM a JOIN (SELECT max(x) AS m FROM a) d ON a.x = d.m
SELECT d.k, m, n FROM (SELECT k, count(*) m FROM a GROUP BY k HAVING count(*) < 3) d JOIN (SELECT k, sum(z) n FROM c GROUP BY k) e ON d.k = e.k
SELECT m, count(*) AS n FROM (SELECT DISTINCT k, x AS m FROM a) d GROUP BY m
SELECT s.n, count(*) AS often FROM (SELECT k, count(*) AS n FROM (SELECT DISTINCT k, x FROM a) t GROUP BY k) s GROUP BY s.n
"""  # noqa: E501


@pytest.mark.parametrize("text", TEXTS.strip().splitlines())
@pytest.mark.parametrize("workers", [1, 3])
def test_derived_tables_mean_what_they_mean_in_duckdb(text: str, workers: int) -> None:
    check(text, random.Random(7), workers=workers)


@pytest.mark.parametrize("sharing", ["global", "local", "none"])
def test_queries_that_read_the_same_share_it(sharing: str) -> None:
    session = weft.Session("never-made", workers=2).options(sharing=sharing)
    session.stream("a", weft.read.batches([pa.table({"k": [1], "x": [1]})]))
    session.view("totals", "SELECT k, sum(x)::BIGINT AS s FROM a GROUP BY k")
    session.query("one", "SELECT a.k, s FROM a JOIN totals ON a.k = totals.k")
    session.query("two", "SELECT count(*) AS n, max(s) AS m FROM totals AS t")
    trial = Trial(session)
    trial.feed({"a": pa.table({"k": [1, 1, 2], "x": [1, 2, 4]})})
    trial.feed({"a": pa.table({"k": [2], "x": [5]})})
    assert sorted(map(tuple, map(dict.values, trial.table("one").to_pylist()))) == [(1, 3), (1, 3), (2, 9), (2, 9)]
    assert trial.table("two").to_pylist() == [{"n": 2, "m": 9}]
    assert len([store for store in trial.topology.stores if store.counted == "groups" and "#" in store.id]) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT k FROM a UNION ALL SELECT k, y FROM b", "different numbers of columns"),
        ("SELECT k FROM a UNION ALL SELECT 'x' FROM b", "UNION of"),
        (
            "SELECT d.k FROM (SELECT k, count(*) n FROM a GROUP BY k) d WITHIN '1 minute' JOIN b ON d.k = b.k",
            "event time",
        ),
    ],
)
def test_what_cannot_be_derived_is_refused(text: str, message: str) -> None:
    with pytest.raises(WeftError, match=message) as caught:
        check(text, random.Random(0))
    assert caught.value.hint


@pytest.mark.parametrize("seed", range(12))
def test_random_nesting_means_what_it_means_in_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(2):
        check(Nested(rng).query(), rng, workers=rng.choice([1, 2, 3]), batches=3)


# --------------------------------------------------------------------------------- groups that close

BAND = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + 10"
KEPT = Derived(
    "#1",
    (
        parse("SELECT k, ts, x, 1 AS own, 0 AS pairs FROM a"),
        parse(f"SELECT a.k, a.ts, a.x, 0, 1 FROM a JOIN b ON {BAND}"),
    ),
)
ALONE = Derived(
    "#2",
    (parse('SELECT k, ts, x, sum(own) AS n FROM "#1" GROUP BY k, ts, x HAVING sum(pairs) = 0'),),
    times="n",
    closes=Closes("ts", 10_000_000),
)
OUTER = parse(f'SELECT a.k, a.ts, a.x, b.y FROM a JOIN b ON {BAND} UNION ALL SELECT k, ts, x, NULL FROM "#2"')


def timed(value: str) -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in ("k", "ts", value)])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_a_group_that_closes_gives_its_row_once(seed: int, workers: int) -> None:
    streams = {name: Stream(name, timed(v), "ts", "s", 50_000_000) for name, v in (("a", "x"), ("b", "y"))}
    trial = Trial({"q": resolve(OUTER, streams, {}, derived=(KEPT, ALONE))}, workers=workers)
    rng, con = random.Random(seed), duckdb.connect()
    for name, value in (("a", "x"), ("b", "y")):
        con.execute(f"CREATE TABLE {name} (k BIGINT, ts BIGINT, {value} BIGINT)")
    for batch in range(6):
        fresh = {}
        for name, value in (("a", "x"), ("b", "y")):
            made = [
                {"k": rng.randrange(5), "ts": 10 * batch + rng.randrange(41), value: rng.randrange(3)}
                for _ in range(rng.randrange(13))
            ]
            fresh[name] = pa.Table.from_pylist(made, timed(value))
            con.register("fresh", fresh[name])
            con.execute(f"INSERT INTO {name} SELECT * FROM fresh")
        trial.feed(fresh)
    last = {"a": {"k": 8, "ts": 10_000, "x": 0}, "b": {"k": 9, "ts": 10_000, "y": 0}}  # later than all, and no pair
    trial.feed({name: pa.Table.from_pylist([row], timed([*row][2])) for name, row in last.items()})
    trial.feed({})
    mine = sorted(repr(tuple(row.values())) for row in trial.table("q").to_pylist())
    theirs = con.execute(f"SELECT a.k, a.ts, a.x, b.y FROM a LEFT JOIN b ON {BAND}").fetchall()
    assert mine == sorted(map(repr, theirs))
    assert sum(trial.state_rows.values()) < 10


# ------------------------------------------------------------------------------------------- corners


@pytest.mark.parametrize("workers", [1, 2])
def test_a_sum_of_floats_is_taken_back_as_it_was_given(workers: int) -> None:
    """Sums of floats depend on the order of adding up, which merging changes: what was shown is remembered."""
    session, rng = weft.Session("never-made", workers=workers), random.Random(3)
    kinds = pa.schema([("k", pa.int64()), ("x", pa.float64())])
    session.stream("a", weft.read.batches([kinds.empty_table()]))
    session.stream("b", weft.read.batches([pa.table({"k": [1]})]))
    inner = "(SELECT k, sum(x) AS s FROM a GROUP BY k) d"
    session.query("joined", f"SELECT d.k, s FROM {inner} JOIN b ON d.k = b.k")
    session.query("counted", f"SELECT count(*) AS n, max(s) AS m FROM {inner}")
    trial, seen, partners = Trial(session), set[int](), list[int]()
    for _ in range(25):
        fresh = [{"k": rng.randrange(4), "x": rng.uniform(-1, 1) * 10 ** rng.randint(-8, 8)} for _ in range(4)]
        partners.append(rng.randrange(5))
        seen |= {int(row["k"]) for row in fresh}
        trial.feed({"a": pa.Table.from_pylist(fresh, kinds), "b": pa.table({"k": [partners[-1]]})})
        assert trial.table("joined").num_rows == sum(k in seen for k in partners)
        assert trial.table("counted").to_pylist()[0]["n"] == len(seen)


def test_a_query_that_is_read_is_not_dropped() -> None:
    session = weft.Session("never-made", workers=2)
    session.stream("a", weft.read.batches([pa.table({"k": [1], "x": [1]})]))
    session.query("totals", "SELECT k, sum(x) AS s FROM a GROUP BY k")
    session.query("most", "SELECT max(s) AS m FROM totals")
    with pytest.raises(WeftError, match="read by others") as caught:
        session.drop("totals")
    assert 's.drop("most")' in str(caught.value.hint)
    session.drop("most")
    session.drop("totals")


def test_windows_are_those_of_the_streams_inside() -> None:
    session = weft.Session("never-made", workers=2)
    for name in ("a", "b"):
        session.stream(name, weft.read.batches([pa.table({"k": [1], "ts": [1]})]), event_time="ts")
    text = "SELECT n FROM (SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k) d WITHIN '10 seconds'"
    query = session.query("q", text, closed=True).query
    (relation,) = query.relations
    assert relation.window is None
    assert [inner.window for inner in relation.stream.made[0].relations] == [10_000_001, 10_000_001]
