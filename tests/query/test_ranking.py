"""Numbers of rows: the answers are DuckDB's after every batch, little is kept, and what cannot be said is refused."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests.published import batches_of, in_duckdb
from tests.wide import check_world, make_world
from weft.testing import Trial, assert_same_rows

NAN, INF = float("nan"), float("inf")
ROWS = 60
TEXTS = [
    "SELECT g, id, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC, id) AS n FROM a QUALIFY n <= 3",
    "SELECT DISTINCT ON (g) g, id, x FROM a ORDER BY g, x DESC, id",
    "SELECT DISTINCT ON (1) g, x, MAX(id) AS m FROM a GROUP BY g, x ORDER BY 1, 2 NULLS FIRST",
    "SELECT d.g, a.id FROM (SELECT DISTINCT ON (g) g, id FROM a ORDER BY g, x, id) d JOIN a ON d.id = a.x",
    "SELECT DISTINCT ON (g) g, id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) > 1 ORDER BY g, id",
    "SELECT g, id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY (SELECT 1), x, id) = 1",
    """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY y DESC NULLS FIRST, s, id) AS rn FROM a) t
       WHERE rn = 1""",
    "SELECT * FROM (SELECT g, x, id, RANK() OVER (PARTITION BY g ORDER BY x) AS rn FROM a) WHERE rn < 4",
    "SELECT g, x, DENSE_RANK() OVER (PARTITION BY g ORDER BY x NULLS FIRST) AS r FROM a",
    "SELECT y, COUNT(*) AS n, RANK() OVER (ORDER BY y DESC) AS r FROM a GROUP BY 1",
    "SELECT g, x, id FROM a ORDER BY x DESC, id LIMIT 7",
    "SELECT s, id FROM a ORDER BY 1 DESC, id DESC LIMIT 7 OFFSET 3",
    "SELECT DISTINCT g, x FROM a ORDER BY x, g LIMIT 5",
    "SELECT g, SUM(x)::BIGINT AS t FROM a GROUP BY g ORDER BY t DESC, g LIMIT 3",
    """SELECT a.g, z, id, ROW_NUMBER() OVER (PARTITION BY z ORDER BY id, a.g, x) + 1 AS m
       FROM a JOIN b ON a.g = b.g AND z < x""",
    """SELECT a.id, t.z FROM a
       LEFT JOIN (SELECT g, z, ROW_NUMBER() OVER (PARTITION BY g ORDER BY z, g) AS n FROM b) t
       ON a.g = t.g AND t.n = 1""",
    """SELECT a.id, z, ROW_NUMBER() OVER (PARTITION BY id ORDER BY z, b.g) AS n FROM a LEFT JOIN b ON a.g = b.g
       QUALIFY n <= 2 AND z > 1""",
    """WITH r AS (SELECT g, id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) AS n FROM a)
       SELECT p.id, q.id AS before FROM r p JOIN r q ON p.g = q.g AND p.n = q.n + 1""",
    "SELECT g, id FROM a WHERE id IN (SELECT id FROM a ORDER BY x, id LIMIT 5)",
    "SELECT g FROM a UNION ALL SELECT z FROM b ORDER BY g LIMIT 9",
    """SELECT id, ROW_NUMBER() OVER (ORDER BY id) AS one, RANK() OVER (PARTITION BY g ORDER BY x) AS two FROM a
       QUALIFY one < 40 AND two <= 3""",
    "SELECT g, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x) AS n FROM a",
    """SELECT x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x, id) AS n, (SELECT MAX(z) FROM b WHERE b.g = a.g) AS m
       FROM a QUALIFY n <= 2""",
    """SELECT g, COUNT(*) AS n FROM (SELECT g, id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY x ORDER BY id) = 1) t
       GROUP BY g""",
    "SELECT id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY x, id) BETWEEN 2 AND 4 AND x IS NOT NULL",
    "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.g = a.g) ORDER BY x, id FETCH FIRST 4 ROWS ONLY",
    "SELECT id FROM a QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY id) <= 2 ORDER BY id DESC LIMIT 3",
    "SELECT id, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x, id) AS n FROM a ORDER BY n DESC, 1 LIMIT 4",
    "SELECT * FROM a ORDER BY 2 DESC NULLS FIRST, 4 LIMIT 4",
    "SELECT g, x FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY id DESC) AS x FROM a) WHERE x <= 3",
    "SELECT t.x FROM (SELECT x, ROW_NUMBER() OVER (ORDER BY id DESC) AS x FROM a) t WHERE t.x BETWEEN 2 AND 5",
    """SELECT n FROM (SELECT ROW_NUMBER() OVER (ORDER BY id) AS n, ROW_NUMBER() OVER (ORDER BY id DESC) AS n FROM a)
       WHERE n <= 3""",
    "SELECT g, id, ROW_NUMBER() OVER (ORDER BY id DESC) AS x FROM a QUALIFY x <= 3",
    "SELECT DISTINCT g, ROW_NUMBER() OVER (ORDER BY id DESC) AS x FROM a QUALIFY x <= 3",
    "SELECT id, COUNT(*) OVER (PARTITION BY g ORDER BY y) AS n FROM a",
    "SELECT id, MAX(id) OVER (ORDER BY y DESC NULLS FIRST, g) AS n FROM a",
    "SELECT g, -x AS x, ROW_NUMBER() OVER (ORDER BY id DESC) AS n FROM a QUALIFY x > 2 AND n < 30",
    "SELECT id, SUM(x) OVER w AS s, ROW_NUMBER() OVER (W) AS n FROM a WINDOW w AS (PARTITION BY g ORDER BY id)",
    """SELECT id, SUM(x) OVER (w ORDER BY id ROWS 1 PRECEDING) AS s, coalesce(MAX(x) OVER w, 0) AS m
       FROM a WINDOW w AS (PARTITION BY g), v AS (w ORDER BY id) QUALIFY COUNT(*) OVER v <= 4""",
    """SELECT n, RANK() OVER w AS r FROM (SELECT COUNT(*) OVER w AS n FROM a WINDOW w AS (PARTITION BY g)) t
       WINDOW w AS (ORDER BY n DESC)""",
    "SELECT g, SUM(x) AS s, RANK() OVER w AS r FROM a GROUP BY g HAVING g > 0 WINDOW w AS (ORDER BY SUM(x), g)",
    """SELECT SUM(x) OVER w AS s FROM a WINDOW w AS (PARTITION BY g)
       UNION ALL SELECT SUM(z) OVER w FROM b WINDOW w AS (ORDER BY g) ORDER BY s DESC LIMIT 20""",
    "SELECT id, RANK() OVER (ORDER BY y ROWS UNBOUNDED PRECEDING) AS r FROM a",
    "SELECT id, PERCENT_RANK() OVER (PARTITION BY g ORDER BY x) AS p, CUME_DIST() OVER (ORDER BY y) AS c FROM a",
    "SELECT id, NTILE(3) OVER (PARTITION BY g ORDER BY id) AS a, NTILE(100) OVER (ORDER BY id) AS b FROM a",
    "SELECT id, NTILE(g + 1) OVER (ORDER BY id DESC) AS n FROM a WHERE g IS NOT NULL QUALIFY n < 3",
    """SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY x RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING) AS s,
       COUNT(*) OVER (ORDER BY x DESC NULLS FIRST RANGE BETWEEN 3 PRECEDING AND UNBOUNDED FOLLOWING) AS n FROM a""",
    """SELECT id, COUNT(*) OVER (ORDER BY y DESC RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) AS s,
       COUNT(*) OVER (ORDER BY y NULLS FIRST RANGE BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING) AS n,
       SUM(id) OVER (ORDER BY y RANGE CURRENT ROW) AS c FROM a""",
    """SELECT id, SUM(x) OVER (ORDER BY id ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING) AS s,
       COUNT(*) OVER (PARTITION BY g ORDER BY id ROWS BETWEEN 2 FOLLOWING AND UNBOUNDED FOLLOWING) AS n FROM a""",
    """SELECT id, SUM(id) FILTER (WHERE x > 2) OVER (ORDER BY x RANGE BETWEEN 3 PRECEDING AND 1 PRECEDING) AS s,
       COUNT(*) OVER (PARTITION BY g ORDER BY x DESC RANGE BETWEEN 1 FOLLOWING AND 2 FOLLOWING) AS n FROM a""",
    """SELECT id, SUM(x) OVER (PARTITION BY g ORDER BY y GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS s,
       COUNT(*) OVER (ORDER BY x DESC NULLS FIRST GROUPS BETWEEN 2 PRECEDING AND 1 PRECEDING) AS n FROM a""",
    """SELECT id, SUM(id) OVER (ORDER BY make_timestamp(id * 1000000)
       RANGE BETWEEN INTERVAL '10' SECOND PRECEDING AND CURRENT ROW) AS s FROM a""",
    """SELECT id, SUM(id) OVER (PARTITION BY g ORDER BY make_date(2020, 1, 1 + id % 20) DESC
       RANGE BETWEEN INTERVAL '3' DAY PRECEDING AND INTERVAL 1 DAY FOLLOWING) AS s FROM a""",
    "SELECT y, CUME_DIST() OVER (ORDER BY COUNT(*)) AS c, PERCENT_RANK() OVER () AS p FROM a GROUP BY y",
]


def tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(5)

    def whole(limit: int, rows: int) -> pa.Array:
        return pa.array([None if rng.random() < 0.1 else int(value) for value in rng.integers(0, limit, rows)])

    floats = [[1.5, NAN, -0.0, 0.0, 7.25, INF, None][at] for at in rng.integers(0, 7, ROWS)]
    a = {"g": whole(5, ROWS), "x": whole(12, ROWS), "y": pa.array(floats), "id": range(ROWS)}
    a["s"] = pa.array([f"s{value}" for value in rng.integers(0, 20, ROWS)])
    return {"a": pa.table(a), "b": pa.table({"g": whole(5, 20), "z": whole(9, 20)})}


def open_session(folder: Path | str, **how: object) -> weft.Session:
    session = weft.Session(folder, workers=2, progress=False)
    for name, table in tables().items():
        session.stream(name, weft.read.batches([table.slice(0, 0)]), **how)  # type: ignore[arg-type]
    return session


def test_numbers_of_rows_are_those_of_duckdb_after_every_batch() -> None:
    session = open_session("never-made")
    for place, text in enumerate(TEXTS):
        session.query(f"q{place}", text, cross_product=True)
    trial, seen = Trial(session), {name: table.slice(0, 0) for name, table in tables().items()}
    for batch in batches_of(tables(), 3):
        trial.feed(batch)
        seen = {name: pa.concat_tables([seen[name], table]) for name, table in batch.items()}
        for place, text in enumerate(TEXTS):
            found = trial.table(f"q{place}")
            assert_same_rows(found, in_duckdb(text, seen).cast(found.schema), f"{text}: ")


@pytest.mark.fuzz
def test_random_queries_of_all_kinds_over_streams_that_change() -> None:
    for seed in range(7000, 7008):
        check_world(make_world(seed))


BEST = "SELECT g, x, ROW_NUMBER() OVER (PARTITION BY g ORDER BY x DESC) AS n FROM a QUALIFY n <= 2"


def changing(text: str, folder: str | Path = "never-made") -> weft.Session:
    session = weft.Session(folder, workers=2, progress=False)
    session.stream("a", weft.read.batches([changes()]), changes="op")
    session.query("q", text)
    return session


def changes(*rows: tuple[str, int, int]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    return pa.table(columns, pa.schema([("op", pa.string()), ("g", pa.int64()), ("x", pa.int64())]))


def test_row_that_goes_brings_up_the_next() -> None:
    trial = Trial(changing(BEST))
    trial.feed({"a": changes(("insert", 1, 5), ("insert", 1, 7), ("insert", 1, 9), ("insert", 2, 1))})
    assert answer(trial) == [(1, 7, 2), (1, 9, 1), (2, 1, 1)]
    trial.feed({"a": changes(("delete", 1, 9))})
    assert answer(trial) == [(1, 5, 2), (1, 7, 1), (2, 1, 1)]
    trial.feed({"a": changes(("delete", 1, 7), ("delete", 2, 1), ("delete", 1, 5))})
    assert answer(trial) == []


def test_row_taken_back_before_it_comes_has_no_number() -> None:
    trial = Trial(changing(BEST))
    trial.feed({"a": changes(("delete", 1, 9), ("insert", 1, 5))})
    assert answer(trial) == [(1, 5, 1)]
    trial.feed({"a": changes(("insert", 1, 9), ("insert", 1, 9))})
    assert answer(trial) == [(1, 5, 2), (1, 9, 1)]


def answer(trial: Trial, name: str = "q") -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in trial.table(name).to_pylist())


def test_equal_rows_have_numbers_of_their_own_or_the_same_rank() -> None:
    row = pa.table({"g": [1], "x": [3], "y": [1.0], "id": [0], "s": ["a"]})
    session = open_session("never-made")
    session.query("number", "SELECT x, ROW_NUMBER() OVER (ORDER BY x) AS n FROM a QUALIFY n <= 2")
    session.query("place", "SELECT x, RANK() OVER (ORDER BY x) AS n FROM a")
    session.query("dense", "SELECT x, DENSE_RANK() OVER (ORDER BY x) AS n FROM a")
    trial, more = Trial(session), row.set_column(1, "x", pa.array([4]))
    trial.feed({"a": pa.concat_tables([row, row, more])})
    assert answer(trial, "number") == [(3, 1), (3, 2)]
    assert answer(trial, "place") == [(3, 1), (3, 1), (4, 3)]
    assert answer(trial, "dense") == [(3, 1), (3, 1), (4, 2)]


@pytest.mark.parametrize("text", [BEST, f"SELECT * FROM ({BEST.split(' QUALIFY')[0]}) t WHERE t.n = 2"])
def test_only_rows_with_a_number_that_is_read_are_kept_where_none_goes(text: str, tmp_path: Path) -> None:
    session = open_session(tmp_path)
    session.query("q", text)
    trial = Trial(session, state=tmp_path)
    for batch in batches_of(tables(), 3):
        trial.feed(batch)
    kept = next(emit.groups.store for emit in trial.topology.emits if emit.into and emit.groups is not None)
    assert 0 < trial.state_rows[kept] <= 3 * 2 * 6, "two rows of each group, of each batch at most"


def test_numbers_stay_right_when_workers_and_queries_change(tmp_path: Path) -> None:
    rng, here = random.Random(3), list[tuple[int, int]]()
    session = changing(BEST, tmp_path)
    trial = Trial(session, state=session.checkpoint.root)
    for number in range(6):
        new = [(rng.randrange(3), rng.randrange(6)) for _ in range(5)]
        gone = [here.pop(rng.randrange(len(here))) for _ in range(len(here) // 3)]
        here += new
        trial.feed({"a": changes(*(("insert", *row) for row in new), *(("delete", *row) for row in gone))})
        if number == 2:
            session.rescale(3)
            session.query("late", f"SELECT t.g, t.n + 1 AS m FROM ({BEST}) t WHERE t.g < 2")
            trial.change()
        for name in session.queries:
            data = pa.table({"g": [g for g, _ in here], "x": [x for _, x in here]})
            text = BEST if name == "q" else session.queries[name].text
            found = trial.table(name)
            assert_same_rows(found, in_duckdb(text, {"a": data}).cast(found.schema), f"{name}, batch {number}: ")


REFUSED = [
    ("SELECT id FROM a WHERE ROW_NUMBER() OVER (ORDER BY id) < 3", "cannot stand in WHERE", "write QUALIFY"),
    ("SELECT g FROM a GROUP BY g HAVING RANK() OVER (ORDER BY g) < 3", "cannot stand in HAVING", "write QUALIFY"),
    ("SELECT COUNT(RANK() OVER (ORDER BY g)) AS n FROM a", "the number of a row", "derived table"),
    ("SELECT id FROM a ORDER BY 2 LIMIT 3", "ORDER BY 2 means no output", "write the expression"),
    ("SELECT id FROM a ORDER BY nothing LIMIT 3", 'no column "nothing"', "columns are"),
    ("SELECT id, NTH_VALUE(x, 2) OVER (PARTITION BY id) AS l FROM a", "depends on an order", "ORDER BY"),
    ("SELECT id FROM a ORDER BY id", "ORDER BY is not supported without LIMIT", "LIMIT n"),
    ("SELECT id FROM a LIMIT 5", "LIMIT is not supported without ORDER BY", "ORDER BY column LIMIT n"),
]


@pytest.mark.parametrize(("text", "said", "cure"), REFUSED)
def test_what_cannot_be_numbered_is_refused_with_a_cure(text: str, said: str, cure: str) -> None:
    with pytest.raises(weft.WeftError) as caught:
        open_session("never-made").query("q", text)
    assert said in caught.value.message
    assert "^" in str(caught.value.detail)
    assert cure in str(caught.value)
