"""ASOF joins: after every batch the answer is DuckDB's to the same text over the rows so far."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import weft
from weft import col, from_, rel
from weft.errors import WeftError
from weft.host.groups.view import read_view
from weft.query.grouping import OP
from weft.testing import Trial

LEFT = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("x", pa.int64())])
RIGHT = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("y", pa.int64())])
Batch = dict[str, pa.Table]


def left(*rows: tuple[int | None, int | None, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(LEFT.names, row, strict=True)) for row in rows], LEFT)


def right(*rows: tuple[int | None, int | None, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(RIGHT.names, row, strict=True)) for row in rows], RIGHT)


def batches(rng: random.Random, count: int = 5) -> list[Batch]:
    """Rows with NULLs; of the right sides none has the key and the time of another."""
    used: set[tuple[str, int | None, int | None]] = set()

    def row() -> tuple[int | None, int | None, int]:
        return rng.choice((0, 1, 2, None)), rng.choice((None, *range(20), *range(20))), rng.randrange(100)

    def fresh(name: str) -> pa.Table:
        rows = [row() for _ in range(rng.randrange(7))]
        kept = [one for one in rows if (name, *one[:2]) not in used and not used.add((name, *one[:2]))]
        return right(*kept)

    return [
        {"a": left(*(row() for _ in range(rng.randrange(7)))), "b": fresh("b"), "c": fresh("c")} for _ in range(count)
    ]


def session(*, checkpoint: Path | str = "never-made", workers: int = 2) -> weft.Session:
    s = weft.Session(checkpoint, workers=workers)
    s.stream("a", weft.read.batches([left()]))
    for name in ("b", "c"):
        s.stream(name, weft.read.batches([right()]))
    return s


def wanted(text: str, fed: Sequence[Batch]) -> list[str]:
    with duckdb.connect(config={"threads": 1}) as con:
        for name in fed[0]:
            con.register(name, pa.concat_tables([batch[name] for batch in fed]))
        return sorted(map(str, con.sql(text).fetchall()))


def found(trial: Trial, name: str = "q") -> list[str]:
    return sorted(str(tuple(row.values())) for row in trial.table(name).to_pylist())


def kept(trial: Trial, name: str = "q") -> list[str]:
    """The view as the state has it."""
    run = trial.running
    rows = read_view(run.topology.emit_of[name], run.topology, {}, run.manifest.segments, run.state)
    return sorted(str(tuple(row.values())) for row in rows.drop_columns([OP]).to_pylist())


def random_text(rng: random.Random) -> str:
    kind = rng.choice(("", "", "LEFT ", "LEFT ", "SEMI ", "ANTI "))
    op = rng.choice((">=", ">", "<=", "<"))
    turned = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}[op]
    on = [rng.choice((f"a.ts {op} b.ts", f"b.ts {turned} a.ts", f"a.ts + 1 {op} b.ts"))]
    on += rng.choice((["a.k = b.k"], ["b.k = a.k"], ["a.k = b.k + 1"], ["a.k = b.k", "a.x % 2 = b.y % 2"], ["b.k = 1"]))
    on += rng.choice(([], [], ["b.y > 30"], ["a.x > 20"]))
    shown = "a.k, a.ts, a.x" + ("" if kind in ("SEMI ", "ANTI ") else ", b.ts, b.y")
    more = rng.choice(("", "", " JOIN c ON c.k = a.k", " ASOF LEFT JOIN c ON c.k = a.k AND c.ts < a.ts"))
    if more:
        shown += ", c.y AS cy"
    where = "" if kind or rng.random() < 0.7 else " WHERE b.y < 60"
    text = f"FROM a ASOF {kind}JOIN b ON {' AND '.join(on)}{more}{where}"
    if rng.random() < 0.2:
        return f"SELECT a.x % 3 AS g, COUNT(*) AS n {text} GROUP BY 1"
    return f"SELECT {shown} {text}"


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 10, 5))
def test_random_asof_joins_answer_what_duckdb_answers_after_every_batch(start: int) -> None:
    answers = 0
    for seed in range(start, start + 5):
        rng = random.Random(seed)
        text, fed = random_text(rng), batches(rng)
        s = session(workers=rng.randint(1, 3))
        s.query("q", text, cross_product=True, strategy=rng.choice(("auto", "flat", "left_deep")))
        trial = Trial(s)
        for number, batch in enumerate(fed):
            trial.feed(batch)
            answer = wanted(text, fed[: number + 1])
            assert found(trial) == answer, (seed, number, text)
        answers += len(answer)
    assert answers > 20, "the cases of this chunk join next to nothing"


def test_a_later_row_takes_the_place_of_the_partner() -> None:
    s = session()
    s.query("q", "SELECT a.x, b.y FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts")
    trial = Trial(s)
    trial.feed({"a": left((1, 10, 7)), "b": right((1, 4, 40))})
    assert found(trial) == ["(7, 40)"]
    trial.feed({"b": right((1, 9, 90), (1, 11, 110))})
    assert found(trial) == ["(7, 90)"]


def test_of_several_rows_with_one_time_the_greatest_counts_whenever_it_came() -> None:
    for first, second in (((1, 4, 40), (1, 4, 41)), ((1, 4, 41), (1, 4, 40))):
        s = session()
        s.query("q", "SELECT a.x, b.y FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts")
        trial = Trial(s)
        trial.feed({"a": left((1, 10, 7)), "b": right(first)})
        trial.feed({"b": right(second, second)})
        assert found(trial) == ["(7, 41)"]


def test_rows_that_are_taken_back_give_their_place_to_the_one_before() -> None:
    changing = pa.schema([*RIGHT, ("op", pa.int64())])

    def changed(*rows: tuple[int, int, int, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(changing.names, row, strict=True)) for row in rows], changing)

    s = weft.Session("never-made", workers=2)
    s.stream("a", weft.read.batches([left()]))
    s.stream("b", weft.read.batches([changed()]), changes="op")
    s.query("q", "SELECT a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts >= b.ts")
    trial = Trial(s)
    trial.feed({"a": left((1, 10, 7)), "b": changed((1, 4, 40, 1), (1, 9, 90, 1))})
    assert found(trial) == ["(7, 90)"]
    trial.feed({"b": changed((1, 9, 90, -1))})
    assert found(trial) == ["(7, 40)"]
    trial.feed({"b": changed((1, 4, 40, -1))})
    assert found(trial) == ["(7, None)"]


@pytest.mark.parametrize("op", [">=", ">", "<=", "<"])
@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.timestamp("us"), pa.date32(), pa.int32(), pa.int64()])
def test_times_of_any_type_are_compared_up_to_their_ends(op: str, kind: pa.DataType) -> None:
    values: list[float] = [-5, 0, 1, 2, 3, 7]
    if pa.types.is_floating(kind):
        values += [float("inf"), float("-inf"), float("nan"), 2.5, -0.0]
    elif pa.types.is_integer(kind):
        top = 2 ** (kind.bit_width - 1)
        values += [top - 1, -top]
    numbers = pa.array(values, kind if pa.types.is_floating(kind) else pa.int64())
    whole = numbers if pa.types.is_floating(kind) else numbers.cast(pa.int32() if kind == pa.date32() else pa.int64())
    times = pa.concat_arrays([whole.cast(kind), pa.nulls(1, kind)])
    a = pa.table({"ts": times, "x": pa.array(range(len(times)))})
    b = pa.table({"ts": times.take(pa.array([0, 2, 3, len(times) - 2, len(times) - 3])), "y": pa.array(range(5))})
    s = weft.Session("never-made", workers=2)
    s.stream("a", weft.read.batches([a]))
    s.stream("b", weft.read.batches([b]))
    text = f"SELECT a.x, b.y FROM a ASOF LEFT JOIN b ON a.ts {op} b.ts"
    s.query("q", text)
    trial = Trial(s)
    trial.feed({"a": a, "b": b.slice(0, 2)})
    trial.feed({"b": b.slice(2)})
    real = {"a": a, "b": b}
    if pa.types.is_floating(kind):  # NaN matches nothing here, in DuckDB it is the greatest number
        real = {name: table.set_column(0, "ts", _without_nan(table["ts"])) for name, table in real.items()}
    assert found(trial) == wanted(text, [real])


def _without_nan(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([None if v is None or v != v else v for v in column.to_pylist()], column.type)


def test_times_of_different_types_are_compared_in_the_wider_one() -> None:
    a = pa.table({"ts": [0.5, 1.0, 9.5, 10.0], "x": [1, 2, 3, 4]})
    s = weft.Session("never-made", workers=2)
    s.stream("a", weft.read.batches([a]))
    s.stream("b", weft.read.batches([right()]))
    text = "SELECT a.x, b.y FROM a ASOF LEFT JOIN b ON a.ts >= b.ts"
    s.query("q", text)
    trial = Trial(s)
    b = right((1, 1, 1), (1, 10, 2))
    trial.feed({"a": a, "b": b})
    assert found(trial) == wanted(text, [{"a": a, "b": b}])


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a ASOF JOIN b USING (k, ts)",
        "SELECT * FROM a ASOF LEFT JOIN b USING (k, ts)",
        "SELECT a.x, d.n FROM a ASOF JOIN (SELECT k, ts, y + 1 AS n FROM b WHERE y > 3) d ON d.k = a.k AND d.ts < a.ts",
        "WITH p AS (SELECT a.k, a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts >= b.ts) SELECT * FROM p",
        "SELECT one.y, two.y AS other FROM b one ASOF LEFT JOIN b two ON one.k = two.k AND one.ts > two.ts",
        "SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM b ASOF JOIN c ON b.k = c.k AND b.ts >= c.ts WHERE b.k = a.k)",
        "SELECT a.x, b.y FROM a ASOF LEFT OUTER JOIN b ON a.k = b.k AND a.ts >= b.ts WHERE b.y IS NULL OR b.y > 50",
        "SELECT a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts >= b.ts LEFT JOIN c ON c.k = b.k AND c.y > b.y",
    ],
)
def test_these_mean_what_they_mean_in_duckdb(text: str) -> None:
    s = session()
    s.query("q", text)
    trial, fed = Trial(s), batches(random.Random(3))
    for number, batch in enumerate(fed):
        trial.feed(batch)
        assert found(trial) == wanted(text, fed[: number + 1])


def test_a_session_that_ends_goes_on_with_other_workers_and_another_query(tmp_path: Path) -> None:
    text = "SELECT a.x, b.y FROM a ASOF LEFT JOIN b ON a.k = b.k AND a.ts >= b.ts"
    more = "SELECT a.x, c.y FROM a ASOF JOIN c ON a.k = c.k AND a.ts < c.ts"
    fed = batches(random.Random(5), 6)
    for number, batch in enumerate(fed):
        s = session(checkpoint=tmp_path / "state", workers=1 + number // 2)
        s.query("q", text)
        s.query("kept", "SELECT a.k, a.x, a.ts, c.k AS ck, c.ts AS cts, c.y FROM a JOIN c ON a.k = c.k")
        if number >= 3:
            s.query("more", more)
        trial = Trial(s, state=tmp_path / "state")
        trial.feed(batch)
        assert kept(trial) == wanted(text, fed[: number + 1])
    assert kept(trial, "more") == wanted(more, fed)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT a.x FROM a ASOF JOIN b ON a.k = b.k", "compares no times"),
        ("SELECT a.x FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts AND a.x < b.y", "more than one comparison"),
        ("SELECT a.x FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.ts AND a.x <> b.y", "cannot stand in an ASOF"),
        ("SELECT a.x FROM a ASOF JOIN (b JOIN c ON b.k = c.k) ON a.ts >= b.ts", "is a join"),
        ("SELECT a.x FROM a ASOF RIGHT JOIN b ON a.ts >= b.ts", "ASOF RIGHT joins"),
        ("SELECT a.x FROM a ASOF FULL JOIN b ON a.ts >= b.ts", "ASOF FULL joins"),
        ("SELECT a.x FROM a ASOF b ON a.ts >= b.ts", "JOIN is missing behind ASOF"),
        ("SELECT a.x FROM a ASOF JOIN b ON CAST(a.ts AS VARCHAR) >= CAST(b.ts AS VARCHAR)", "follow each other"),
    ],
)
def test_what_is_no_asof_join_is_refused_with_a_cure(text: str, said: str) -> None:
    with pytest.raises(WeftError, match=said) as caught:
        session().query("q", text)
    assert caught.value.hint
    assert "^" in str(caught.value)


def test_the_builder_has_asof_joins() -> None:
    s = session()
    conditions = (col("a.k") == col("b.k"), "a.ts >= b.ts")
    built = s.query("built", from_(rel("a")).asof_join(rel("b"), *conditions).select("a.x", "b.y"))
    padded = s.query("padded", from_(rel("a")).asof_left_join(rel("b"), *conditions).select("a.x", "b.y"))
    on = "ON a.k = b.k AND a.ts >= b.ts"
    assert built.query == s.query("one", f"SELECT a.x, b.y FROM a ASOF JOIN b {on}").query
    assert padded.query == s.query("two", f"SELECT a.x, b.y FROM a ASOF LEFT JOIN b {on}").query
