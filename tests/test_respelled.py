"""A query that is written in another spelling is the same query, of every kind: a session goes on with its state."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import weft
from tests.goingon import go_on
from tests.respelled import respell
from tests.wide import Tally, World, compare, make_world
from weft.host.state.checkpoint import describe_query, is_same_query
from weft.query.model import Query
from weft.testing import Trial


def asked(world: World, text: str, folder: str = "never-made") -> weft.Session:
    session = world.session(folder)
    session.query("q", text, cross_product=True)
    return session


def respelled(world: World) -> str:
    return respell(world.texts[0], random.Random(world.seed))


def require_same(one: Query, other: Query) -> None:
    assert is_same_query(describe_query(one), describe_query(other))
    assert [*map(str, one.relations)] == [*map(str, other.relations)]
    assert {*one.predicates} == {*other.predicates}
    assert (one.outputs, one.grouping) == (other.outputs, other.grouping)


@pytest.mark.parametrize("seed", range(60))
def test_random_query_in_another_spelling_is_the_same(seed: int) -> None:
    world = make_world(seed)
    one, other = (asked(world, text).queries["q"].query for text in (world.texts[0], respelled(world)))
    require_same(one, other)


SAME = {
    "ON of an outer join": (
        "SELECT a.x FROM a LEFT JOIN b ON a.k = b.k AND a.x < b.y AND b.x > 1",
        "SELECT a.x FROM a LEFT JOIN b ON 1 < b.x AND b.y > a.x AND b.k = a.k",
    ),
    "alternatives": (
        "SELECT a.x FROM a FULL JOIN b ON a.k = b.k AND (a.x = 1 OR b.y IN (1, 2))",
        "SELECT a.x FROM a FULL JOIN b ON (b.y IN (2, 1) OR 1 = a.x) AND b.k = a.k",
    ),
    "a subquery in ON": (
        "SELECT a.x FROM a ANTI JOIN b ON a.k = b.k AND (a.x = 2 OR a.x NOT IN (SELECT z FROM c WHERE c.k < a.k))",
        "SELECT a.x FROM a ANTI JOIN b ON (a.x NOT IN (SELECT z FROM c WHERE a.k > k) OR 2 = a.x) AND b.k = a.k",
    ),
    "two subqueries": (
        "SELECT a.x FROM a WHERE EXISTS (SELECT s FROM b WHERE b.k = s) AND x NOT IN (SELECT y FROM b WHERE b.x > 1)",
        "SELECT a.x FROM a WHERE x NOT IN (SELECT o.y FROM b o WHERE 1 < x) AND EXISTS (SELECT s FROM b p WHERE s = k)",
    ),
    "values": (
        "SELECT a.x FROM a WHERE a.x > (SELECT MAX(y) FROM b WHERE b.k = a.k) AND a.x < (SELECT MIN(z) FROM c)",
        "SELECT a.x FROM a WHERE (SELECT min(p.z) FROM c p) > a.x AND (SELECT max(q.Y) FROM b q WHERE a.K = q.k) < a.x",
    ),
    "a derived table with groups": (
        "SELECT d.n FROM (SELECT b.k, COUNT(*) AS n FROM b, c WHERE b.k = c.k AND b.x < c.z GROUP BY b.k) d",
        "SELECT d.n FROM (SELECT p.k, COUNT(*) AS n FROM b p, c q WHERE q.z > p.x AND q.k = p.k GROUP BY p.k) d",
    ),
    "HAVING": (
        "SELECT a.k, COUNT(*) AS n FROM a GROUP BY a.k HAVING SUM(a.x) > 1 AND MAX(a.s) > 2 AND COUNT(*) > (SELECT 1)",
        "SELECT a.k, COUNT(*) AS n FROM a GROUP BY a.k HAVING (SELECT 1) < COUNT(*) AND 2 < MAX(a.s) AND 1 < SUM(a.x)",
    ),
    "outputs": (
        "SELECT a.k = b.k AS e, CASE WHEN b.x > a.x AND a.k = 1 THEN 1 END AS c FROM a, b",
        "SELECT b.k = a.k AS e, CASE WHEN 1 = a.k AND a.x < b.x THEN 1 END AS c FROM a, b",
    ),
    "names of outputs": (
        "SELECT a.x + 1 FROM a LEFT JOIN b ON a.k = b.k",
        "SELECT a.x /* one more */ +\n1 FROM a LEFT JOIN b ON b.k = a.k",
    ),
    "LATERAL": (
        "SELECT l.y FROM a, LATERAL (SELECT b.y FROM b WHERE b.k = a.k AND b.x = a.x ORDER BY b.y LIMIT 1) l",
        "SELECT l.y FROM a, LATERAL (SELECT b.y FROM b WHERE a.x = b.x AND a.k = b.k ORDER BY b.y LIMIT 1) l",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", SAME)
def test_turned_conditions_are_the_same_query(kind: str) -> None:
    world = make_world(0)
    one, other = (asked(world, text).queries["q"].query for text in SAME[kind])
    require_same(one, other)


OTHERS = [
    ("SELECT a.x FROM a LEFT JOIN b ON a.x < b.y", "SELECT a.x FROM a LEFT JOIN b ON a.x > b.y"),
    ("SELECT a.x FROM a LEFT JOIN b ON a.x < b.y", "SELECT a.x FROM a RIGHT JOIN b ON a.x < b.y"),
    ("SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x > 1)",
     "SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k OR b.x > 1)"),
    ("SELECT a.x FROM a WHERE a.x IN (SELECT k FROM b)", "SELECT a.x FROM a WHERE a.x IN (SELECT y FROM b)"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_meanings_are_other_queries(one: str, other: str) -> None:
    world = make_world(0)
    first, second = (describe_query(asked(world, text).queries["q"].query) for text in (one, other))
    assert not is_same_query(first, second)


@pytest.mark.parametrize("seed", range(100, 112))
def test_a_session_goes_on_with_another_spelling(seed: int, tmp_path: Path) -> None:
    world, state = make_world(seed), str(tmp_path / "state")
    trial = Trial(asked(world, world.texts[0], state), state=state)
    for place, (batch, left) in enumerate(zip(world.batches, world.left, strict=True)):
        if place == 1:
            trial = go_on(trial, asked(world, respelled(world), state), ["q"])
        trial.feed(batch)
        compare(trial.table("q"), world.texts[0], left, Tally())
