"""Scripts: what is read, and how a refusal points at its place."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.errors import ParseError, QueryError, SourceError
from weft.host.results.views import FolderOfChanges, Snapshot
from weft.query.model import Stream
from weft.script import open_session, parse_script, read_script
from weft.sql import parse
from weft.sql.script import QueryStatement, StreamStatement

HERE = Path("/job")

STREAM = "CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't');"
QUERY = "CREATE QUERY q INTO PARQUET 'out/q' AS SELECT a.x FROM a;"


def refusal(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse_script(text, folder=HERE)
    return caught.value


def test_whole_script_is_read() -> None:
    script = parse_script(
        """
        -- where the state lives; it isn't shared
        SET checkpoint = 'state';
        set WORKERS = 3;
        CREATE STREAM orders FROM PARQUET 'in/orders'
            WITH (event_time = 'o_ts', lateness = '10 seconds', max_files = 1, unit = 'ms', unique = ('a', 'b'));
        create stream "Line Item" from csv '/abs/it''s' with (event_time = 'l_ts', unique = 'k');
        CREATE QUERY late INTO PARQUET 'out' WITH (strategy = 'flat', closed = TRUE) AS
            SELECT o.x, ';' AS mark FROM orders o /* no ; here */ WHERE o.y = 'it''s';
        """,
        folder=HERE,
    )
    assert (script.checkpoint, script.workers) == (HERE / "state", 3)
    options = {"event_time": "o_ts", "lateness": "10 seconds", "max_files": 1, "unit": "ms", "unique": ["a", "b"]}
    assert script.streams == (
        StreamStatement("orders", "parquet", HERE / "in/orders", options),
        StreamStatement("Line Item", "csv", Path("/abs/it's"), {"event_time": "l_ts", "unique": ["k"]}),
    )
    draft = parse("SELECT o.x, ';' AS mark FROM orders o WHERE o.y = 'it''s'")
    assert script.queries == (QueryStatement("late", HERE / "out", draft, {"strategy": "flat", "closed": True}),)


def test_checkpoint_stands_beside_the_script_by_default(tmp_path: Path) -> None:
    file = tmp_path / "daily.sql"
    file.write_text(STREAM + QUERY)
    assert read_script(file).checkpoint == tmp_path.resolve() / "daily.checkpoint"
    assert read_script(file).workers is None


def test_last_semicolon_may_be_missing() -> None:
    script = parse_script(STREAM + QUERY[:-1] + "  \n", folder=HERE)
    assert script.queries[0].draft == parse("SELECT a.x FROM a")


def test_refusal_points_with_a_caret() -> None:
    error = refusal(f"{STREAM}\nCREATE QUERY q INTO CSV 'out' AS SELECT 1;")
    assert error.detail == "line 2, column 21\n  CREATE QUERY q INTO CSV 'out' AS SELECT 1;\n  " + " " * 20 + "^^^"
    assert error.hint == "results of a script go to Parquet folders, or to KAFKA 'broker:9092' TOPIC 'name'."


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("DROP STREAM a;", "there is no such statement: found STREAM", "line 1, column 6"),
        ("CREATE THING a;", "there is no such statement: found THING", "line 1, column 8"),
        ("CREATE TABLE a FROM CSV 'x' WITH (static = TRUE);", 'unknown option "static"', "line 1, column 35"),
        ("CREATE TABLE a FROM KAFKA 'b:9092' TOPIC 'x';", "a table that is a topic has no key", "line 1, column 14"),
        ("CREATE TABLE a FROM CSV x;", "the folder of the table is missing: found x", "line 1, column 25"),
        ("DROP QUERY q; DROP QUERY q;", "query q is dropped twice", "line 1, column 26"),
        ("DROP QUERY q, p;", "the statement should end here: found ,", "line 1, column 13"),
        (f"{QUERY}\nDROP QUERY q;", "query q is created and then dropped", "line 2, column 12"),
        (f"{STREAM}\nCREATE TABLE a FROM CSV 'x';", "a is created as a stream and as a table", "line 2, column 14"),
        ("CREATE TABLE a FROM CSV 'x'; CREATE TABLE a FROM CSV 'y';", "table a is created twice", "line 1, column 43"),
        (
            "CREATE QUERY q INTO PARQUET 'x' WITH (budget = TRUE) AS",
            '"budget" takes a number of rows',
            "line 1, column 48",
        ),
        ("SET capacity = 'big';", '"capacity" takes a number', "line 1, column 16"),
        ("SET colour = 'red';", 'unknown setting "colour"', "line 1, column 5"),
        ("SET workers = 'two';", '"workers" takes a whole number', "line 1, column 15"),
        ("SET workers = 2 3;", "the statement should end here: found 3", "line 1, column 17"),
        ("CREATE STREAM a FROM AVRO 'x';", "a format is missing: found AVRO", "line 1, column 22"),
        ("CREATE STREAM a FROM CSV x;", "the folder of the stream is missing: found x", "line 1, column 26"),
        ("CREATE STREAM a (k BIGNT) FROM CSV 'x';", "there is no type BIGNT", "line 1, column 20"),
        ("CREATE STREAM a (k INT, k INT) FROM CSV 'x';", "column k is declared twice", "line 1, column 25"),
        ("CREATE STREAM a (k INT FROM CSV 'x';", ") is missing: found FROM", "line 1, column 24"),
        ("CREATE STREAM a FROM JSON 'x' WITH (delimiter = ';');", 'unknown option "delimiter"', "line 1, column 37"),
        (
            "CREATE STREAM a FROM KAFKA 'b' TOPIC 'x' WITH (max_files = 2);",
            'unknown option "max_files"',
            "line 1, column 48",
        ),
        ("CREATE STREAM a FROM CSV 'x' WITH (when = 't');", 'unknown option "when"', "line 1, column 36"),
        ("CREATE STREAM a FROM CSV 'x' WITH (event_time = 1);", '"event_time" takes a string', "line 1, column 49"),
        ("CREATE QUERY q INTO PARQUET 'x' WITH (closd = TRUE) AS", 'unknown option "closd"', "line 1, column 39"),
        ("CREATE QUERY q INTO PARQUET 'x' WITH (closed = 1) AS", '"closed" takes TRUE or FALSE', "line 1, column 48"),
        ("SET workers = TRUE;", '"workers" takes a whole number', "line 1, column 15"),
        (f"{STREAM}\n{STREAM}\n{QUERY}", "stream a is created twice", "line 2, column 15"),
        (f"{QUERY}\n{QUERY}", "query q is created twice", "line 2, column 14"),
        ("CREATE QUERY q INTO PARQUET 'x' AS ;", "SELECT is missing: found ;", "line 1, column 36"),
        ("CREATE QUERY q INTO PARQUET 'x", "this string is never closed", "line 1, column 29"),
        ("/* for ever", "this comment is never closed", "line 1, column 1"),
    ],
)
def test_mistake_is_refused_at_its_place(text: str, message: str, place: str) -> None:
    error = refusal(text)
    assert message in error.message
    assert (error.detail or "").startswith(f"{place}\n")


def test_a_misspelt_option_comes_with_the_one_that_is_meant() -> None:
    error = refusal("CREATE QUERY q INTO PARQUET 'x' WITH (closd = TRUE) AS")
    assert (error.hint or "").startswith('did you mean "closed"? options are: ')


def test_option_given_twice_is_refused() -> None:
    error = refusal("CREATE STREAM a FROM CSV 'x' WITH (event_time = 't', EVENT_TIME = 'u');")
    assert error.message == 'option "event_time" is given twice'


def test_script_without_query_is_refused() -> None:
    assert refusal(STREAM).message == "the script has no query"
    assert refusal("  -- nothing\n").message == "the script has no query"


def test_missing_script_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        read_script(tmp_path / "gone.sql")


def test_mistake_inside_a_statement_names_the_statement(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("x,t\n1,2\n")
    stream = "CREATE STREAM a FROM CSV 'in' WITH (event_time = 't');"
    late = "CREATE STREAM b FROM CSV 'in' WITH (event_time = 't', lateness = 'ten');"
    for text, name in ((stream + late + QUERY, "stream b"), (stream + QUERY.replace("a.x", "a.y"), "query q")):
        with pytest.raises(QueryError) as caught:
            open_session(parse_script(text, folder=tmp_path))
        assert (caught.value.detail or "").startswith(f"in {name}, ")


def test_mistake_inside_a_select_is_pointed_at_in_the_script(tmp_path: Path) -> None:
    error = refusal(f"{STREAM}\n\n{QUERY[:-1]}\n  LIMIT 5;\n{QUERY}")
    assert error.message == "LIMIT is not supported without ORDER BY"
    assert error.detail == "line 4, column 3\n    LIMIT 5;\n    ^^^^^"
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("x,t\n1,2\n")
    text = "CREATE STREAM a FROM CSV 'in' WITH (event_time = 't');\n" + QUERY.replace("SELECT", "\n SELECT a.y,")
    with pytest.raises(QueryError) as caught:
        open_session(parse_script(text, folder=tmp_path))
    place = "line 3, column 9\n   SELECT a.y, a.x FROM a;\n          ^^^"
    assert caught.value.detail == f"in query q, {place}\nits columns are: x, t."


def test_mistake_in_an_option_of_a_stream_is_pointed_at_in_the_script(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("x,t\n1,2\n")
    text = "\nCREATE STREAM a FROM CSV 'in' WITH (event_time = 'u');\n"
    with pytest.raises(QueryError) as caught:
        open_session(parse_script(text + QUERY, folder=tmp_path))
    place = "line 2, column 15\n  CREATE STREAM a FROM CSV 'in' WITH (event_time = 'u');\n                ^\n"
    assert (caught.value.detail or "").startswith(f"in stream a, {place}")


def test_values_are_read_as_in_queries() -> None:
    text = "SET workers = 1_0; SET checkpoint = 'a /* b'; /* SET /* x */ workers = 1; */" + STREAM + QUERY
    script = parse_script(text, folder=HERE)
    assert (script.workers, script.checkpoint) == (10, HERE / "a /* b")
    assert parse_script(f"SET workers = -1;{QUERY}", folder=HERE).workers == -1


def test_any_word_names_a_stream() -> None:
    text = "create stream Order from json 'a' with (Event_Time = 't'); CREATE STREAM \"order\" FROM CSV 'b' WITH"
    script = parse_script(f"{text} (event_time = 't');;{QUERY}", folder=HERE)
    assert [stream.name for stream in script.streams] == ["Order", "order"]


@pytest.mark.parametrize(
    "text",
    [
        "SET workers = -'a';",
        "SET = 1;",
        "SET workers 1;",
        "SET workers = ;",
        "CREATE",
        "CREATE STREAM",
        "DROP",
        "DROP QUERY",
        "DROP QUERY ;",
        "CREATE TABLE",
        "CREATE TABLE a",
        "CREATE TABLE a FROM CSV",
        "CREATE TABLE a FROM CSV 'x' 'y';",
        "SET workers",
        "CREATE STREAM a",
        "CREATE STREAM a FROM CSV 'x' WITH event_time = 't';",
        "CREATE QUERY q AS SELECT 1;",
        "CREATE STREAM a FROM CSV 'x' WITH (event_time = 't', unique = ('a', b));",
        "CREATE QUERY q INTO PARQUET 'x';",
        "CREATE STREAM a FROM CSV 'x' WITH (event_time = 't'",
        "CREATE QUERY q INTO PARQUET 'x' AS SELECT a.x FROM a b c;",
        "CREATE STREAM a FROM CSV 'x' WITH (event_time = 't') QUERY",
        "SET workers = 1.5;",
        "SELECT 1;",
        "CREATE QUERY q INTO PARQUET 'x' AS SELECT ? FROM a;",
        "CREATE QUERY q INTO PARQUET 'x' AS SELECT a.x FROM a WHERE;",
    ],
)
def test_every_refusal_has_a_caret_and_a_cure(text: str) -> None:
    error = refusal(text)
    assert "^" in (error.detail or "")
    assert error.hint


# ------------------------------------------------------------------------------------- scripts as sessions

A = pa.table({"x": [1, 2], "t": [1, 2]})


def write_inputs(folder: Path, *names: str) -> None:
    for name in names:
        (folder / "in" / name).mkdir(parents=True)
        pq.write_table(A, folder / "in" / name / "0.parquet")


def test_session_is_told_all_that_the_script_says(tmp_path: Path) -> None:
    write_inputs(tmp_path, "a", "b", "c")
    text = """
    SET checkpoint = 'state'; SET workers = 3; SET watermark = 'max'; SET sharing = 'local';
    SET strategy = 'flat'; SET budget = 10;
    CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't', max_files = 2, lateness = '1 second', unique = 'x');
    CREATE TABLE b FROM PARQUET 'in/b';
    CREATE QUERY q INTO PARQUET 'out/q' WITH (closed = TRUE, strategy = 'left_deep', budget = '2 GB', capacity = 1.5,
        placement = 'scattered', arrival = 'none', start = 'now', backfill = TRUE, complete = TRUE)
        AS SELECT a.x FROM a JOIN b ON a.x = b.x WITHIN '1 second';
    """
    s = open_session(parse_script(text, folder=tmp_path))
    assert (s.checkpoint.root, s.workers, s.watermark, s.sharing) == (tmp_path / "state", 3, "max", "local")
    assert s.streams["a"] == Stream("a", A.schema, "t", "s", 1_000_000, ("x",))
    assert s.streams["b"] == Stream("b", A.schema, table=True)
    assert s.sources["a"] == weft.read.parquet(tmp_path / "in" / "a", max_files=2)
    q = s.queries["q"]
    assert q.query.relations[0].window == 1_000_001
    assert q.wishes == {
        "strategy": "left_deep", "budget": 2e9, "unit": "bytes", "placement": "scattered", "capacity": 1.5,
        "arrival": "none",
    }  # fmt: skip
    assert (q.backfill, q.must_be_complete) == (True, True)
    assert [sink.folder for sink in q.sinks] == [tmp_path / "out" / "q"]
    assert open_session(parse_script(text, folder=tmp_path), workers=5).workers == 5


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (f"SET\nworkers = 0;{QUERY}", "in SET workers, line 2, column 1\n"),
        (f"SET sharing = 'all';{QUERY}", "in SET sharing, line 1, column 5\n"),
        (f"SET watermark = 'mean';{QUERY}", "in SET watermark, line 1, column 5\n"),
        (
            STREAM + "CREATE QUERY q INTO PARQUET 'out' WITH (start = 'then') AS SELECT a.x FROM a;",
            "in query q, line 1, column 74\n",
        ),
    ],
)
def test_wrong_value_is_pointed_at(text: str, place: str, tmp_path: Path) -> None:
    write_inputs(tmp_path, "a")
    with pytest.raises(weft.WeftError) as caught:
        open_session(parse_script(text, folder=tmp_path))
    assert (caught.value.detail or "").startswith(place)
    assert "^" in (caught.value.detail or "")
    assert caught.value.hint


def test_a_script_declares_columns_and_streams_without_event_time(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("k,v\n1,2\n")
    text = """
        CREATE STREAM a (k SMALLINT, v DECIMAL(8, 2)) FROM CSV 'in';
        CREATE STREAM late (k BIGINT, t TIMESTAMP) FROM JSON 'not there yet' WITH (event_time = 't');
        CREATE TABLE b (k INTEGER, v VARCHAR) FROM CSV 'in';
        CREATE QUERY q INTO PARQUET 'out' AS SELECT a.k, b.v FROM a JOIN b ON a.k = b.k;
    """
    session = open_session(parse_script(text, folder=tmp_path), checkpoint=tmp_path / "state")
    assert session.streams["a"].schema == pa.schema([("k", pa.int16()), ("v", pa.decimal128(8, 2))])
    assert session.streams["a"].event_time is None
    assert session.streams["late"].event_time == "t"
    assert session.streams["b"].table
    assert session.queries["q"].query.schema.names == ["k", "v"]


def test_a_script_declares_tables_that_change(tmp_path: Path) -> None:
    text = """
        CREATE STREAM a (k BIGINT, t TIMESTAMP) FROM CSV 'a' WITH (event_time = 't');
        CREATE TABLE b (k BIGINT, v BIGINT) FROM CSV 'b' KEY (k);
        CREATE TABLE c (k BIGINT, t TIMESTAMP, v BIGINT) FROM CSV 'c' KEY (k) WITH (event_time = 't', idle = '9 s');
        CREATE TABLE d (k BIGINT, v BIGINT) FROM CSV 'd' WITH (refresh = TRUE);
        CREATE QUERY q INTO PARQUET 'out' AS SELECT a.k, b.v, d.v AS w FROM a JOIN b ON a.k = b.k JOIN d ON d.k = a.k;
        CREATE QUERY p INTO PARQUET 'past' AS SELECT a.k, c.v FROM a JOIN c FOR SYSTEM_TIME AS OF a.t ON c.k = a.k;
    """
    session = open_session(parse_script(text, folder=tmp_path), checkpoint=tmp_path / "state")
    assert [session.streams[name].table for name in "abcd"] == [False, True, True, True]
    assert session.streams["c"].event_time == "t"
    assert session.streams["d"].schema.names == ["k", "v"]
    assert not session.queries["q"].query.is_changing
    assert not session.queries["p"].query.is_changing


def test_a_script_declares_streams_that_change(tmp_path: Path) -> None:
    text = """
        CREATE STREAM a (k BIGINT, op VARCHAR) FROM CSV 'a' WITH (changes = 'op');
        CREATE STREAM b (k BIGINT, v BIGINT) FROM CSV 'b' WITH (key = ('k'));
        CREATE QUERY q INTO PARQUET 'out' WITH (mode = 'snapshot') AS SELECT a.k, b.v FROM a JOIN b ON a.k = b.k;
    """
    session = open_session(parse_script(text, folder=tmp_path), checkpoint=tmp_path / "state")
    assert session.streams["a"].schema.names == ["k"]
    assert session.queries["q"].query.is_changing
    assert str(session.streams["b"]) == "<stream b: k int64, v int64>"


def test_a_script_has_all_knobs_of_python(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": [1]}), tmp_path / "in" / "0.parquet")
    (tmp_path / "numbers.json").write_text(weft.Statistics(rows={"a": 7, "b": 9}).to_json())
    plan = weft.Plan(parallelism={"a": 1})
    (tmp_path / "plan.json").write_text(plan.to_json())
    text = """
        SET statistics = 'numbers.json';
        CREATE STREAM a FROM PARQUET 'in';
        CREATE STREAM b FROM PARQUET 'in';
        CREATE QUERY q INTO PARQUET 'out'
            WITH (strategy = 'hypercube:hybrid', parallelism = ('a' = 2), skewed = ('a.k' = TRUE, 'b.k' = FALSE),
                  merge = FALSE)
            AS SELECT a.k FROM a JOIN b ON a.k = b.k;
        CREATE QUERY p INTO PARQUET 'other' WITH (strategy = 'plan.json') AS SELECT a.k FROM a JOIN b ON a.k = b.k;
    """
    session = open_session(parse_script(text, folder=tmp_path), checkpoint=tmp_path / "state")
    wishes = session.queries["q"].wishes
    assert dict(wishes["parallelism"]) == {"a": 2}
    assert dict(wishes["skewed"]) == {"a.k": True, "b.k": False}
    assert session.queries["p"].wishes["strategy"] == plan
    with pytest.raises(SourceError, match="cannot be read"):
        open_session(parse_script("SET statistics = 'no.json';" + STREAM + QUERY, folder=tmp_path))
    assert refusal(STREAM + QUERY.replace(" AS", " WITH (parallelism = ('a' = TRUE)) AS")).message.startswith(
        '"parallelism" takes whole numbers by alias'
    )


def open_job(text: str, folder: Path) -> weft.Session:
    for name in ("a", "b"):
        (folder / "in" / name).mkdir(parents=True)
        pq.write_table(pa.table({"k": [1], "x": [2]}), folder / "in" / name / "0.parquet")
    streams = "CREATE STREAM a FROM PARQUET 'in/a'; CREATE STREAM b FROM PARQUET 'in/b' WITH (bad_files = 'skip');"
    return open_session(parse_script(streams + text, folder=folder))


@pytest.mark.parametrize("mode", ["changes", "snapshot", None])
def test_a_script_says_how_a_view_is_written(tmp_path: Path, mode: str | None) -> None:
    said = "" if mode is None else f" WITH (mode = '{mode}')"
    text = f"CREATE QUERY q INTO PARQUET 'out'{said} AS SELECT a.k, COUNT(*) AS n FROM a GROUP BY a.k;"
    (sink,) = open_job(text, tmp_path).queries["q"].sinks
    assert isinstance(sink, Snapshot if mode == "snapshot" else FolderOfChanges)


def test_views_are_read_in_the_order_of_the_script(tmp_path: Path) -> None:
    text = """
        CREATE TABLE c FROM PARQUET 'in/b' WITH (refresh = TRUE, bad_files = 'skip');
        CREATE VIEW pairs AS SELECT a.k, b.x FROM a JOIN b USING (k);
        CREATE VIEW few AS SELECT * FROM pairs WHERE x < 5;
        CREATE QUERY q INTO PARQUET 'out' AS SELECT few.x FROM few JOIN a ON few.k = a.k;
    """
    session = open_job(text, tmp_path)
    assert session.queries["q"].query.aliases == ("few_a", "few_b", "a")
    assert all(session.sources[name].bad_files == "skip" for name in "bc")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("CREATE VIEW v AS SELECT k FROM a; CREATE VIEW v AS SELECT k FROM a;", "view v is created twice"),
        ("CREATE STREAM v FROM CSV 'v'; CREATE VIEW v AS SELECT k FROM a;", "v is created as a stream and as a view"),
        ("CREATE VIEW v SELECT k FROM a;", "AS is missing"),
    ],
)
def test_mistakes_in_views_are_refused(text: str, message: str) -> None:
    assert message in refusal(STREAM + text + QUERY).message


@pytest.mark.parametrize(
    ("select", "hint"),
    [
        ("SELECT x.k FROM nothing x", "create it: CREATE STREAM name FROM PARQUET 'folder';"),
        ("SELECT a.k FROM a WITHIN '1 minute' JOIN b USING (k)", "write WITH (event_time = 'column') behind a."),
        ("SELECT a.k FROM a, b", "write WITH (cross_product = TRUE)"),
        ("SELECT nothing(a.k) AS x FROM a", "only functions of SQL can be called in a script."),
    ],
)
def test_hints_speak_of_statements(tmp_path: Path, select: str, hint: str) -> None:
    with pytest.raises(weft.WeftError) as caught:
        open_job(f"CREATE QUERY q INTO PARQUET 'out' AS {select};", tmp_path)
    assert hint in str(caught.value.hint)
    assert "s." not in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("(t TIMESTAMP, WATERMARK FOR t AS t)", "WATERMARK FOR does not stand among the columns", "lateness ="),
        ("(x BIGINT, PRIMARY KEY (x) NOT ENFORCED)", "PRIMARY KEY does not stand among the columns", "KEY (column)"),
        ("(t TIMESTAMP(3))", "there is no type TIMESTAMP(3)", "write TIMESTAMP."),
    ],
)
def test_what_others_say_among_the_columns_is_said_behind_them(text: str, message: str, hint: str) -> None:
    error = refusal(f"CREATE STREAM a {text} FROM PARQUET 'in/a';" + QUERY)
    assert message in error.message
    assert hint in (error.hint or "")


def test_what_a_script_says_is_created_if_it_is_not_there() -> None:
    text = STREAM + "CREATE VIEW v AS SELECT a.x FROM a;" + QUERY
    plain = parse_script(text, folder=HERE)
    made = parse_script(
        text.replace("STREAM a", "STREAM IF NOT EXISTS a").replace("VIEW v", "VIEW IF NOT EXISTS v"), folder=HERE
    )
    assert made.streams == plain.streams
    assert [view.name for view in made.views] == ["v"]
    error = refusal(STREAM + QUERY.replace("QUERY q", "QUERY IF NOT EXISTS q"))
    assert "goes on" in (error.hint or "")
