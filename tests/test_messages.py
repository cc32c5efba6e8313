"""Messages fit the case: what differs, what to write instead, and a traceback once."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.host.state import difference
from weft.host.state.difference import say_difference
from weft.query.aggregates import NOT_DONE
from weft.query.calls import is_built_in
from weft.query.elsewhere import ELSEWHERE
from weft.testing import Trial

ROWS = pa.table({"k": [1, 2], "v": [3, 4], "t": pa.array([0, 1], pa.timestamp("us"))})


def session(root: Path | str, rows: pa.Table = ROWS) -> weft.Session:
    s = weft.Session(root, workers=1)
    for name in "ab":
        s.stream(name, weft.read.batches([rows]), event_time="t")
    return s


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (ROWS, "weft.read.batches([table])"),
        ([ROWS], "weft.read.batches([table, ...])"),
        (ROWS.to_batches()[0], "weft.read.batches([table])"),
        (ROWS.to_pandas(), "pyarrow.Table.from_pandas(df)"),
        (["a.parquet", "b.parquet"], 'weft.read.parquet("in/*.parquet")'),
        ("in/orders", 'weft.read.parquet("in/orders")'),
        (Path("in/orders"), 'weft.read.parquet("in/orders")'),
        (7, "use a Spark streaming DataFrame"),
    ],
)
def test_what_is_no_source_is_told_how_to_become_one(given: object, hint: str) -> None:
    with pytest.raises(weft.QueryError, match='source of stream "a" is a') as error:
        weft.Session("unused").stream("a", given)
    assert hint in (error.value.hint or "")


def test_a_list_of_files_and_a_bare_table_are_told_what_to_write() -> None:
    with pytest.raises(weft.SourceError, match="path of a source is a list") as error:
        weft.read.parquet(["a", "b"])  # type: ignore[arg-type]
    assert "pattern" in (error.value.hint or "")
    with pytest.raises(weft.SourceError, match="not a list of tables") as error:
        weft.read.batches(ROWS)  # type: ignore[arg-type]
    assert "weft.read.batches([table])" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("SELECT a.k FROM a JOIN b ON a.k = b.k AND a.t > b.t + 5", "+ INTERVAL '5' SECOND"),
        ("SELECT a.k FROM a JOIN b ON a.k = b.k AND a.t > b.t - 5", "- INTERVAL '5' SECOND"),
        ("SELECT a.k FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '5' MINUTE WHERE a.v > 1", "move it to the end"),
        ("SELECT a.k FROM a JOIN b ON a.k = b.k WITHIN INTERVAL '5' MINUTE AND a.v > 1", "move it to the end"),
        ("SELECT x.k FROM a WITHIN INTERVAL '5' MINUTE x JOIN b ON x.k = b.k", "write the alias before it"),
        ("SELECT a.k WITHIN INTERVAL '5' MINUTE FROM a JOIN b ON a.k = b.k", "directly after a stream and its alias"),
        ("SELECT a.zzz FROM a", "name one of these columns"),
        ("SELECT zzz FROM a JOIN b ON a.k = b.k", "name one of these columns"),
        (f"SELECT {'(' * 300}a.k{')' * 300} FROM a", "as derived tables or views"),
        (f"SELECT {'+'.join(['a.k'] * 2000)} FROM a", "as derived tables or views"),
    ],
)
def test_hints_fit_the_mistake(sql: str, hint: str) -> None:
    with pytest.raises(weft.WeftError) as error:
        session("unused").query("q", sql)
    assert hint in (error.value.hint or "")


def test_a_session_that_differs_shows_what_differs_and_not_the_whole_twice(tmp_path: Path) -> None:
    sql = "SELECT a.k, b.v FROM a JOIN b ON a.k = b.k WHERE a.v > {} AND b.v < 100 WITHIN INTERVAL '5' MINUTE"
    s = session(tmp_path / "state")
    s.query("q", sql.format(1)).to_memory()
    Trial(s, state=tmp_path / "state").feed({"a": ROWS, "b": ROWS})
    s = session(tmp_path / "state", ROWS.append_column("w", ROWS["k"]))
    s.query("q", sql.format(2)).to_memory()
    with pytest.raises(weft.StateError) as error:
        s.check()
    assert error.value.detail == (
        "what differs:\n"
        '  stream "a", columns: this session also has w int64; the rest is the same\n'
        '  stream "b", columns: this session also has w int64; the rest is the same\n'
        '  query "q", where: the checkpoint has a.v > 1, this session a.v > 2; the rest is the same'
    )


def test_differences_of_texts() -> None:
    assert doctest.testmod(difference).failed == 0
    assert say_difference(None, "x") == "the checkpoint has none, this session x"
    assert say_difference("a, b", "b, a").startswith("the same parts in another order")
    assert say_difference("f(a, b), c", "f(a, d), c") == (
        "the checkpoint has f(a, b), this session f(a, d); the rest is the same"
    )
    assert "'x, y'" in say_difference("a = 'x, y' AND b", "b")


def explode(x: pa.Array, y: pa.Array) -> pa.Array:
    """Fails on one row only."""
    if 4 in x.to_pylist():
        raise ValueError(f"no fours: {y.to_pylist()}")
    return pa.array([True] * len(x))


def test_the_traceback_of_a_function_comes_once_with_the_row() -> None:
    s = session("unused")
    s.function("explode", explode)
    s.query("q", "SELECT a.k FROM a, b WHERE explode(a.v, b.v)")
    with pytest.raises(weft.QueryError, match=r'^function "explode" failed: ValueError: no fours') as error:
        Trial(s).feed({"a": ROWS, "b": ROWS})
    detail = error.value.detail or ""
    assert detail.count("Traceback") == 1
    assert detail.count("in explode") == 1
    assert "weft/" not in detail
    assert detail.startswith("it fails on the arguments (4, ")


@pytest.mark.parametrize("workers", [0, 10**6, 10**20])
def test_a_number_of_workers_that_nobody_has_is_refused(workers: int) -> None:
    with pytest.raises(weft.PlanError, match=f"workers is {workers}"):
        weft.Session("unused", workers=workers)


def test_a_folder_takes_the_results_of_one_sink(tmp_path: Path) -> None:
    s = session(tmp_path / "state")
    s.query("p", "SELECT a.k FROM a").to_parquet(tmp_path / "out")
    q = s.query("q", "SELECT b.v FROM b").to_parquet(tmp_path / "other" / ".." / "out")
    with pytest.raises(weft.SinkError, match="two sinks write into folder") as error:
        s.check()
    assert error.value.detail == 'one is of query "p", one of query "q".'
    s.drop("p")
    q.to_parquet(tmp_path / "more")
    s.check()


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_function_of_another_system_comes_with_what_to_write(name: str) -> None:
    assert not (is_built_in(name) and name not in NOT_DONE)
    named = re.findall(r"([A-Za-z_]+)\(", ELSEWHERE[name])
    assert [other for other in named if not is_built_in(other) and other not in ("UNNEST", "LAG")] == []
    with pytest.raises(weft.QueryError) as error:
        session("unused").query("q", f"SELECT {name}(a.k) FROM a")
    assert ELSEWHERE[name] in str(error.value.hint)


def test_a_stream_with_more_columns_than_before_is_told_of_the_schema(tmp_path: Path) -> None:
    for rows, fails in ((ROWS, False), (ROWS.append_column("w", ROWS["k"]), True)):
        s = session(tmp_path / "state", rows)
        s.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k").to_memory()
        if not fails:
            Trial(s, state=tmp_path / "state").feed({"a": rows, "b": rows})
    with pytest.raises(weft.StateError) as error:
        s.check()
    assert (error.value.hint or "").startswith("declare the columns that the checkpoint has, by schema=")


def test_a_column_that_holds_only_nulls_is_named(tmp_path: Path) -> None:
    (tmp_path / "1.json").write_text('{"k": 1, "z": null}\n')
    for sql in (
        "SELECT * FROM a",
        "SELECT z FROM a QUALIFY ROW_NUMBER() OVER (ORDER BY k) = 1",
    ):
        s = weft.Session("unused")
        s.stream("a", weft.read.json(tmp_path))
        with pytest.raises(weft.QueryError, match='column "z" has no type') as error:
            s.query("q", sql)
        assert "schema=" in (error.value.hint or "")


def test_text_that_is_no_number_is_told_of_try_cast() -> None:
    rows = pa.table({"k": ["1", "x"]})
    s = weft.Session("unused", workers=1)
    s.stream("a", weft.read.batches([rows]))
    s.query("q", "SELECT CAST(k AS INT) AS n FROM a").to_memory()
    with pytest.raises(weft.QueryError, match="cannot compute CAST") as error:
        Trial(s).feed({"a": rows})
    cure = re.search(r"TRY_CAST\(.*\)", error.value.hint or "")
    assert cure is not None
    t = weft.Session("unused", workers=1)
    t.stream("a", weft.read.batches([rows]))
    t.query("q", f"SELECT {cure[0].replace('x', 'k').replace('type', 'INT')} AS n FROM a").to_memory()
    trial = Trial(t)
    trial.feed({"a": rows})
    assert sorted(trial.table("q")["n"].to_pylist(), key=str) == [1, None]
