"""Arguments of the wrong kind are refused where they are given, by errors of Weft."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import PlanError, QueryError, SinkError, SourceError

TABLE = pa.table({"k": [1]})


@pytest.mark.parametrize("workers", [0, 1.5, "2", True])
def test_workers_is_a_whole_number(workers: Any) -> None:
    with pytest.raises(PlanError, match="workers is"):
        weft.Session(checkpoint="unused", workers=workers)


def test_spark_is_a_session() -> None:
    with pytest.raises(PlanError, match="spark is a int"):
        weft.Session("unused", 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("max_files", [0, "3", 1.5])
def test_max_files_is_a_whole_number(max_files: Any) -> None:
    with pytest.raises(SourceError, match="max_files is"):
        weft.read.parquet("nowhere", max_files=max_files)


@pytest.mark.parametrize("given", [TABLE, [{"k": [1]}], [TABLE, None]])
def test_batches_are_tables(given: Any) -> None:
    with pytest.raises(SourceError, match=r"batch \d is a |not a list of tables"):
        weft.read.batches(given)


def test_a_function_is_registered_once_whatever_the_case() -> None:
    s = weft.Session(checkpoint="unused", workers=1)
    s.function("near", lambda a: a, pa.int64())
    with pytest.raises(QueryError, match='function "near" exists already'):
        s.function("Near", lambda a: a, pa.int64())


@pytest.mark.parametrize("name", ["lower", "LOWER", "ceiling", "cast", "extract", "if", "count", "date_part", "window"])
def test_a_function_must_not_hide_one_of_sql(name: str) -> None:
    with pytest.raises(QueryError, match="is a function of SQL") as caught:
        weft.Session("never-made").function(name, lambda a: a)
    assert f'"my_{name}"' in str(caught.value.hint)


def test_foreach_batch_needs_a_function() -> None:
    s = weft.Session(checkpoint="unused", workers=1)
    s.stream("a", weft.read.batches([TABLE]))
    with pytest.raises(SinkError, match="not a NoneType"):
        s.query("q", "SELECT a.k FROM a").foreach_batch(None)  # type: ignore[arg-type]


def test_what_a_session_holds_can_be_read_and_not_changed() -> None:
    s = weft.Session(checkpoint="unused", workers=1)
    s.stream("a", source := weft.read.batches([TABLE]))
    q = s.query("q", "SELECT a.k FROM a")
    assert s.queries == {"q": q}
    assert s.streams.keys() == {"a"}
    assert s.sources == {"a": source}
    for held in (s.queries, s.streams, s.sources):
        with pytest.raises(TypeError):
            held["x"] = 1  # type: ignore[index]


@pytest.mark.parametrize("given", [None, "", 7])
def test_a_checkpoint_is_a_path(given: Any) -> None:
    with pytest.raises(PlanError, match="checkpoint is"):
        weft.Session(given)


@pytest.mark.parametrize("flag", ["cross_product", "closed", "backfill", "complete"])
def test_a_flag_is_true_or_false_and_no_word(flag: str) -> None:
    s = weft.Session("unused")
    s.stream("a", weft.read.batches([TABLE]))
    with pytest.raises(PlanError, match=f"{flag} is 'no'"):
        s.query("q", "SELECT k FROM a", **{flag: "no"})  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="adapt is 'no'"):
        s.options(adapt="no")  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", [{"id": "int"}, "id INT"])
def test_a_schema_is_one_of_arrow(schema: Any) -> None:
    with pytest.raises(SourceError, match="schema is a") as error:
        weft.read.csv("nowhere", schema=schema)
    assert "pyarrow.schema" in (error.value.hint or "")


def test_rows_of_python_and_frames_are_told_how_to_become_tables() -> None:
    for given, hint in (({"k": 1}, "Table.from_pylist"), (TABLE.to_pandas(), "Table.from_pandas")):
        with pytest.raises(SourceError, match="batch 0 is a") as error:
            weft.read.batches([given])  # type: ignore[list-item]
        assert hint in (error.value.hint or "")


def test_folders_by_value_have_no_mode() -> None:
    s = weft.Session("unused")
    s.stream("a", weft.read.batches([TABLE]))
    for query in ("SELECT k, k AS l FROM a", "SELECT k, COUNT(*) AS n FROM a GROUP BY k"):
        handle = s.query(f"q{len(query)}", query)
        with pytest.raises(SinkError, match="partition_by and a mode"):
            handle.to_parquet("nowhere", partition_by="k", mode="snapshot")


def test_a_folder_of_results_counts_from_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s = weft.Session("unused")
    s.stream("a", weft.read.batches([TABLE]))
    monkeypatch.chdir(tmp_path)
    sink = s.query("q", "SELECT k FROM a").to_parquet("out").sinks[0]
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    sink.claim("me", published=False, last=-1)
    assert (tmp_path / "out" / "empty.parquet").exists()
    assert sink.folder == tmp_path / "out"
