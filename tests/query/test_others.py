"""Queries as other engines write them, over streams that stay or change, compared with DuckDB after every batch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.others import make_other
from tests.wide import check_world, make_world
from weft.query.derived import hidden
from weft.testing import Trial

WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
ALL_OF_A = "a.x, a.k, a.s"
ONE_ROW = [
    "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.k = a.k HAVING COUNT(*) > 1) AS n FROM a",
    "SELECT a.k, (SELECT COUNT(*) FROM b WHERE b.k = a.k HAVING COUNT(*) < 1) AS n FROM a",
    "SELECT a.k, (SELECT MAX(x) FROM b HAVING MAX(x) > 100) AS n FROM a",
    "SELECT a.k, (SELECT MAX(x) AS m FROM b HAVING m > 2) AS n FROM a",
    "SELECT a.k FROM a WHERE EXISTS (SELECT COUNT(*) FROM b WHERE b.k = a.k)",
    "SELECT a.k FROM a WHERE NOT EXISTS (SELECT COUNT(*) FROM b WHERE b.k = a.k)",
    "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k HAVING COUNT(*) = 0)",
    "SELECT a.k FROM a WHERE a.x IN (SELECT COUNT(*) FROM b WHERE b.k = a.k)",
    "SELECT a.k FROM a WHERE a.x NOT IN (SELECT MAX(b.x) FROM b WHERE b.k < a.k)",
    "SELECT a.k, a.x IN (SELECT MAX(b.x) FROM b WHERE b.k = a.k) AS f FROM a",
    "SELECT a.k FROM a WHERE a.x = ALL (SELECT MAX(b.x) FROM b WHERE b.k = a.k)",
]
FORMS = [
    "SELECT a.k, SUM(SUM(a.x)) OVER () AS w FROM a GROUP BY a.k",
    "SELECT a.k, a.x, a.s, LAG(a.x, CAST(a.k AS INTEGER)) OVER (ORDER BY a.x, a.k, a.s) AS w FROM a",
    "SELECT a.x, LEAD(a.x, CAST(a.s - 1 AS INTEGER), a.k) OVER (PARTITION BY a.k ORDER BY a.x, a.s) AS w FROM a",
    "SELECT a.k, RANK() OVER (PARTITION BY NULL ORDER BY a.k) AS n FROM a",
    "SELECT a.k, a.x, RANK() OVER (ORDER BY (a.k, a.x) DESC NULLS LAST) AS n FROM a",
    "SELECT a.k, a.x, a.s FROM a ORDER BY (a.k, a.x), a.s LIMIT 3",
    "SELECT a.x, MAX(a.s) OVER (ORDER BY a.x, a.k, a.s ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS w FROM a",
    "SELECT a.x, LAST_VALUE(a.s) OVER (PARTITION BY a.k ORDER BY a.x, a.s " + WHOLE + ") AS w FROM a",
    "SELECT a.x, FIRST_VALUE(a.s) OVER (PARTITION BY a.k ORDER BY a.x, a.s ROWS 1 PRECEDING) AS w FROM a",
    "SELECT a.x, LAST_VALUE(a.s) OVER (PARTITION BY a.k ORDER BY a.x, a.s) AS w FROM a",
    "SELECT a.x, LAST_VALUE(a.k) OVER (ORDER BY a.k RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS w FROM a",
    "SELECT a.x, FIRST_VALUE(a.k) OVER (ORDER BY a.k DESC NULLS FIRST GROUPS 1 PRECEDING) AS w FROM a",
    f"SELECT a.x, NTH_VALUE(a.s, 2) OVER (PARTITION BY a.k ORDER BY {ALL_OF_A}) AS w FROM a",
    f"SELECT a.x, NTH_VALUE(a.s, 0) OVER (ORDER BY {ALL_OF_A}), NTH_VALUE(a.s, 9) OVER (ORDER BY {ALL_OF_A}) FROM a",
    f"SELECT a.k, FIRST_VALUE(a.x IGNORE NULLS) OVER (ORDER BY {ALL_OF_A} ROWS 2 PRECEDING) AS w FROM a",
    f"SELECT a.k, LAST_VALUE(a.x IGNORE NULLS) OVER (ORDER BY {ALL_OF_A}) AS w, a.x, a.s FROM a",
    f"SELECT a.k, FIRST_VALUE(a.x) OVER (ORDER BY {ALL_OF_A} ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS w FROM a",
    f"SELECT a.k, LIST(a.s) OVER (ORDER BY {ALL_OF_A} DESC) AS w, LIST(DISTINCT a.k) OVER (ORDER BY a.k DESC) FROM a",
    "SELECT a.x, STRING_AGG(CAST(a.s AS VARCHAR), '-') OVER (PARTITION BY a.k ORDER BY a.x DESC, a.s) AS w FROM a",
    f"SELECT a.k, FIRST(a.x ORDER BY {ALL_OF_A}), LAST(a.x ORDER BY {ALL_OF_A}) FROM a GROUP BY a.k",
    f"SELECT ANY_VALUE(a.x ORDER BY {ALL_OF_A} DESC), LAST(a.s ORDER BY {ALL_OF_A}) FILTER (WHERE a.k > 1) FROM a",
    f"SELECT a.k, LAST(a.s ORDER BY {ALL_OF_A}) OVER (PARTITION BY a.k) AS w FROM a",
    "SELECT DISTINCT MAX(a.x) AS m FROM a GROUP BY a.k",
    "SELECT DISTINCT COUNT(*) AS n, a.k + b.k AS g FROM a JOIN b USING (x) GROUP BY a.k, b.k HAVING COUNT(*) > 1",
    "WITH c AS (SELECT k, x FROM a) SELECT DISTINCT 35 AS p FROM c GROUP BY c.k, c.x",
    f"SELECT -a.x AS x, a.s, a.k, COUNT(*) OVER () AS n FROM a ORDER BY {ALL_OF_A} LIMIT 2",
    "SELECT COUNT(*) OVER (ORDER BY a.k) AS n FROM a ORDER BY a.x, a.s, a.k LIMIT 3",
    f"SELECT a.k FROM a ORDER BY ROW_NUMBER() OVER (ORDER BY {ALL_OF_A}) LIMIT 3",
    f"SELECT *, ROW_NUMBER() OVER (ORDER BY {ALL_OF_A}) AS n FROM a ORDER BY n + 1 LIMIT 2",
    "SELECT -a.x AS x, SUM(COUNT(*)) OVER () AS n FROM a GROUP BY a.x ORDER BY COUNT(*), a.x LIMIT 2",
    f"SELECT -a.x AS x, a.s, a.k FROM a QUALIFY COUNT(*) OVER (PARTITION BY k) > 1 ORDER BY {ALL_OF_A} LIMIT 2",
    "SELECT DISTINCT ON (a.k) -a.x AS x FROM a QUALIFY COUNT(*) OVER (PARTITION BY k) > 1 ORDER BY a.k, a.x, a.s",
    "SELECT DISTINCT a.x, s FROM a ORDER BY a.x + 1, a.s LIMIT 2",
    "SELECT k, STRING_AGG(x, '-' ORDER BY x), STRING_AGG(DISTINCT 0.5 * s, '' ORDER BY 0.5 * s) FROM a GROUP BY k",
    "SELECT a.k + 1 AS g, g * 2 AS m, m - g AS n, -x AS x, x + 1 AS y FROM a",
    "SELECT a.k % 2 AS g, SUM(g) AS n, COUNT(*) AS m, n + m AS t FROM a GROUP BY g",
    "SELECT a.k AS g, COUNT(*) AS n, n + 1 AS m FROM a GROUP BY ROLLUP (a.k)",
    "SELECT RANK() OVER (ORDER BY a.k) AS n, n + 1 AS m FROM a LEFT JOIN b USING (k)",
    f"SELECT a.k + 1 AS g, g * 2 AS m, ROW_NUMBER() OVER (ORDER BY {ALL_OF_A}) AS n FROM a ORDER BY m, n LIMIT 3",
    "SELECT DISTINCT ON (m) a.k + 1 AS g, g * 2 AS m, a.x FROM a ORDER BY m, a.x",
    "SELECT a.k, d.v FROM a, LATERAL (SELECT b.y + 1 AS p, p + a.x AS v FROM b WHERE b.k = a.k) d",
    "SELECT k, x FROM a UNION BY NAME SELECT y, K FROM b UNION ALL SELECT 1, 2, 3",
    "(SELECT k FROM a UNION ALL SELECT x FROM a) UNION BY NAME (SELECT z FROM c UNION ALL SELECT k FROM c)",
    "SELECT k, COUNT(*) AS n FROM a GROUP BY k UNION ALL BY NAME SELECT k, 1.5 AS n, MAX(y) AS m FROM b GROUP BY k",
    "SELECT y, SUM(x) FROM (SELECT x FROM a LEFT JOIN c USING (k) UNION ALL BY NAME SELECT y FROM b) GROUP BY y",
    "SELECT x, k FROM a UNION ALL BY NAME SELECT DISTINCT k, y AS x FROM b ORDER BY x, k LIMIT 5",
    "SELECT * FROM (SELECT a.k, a.x, AVG(a.x) OVER (PARTITION BY a.k) AS m FROM a) WHERE m < 2",
    "SELECT a.k + 1 AS g, a.s, COUNT(*) AS n FROM a GROUP BY a.s, ROLLUP (g)",
    "SELECT DISTINCT a.k, GROUPING(a.k) AS g FROM a LEFT JOIN b USING (k) GROUP BY GROUPING SETS ((a.k), (a.k, s))",
    "SELECT a.k FROM a EXCEPT ALL SELECT b.k FROM b EXCEPT ALL SELECT c.k FROM c",
    "SELECT a.k, (SELECT CAST(SUM(b.x * a.x) AS BIGINT) FROM b) AS n FROM a",
    "SELECT a.k, (SELECT COUNT(*) FROM b LEFT JOIN c ON c.k = b.k WHERE b.k = a.k AND c.k IS NULL) AS n FROM a",
    "SELECT a.k, b.y FROM a JOIN b ON a.k = b.k AND EXISTS (SELECT 1 FROM c WHERE c.k = a.x)",
    "SELECT a.k, y FROM a, LATERAL (SELECT MAX(x) p FROM b WHERE k = a.k) m, LATERAL (SELECT y FROM b WHERE x = p) w",
    "SELECT * FROM a WHERE EXISTS (SELECT x FROM b WHERE a.x = b.x AND b.y IN (SELECT c.z FROM c WHERE a.k = c.k))",
    "SELECT a.k, p FROM a, LATERAL (SELECT b.x FROM b WHERE b.k = a.k UNION ALL SELECT z FROM c WHERE c.k > a.x) d (p)",
    "SELECT a.s, d.* FROM a, LATERAL (SELECT * FROM b WHERE b.k <= a.k ORDER BY k, x, y LIMIT 1) d",
    "SELECT a.s, d.* FROM a LEFT JOIN LATERAL (SELECT x, COUNT(*) AS n FROM b WHERE b.k <= a.k GROUP BY x) d ON TRUE",
    "SELECT a.k, a.x = ANY (ARRAY[a.k, 2, NULL]) AS f, a.x > ALL ([0, a.k]) AS g FROM a",
    "SELECT a.k FROM a WHERE a.x <> SOME ([1]) AND (a.k > 1) IS NOT UNKNOWN",
    "SELECT * EXCEPT (a.x, b.k) FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT p FROM (VALUES (1) UNION ALL SELECT a.k FROM a) AS q (p)",
    "SELECT * FROM (VALUES (1), (2)) p (i) LEFT JOIN (VALUES (2), (NULL), (2)) q (j) ON i = j",
    "SELECT (SELECT COUNT(*) FROM (VALUES (1), (2)) p) AS n, 3 IN (SELECT 3) AS f",
    "SELECT 1 AS p UNION ALL VALUES (2), (3)",
    "WITH p (i) AS (SELECT 1), q AS (SELECT i + 1 AS j FROM p) SELECT p.i, q.j FROM p, q WHERE i < j",
    "SELECT q.k FROM (SELECT a.k, a.x, a.s FROM a ORDER BY a.k, a.x, a.s OFFSET 2 ROWS) q JOIN b ON q.k = b.k",
]

NEAR = "WITH near AS (SELECT b.x, b.y FROM b WHERE b.k = a.k AND b.y < 3) SELECT"
FAR = [
    "SELECT 1 AS one FROM a HAVING EXISTS (SELECT 1 FROM b WHERE b.x > 1)",
    "SELECT 1 AS one FROM a WHERE a.x > 0 HAVING 1 NOT IN (SELECT b.x FROM b WHERE b.k = 1)",
    f"SELECT a.k FROM a WHERE a.x IN ({NEAR} c.z FROM near LEFT JOIN c ON c.k = near.x)",
    f"SELECT a.k FROM a WHERE a.x NOT IN ({NEAR} near.y FROM near LEFT JOIN c ON c.k = near.x)",
    f"SELECT a.k FROM a WHERE EXISTS ({NEAR} 1 FROM c LEFT JOIN near ON c.k = near.x WHERE near.y IS NULL)",
    f"SELECT a.k FROM a WHERE a.x IN ({NEAR} c.z FROM near RIGHT JOIN c ON c.k = near.x)",
    f"SELECT a.k FROM a WHERE NOT EXISTS ({NEAR} 1 FROM c RIGHT JOIN near ON c.k = near.x)",
    f"SELECT a.k FROM a WHERE a.x IN ({NEAR} x + z FROM near LEFT JOIN (SELECT z FROM c WHERE c.k = a.x) m ON TRUE)",
    f"SELECT a.k FROM a WHERE EXISTS ({NEAR} 1 FROM near LEFT JOIN c ON c.k = near.x AND c.z = a.k WHERE c.k IS NULL)",
    "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b RIGHT JOIN c ON b.x = c.k AND b.k = a.k WHERE b.k IS NULL)",
    "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b LEFT JOIN c ON a.x = c.k WHERE c.k IS NULL)",
    "SELECT a.k, (SELECT a.x FROM (SELECT DISTINCT k FROM b) d WHERE d.k = a.k) AS v FROM a",
    "SELECT a.k, (SELECT a.x + d.m FROM (SELECT k, MAX(y) AS m FROM b GROUP BY k) d WHERE d.k = a.k) AS v FROM a",
    "SELECT a.k, (SELECT a.x FROM (SELECT MAX(y) AS m FROM b) d WHERE d.m > 1) AS v FROM a",
    "SELECT a.k, (SELECT COUNT(*) FILTER (WHERE b.y > 1) FROM b WHERE b.k = a.k) AS n FROM a",
    "SELECT a.k, (SELECT COUNT(*) FILTER (WHERE b.y < a.x) FROM b) AS n FROM a",
    "SELECT a.k, (SELECT 1 FROM b HAVING COUNT(*) FILTER (WHERE b.y < a.x) > 1) AS n FROM a",
]
BY_PLACE = [
    "SELECT (SELECT MAX(b.y) FROM b) AS m, a.k, COUNT(*) AS n FROM a GROUP BY 2",
    "SELECT (SELECT MAX(b.y) FROM b) AS m, a.x, a.k FROM a GROUP BY 2, 3",
    "SELECT a.k, (SELECT MAX(b.y) FROM b WHERE b.k = a.k) AS m, a.x FROM a GROUP BY 1, 3",
]
UNITED = [
    "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k UNION ALL SELECT c.k FROM c WHERE c.z = a.x)",
    "SELECT a.k FROM a WHERE a.x NOT IN (SELECT b.x FROM b WHERE b.k = a.k UNION SELECT c.z FROM c WHERE c.k > a.k)",
    "SELECT a.k, a.x IN (SELECT b.x FROM b WHERE b.k = a.k UNION SELECT c.z FROM c UNION ALL SELECT 1) AS f FROM a",
    "SELECT a.k FROM a WHERE a.x > ALL (SELECT b.x FROM b WHERE b.k = a.k UNION SELECT c.z FROM c WHERE c.k = a.k)",
]
OVER_GROUPS = [
    "SELECT SUM(a.s) AS t FROM a GROUP BY k HAVING EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y < a.k)",
    "SELECT a.k, (SELECT MAX(b.x) FROM b WHERE b.k = a.k) AS m, COUNT(*) AS n FROM a GROUP BY a.k",
    "SELECT a.x AS y FROM a, b WHERE a.k = b.k GROUP BY a.x, b.y HAVING 1 < (SELECT MAX(z) FROM c WHERE k = b.y)",
    "SELECT a.x AS g, COUNT(*) AS n FROM a GROUP BY a.x HAVING g IN (SELECT c.z FROM c)",
    "SELECT COUNT(*) FROM a, b WHERE a.k = b.x GROUP BY a.k, b.k HAVING NOT EXISTS (SELECT 1 FROM c WHERE c.k = b.k)",
]


@pytest.mark.parametrize("text", FAR + OVER_GROUPS + BY_PLACE + UNITED)
def test_subquery_reads_the_query_around_it_anywhere(text: str) -> None:
    for seed in range(2):
        check_world(replace(make_world(seed), texts=[text]))


@pytest.mark.parametrize("text", ONE_ROW)
def test_aggregate_without_groups_has_a_row_where_nothing_is_found(text: str) -> None:
    for seed in range(3):
        check_world(replace(make_world(seed), texts=[text]))


@pytest.mark.parametrize("text", FORMS)
def test_form_of_other_engines_is_answered_as_by_duckdb(text: str) -> None:
    for seed in range(3):
        check_world(replace(make_world(seed), texts=[text]))


@pytest.mark.parametrize("seed", range(15))
def test_random_query_as_other_engines_write_it(seed: int) -> None:
    check_world(make_other(seed))


def test_view_of_constants_may_be_all_that_a_query_reads() -> None:
    session = make_world(0).session("never-made")
    session.view("v", "SELECT 1 AS i")
    session.view("w", "VALUES (1, 'a'), (1, 'b'), (2, 'c') ORDER BY 1 DESC")
    session.query("q", "SELECT v.i, w.col1 FROM v JOIN w ON w.col0 = v.i")
    trial = Trial(session)
    for _ in range(2):
        trial.feed({})
        assert sorted(trial.table("q").column("col1").to_pylist()) == ["a", "b"]


def test_what_is_read_at_many_places_is_looked_at_once() -> None:
    """Each join reads the one before it at two places: a walk of all ways would never end."""
    joined = " ".join(f"FULL JOIN a a{place} USING (k)" for place in range(40))
    query = make_world(0).session("never-made").query("q", f"SELECT COUNT(*) AS n FROM a {joined}")
    assert len(hidden({"q": query.query})) > 40


def test_what_subqueries_read_at_many_places_is_rewritten_once() -> None:
    """Each view reads the one before it at two places, and is no plain join."""
    session = make_world(0).session("never-made")
    session.view("v0", "SELECT k FROM a WHERE k IN (SELECT k FROM b)")
    for place in range(1, 16):
        read = f"v{place - 1}"
        joined = f"{read} p LEFT JOIN {read} q ON p.k = q.k + 1"
        session.view(f"v{place}", f"SELECT DISTINCT p.k FROM {joined} WHERE q.k IS NULL")
    assert len(hidden({"q": session.query("q", "SELECT k FROM v15").query})) > 15
