"""Streams that change: what rows say about themselves, what is refused, and what happens to rows that nobody has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.errors import QueryError, SinkError, SourceError
from weft.testing import Trial

COLUMNS = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("op", pa.string())])


def rows(*values: tuple[Any, ...], schema: pa.Schema = COLUMNS) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, value, strict=True)) for value in values], schema)


def session(*changing: str, schema: pa.Schema = COLUMNS, **options: Any) -> weft.Session:
    made = weft.Session("never-made", workers=2, progress=False)
    for name in "ab":
        made.stream(name, weft.read.batches([schema.empty_table()]), **({"changes": "op"} if name in changing else {}))
    return made


def trial(sql: str, *changing: str) -> Trial:
    made = session(*(changing or "ab"))
    made.query("q", sql)
    return Trial(made)


def shown(found: Trial) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in found.table("q").to_pylist())


PAIRS = "SELECT a.k, a.x, b.x AS y FROM a JOIN b ON a.k = b.k"


def test_a_deleted_row_takes_back_its_results() -> None:
    t = trial(PAIRS)
    t.feed({"a": rows((1, 10, "insert")), "b": rows((1, 5, "+I"), (1, 6, "insert"))})
    assert shown(t) == [(1, 10, 5), (1, 10, 6)]
    t.feed({"b": rows((1, 5, "delete"))})
    assert shown(t) == [(1, 10, 6)]
    t.feed({"a": rows((1, 10, "-D"))})
    assert shown(t) == []
    held = {store.stream or "groups": t.state_rows.get(store.id, 0) for store in t.topology.stores}
    assert held == {"a": 0, "b": 3, "groups": 0}, "a row and the one that takes it back go when segments are merged"


def test_of_two_equal_rows_one_stays() -> None:
    t = trial(PAIRS)
    t.feed({"a": rows((1, 10, "insert"), (1, 10, "insert")), "b": rows((1, 5, "insert"))})
    t.feed({"a": rows((1, 10, "delete"))})
    assert shown(t) == [(1, 10, 5)]


def test_within_a_batch_the_order_does_not_matter() -> None:
    t = trial(PAIRS)
    t.feed({"a": rows((1, 10, "delete"), (1, 11, "insert"), (1, 10, "insert")), "b": rows((1, 5, "insert"))})
    assert shown(t) == [(1, 11, 5)]
    assert len(t.running.results["q"]) == 1
    assert t.running.results["q"][0].column("#op").to_pylist() == ["insert"]


def test_what_is_deleted_before_it_comes_is_owed() -> None:
    t = trial("SELECT a.k FROM a")
    t.feed({"a": rows((1, 10, "delete"))})
    assert shown(t) == []
    t.feed({"a": rows((1, 10, "insert"))})
    assert shown(t) == []
    t.feed({"a": rows((1, 10, "insert"))})
    assert shown(t) == [(1,)]


@pytest.mark.parametrize("sql", ["SELECT DISTINCT a.k FROM a", "SELECT a.k FROM a GROUP BY a.k HAVING count(*) > 0"])
def test_a_row_that_is_as_it_was_is_no_change(sql: str) -> None:
    t = trial(sql)
    for batch in (((1, 10, "insert"),), ((1, 11, "insert"), (1, 12, "insert")), ((1, 10, "delete"),)):
        t.feed({"a": rows(*batch)})
    t.feed({"a": rows((1, 11, "delete"), (1, 12, "delete"))})
    changed = [op for part in t.running.results["q"] for op in part.column("#op").to_pylist()]
    assert changed == ["insert", "delete"]


def test_the_op_is_no_column() -> None:
    made = session("a")
    assert made.streams["a"].schema.names == ["k", "x"]
    with pytest.raises(QueryError, match="op"):
        made.query("q", "SELECT a.op FROM a")


@pytest.mark.parametrize(("word", "said"), [("upsert", "is 'upsert'"), (None, "is NULL in 1 rows")])
def test_an_unknown_op_is_refused(word: str | None, said: str) -> None:
    t = trial(PAIRS)
    with pytest.raises(SourceError, match=said) as caught:
        t.feed({"a": rows((1, 10, word))})
    assert caught.value.detail
    assert caught.value.hint


def test_declarations_that_cannot_be() -> None:
    made = weft.Session("never-made", workers=1)
    table = pa.table({"k": [1], "f": [1.5]})
    with pytest.raises(QueryError, match='has no column "opp"'):
        made.stream("c", weft.read.batches([table]), changes="opp")
    with pytest.raises(QueryError, match="has type double"):
        made.stream("c", weft.read.batches([table]), changes="f")


def test_a_stream_that_changes_is_another_stream(tmp_path: Path) -> None:
    def made(**how: Any) -> weft.Session:
        s = weft.Session(tmp_path / "state", workers=1, progress=False)
        s.stream("a", weft.read.batches([COLUMNS.empty_table()]), **how)
        s.query("q", "SELECT a.k FROM a")
        return s

    s = made(changes="op")
    Trial(s, state=s.checkpoint.root).feed({"a": rows((1, 1, "insert"))})
    other = made()
    with pytest.raises(weft.StateError, match=r'stream "a", c'):
        Trial(other, state=other.checkpoint.root)


def test_modes_of_a_changing_query(tmp_path: Path) -> None:
    made = session("a")
    q = made.query("q", PAIRS)
    q.to_parquet(tmp_path / "changes").to_parquet(tmp_path / "now", mode="snapshot").to_memory()
    with pytest.raises(SinkError, match="no final rows"):
        q.to_parquet(tmp_path / "final", mode="final")
    with pytest.raises(SinkError, match="takes rows that never change"):
        q.to_table("catalog.table")
    with pytest.raises(SinkError, match="has no modes"):
        made.query("plain", "SELECT b.k FROM b").to_parquet(tmp_path / "plain", mode="changes")


def test_structs_and_lists_are_taken_back_too() -> None:
    kinds = [
        ("k", pa.int64()),
        ("p", pa.struct([("f", pa.float64())])),
        ("l", pa.list_(pa.int64())),
        ("op", pa.int64()),
    ]
    schema = pa.schema(kinds)
    made = session("a", schema=schema)
    made.query("q", "SELECT a.p, a.l, b.l AS m FROM a JOIN b ON a.k = b.k")
    t = Trial(made)
    some = [(1, {"f": 1.5}, [1, 2], 1), (1, {"f": 1.5}, [2, 1], 1), (1, {"f": None}, None, 1), (1, None, [], 1)]
    t.feed({"a": rows(*some, schema=schema), "b": rows((1, None, [7], 0), schema=schema)})
    assert t.table("q").num_rows == 4
    t.feed({"a": rows((1, {"f": 1.5}, [2, 1], -1), (1, {"f": None}, None, -1), schema=schema)})
    found = sorted(t.table("q").to_pylist(), key=lambda row: row["p"] is None)
    assert found == [{"p": {"f": 1.5}, "l": [1, 2], "m": [7]}, {"p": None, "l": [], "m": [7]}]


def test_a_sum_of_floats_changes_if_another_row_comes_than_goes() -> None:
    """A batch may leave the count of a group as it was, and change its sum."""
    schema = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("op", pa.int64())])
    made = session("a", schema=schema)
    made.query("q", "SELECT a.k, SUM(a.x) AS s, MAX(a.x) AS m FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    t = Trial(made)
    t.feed({"a": rows((1, 0.5, 1), (1, float("inf"), 1), schema=schema), "b": rows((1, 0.0, 0), schema=schema)})
    assert shown(t) == [(1, float("inf"), float("inf"))]
    t.feed({"a": rows((1, float("inf"), -1), (1, 0.25, 1), schema=schema)})
    assert shown(t) == [(1, 0.75, 0.5)]
    t.feed({"a": rows((1, 0.5, -1), (1, 1.0, 1), schema=schema)})
    assert shown(t) == [(1, 1.25, 1.0)]


# ------------------------------------------------------------------------------------- other queries


def test_a_new_query_begins_with_all_rows_that_are_left(tmp_path: Path) -> None:
    made = weft.Session(tmp_path / "state", workers=2, progress=False)
    for name in "ab":
        made.stream(name, weft.read.batches([COLUMNS.empty_table()]), changes="op")
    made.query("q", PAIRS)
    t = Trial(made, state=made.checkpoint.root)
    t.feed({"a": rows((1, 10, "insert"), (2, 20, "insert")), "b": rows((1, 5, "insert"), (1, 6, "insert"))})
    t.feed({"b": rows((1, 5, "delete"))})
    made.query("least", "SELECT a.k, MIN(b.x) AS lo FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    made.query("one", "SELECT a.x FROM a")
    t.change()
    assert t.table("least").to_pylist() == [{"k": 1, "lo": 6}]
    t.feed({"a": rows((2, 20, "delete")), "b": rows((1, 4, "insert"), (1, 6, "delete"))})
    assert t.table("least").to_pylist() == [{"k": 1, "lo": 4}]
    assert t.table("one").to_pylist() == [{"x": 10}]
    with pytest.raises(QueryError, match="cannot start now"):
        made.query("late", PAIRS, start="now")


def test_a_view_of_rows_that_nobody_kept_is_refused(tmp_path: Path) -> None:
    made = weft.Session(tmp_path / "state", workers=1, progress=False)
    made.stream("a", weft.read.batches([COLUMNS.empty_table()]), changes="op")
    made.query("q", "SELECT a.k FROM a")
    t = Trial(made, state=made.checkpoint.root)
    t.feed({"a": rows((1, 10, "insert"))})
    made.query("other", "SELECT a.k, COUNT(*) AS n FROM a GROUP BY a.k")
    with pytest.raises(weft.StateError, match='query "other" cannot be complete'):
        t.change()


# ------------------------------------------------------------------------------------------- debezium

ROW = pa.struct([("id", pa.int64()), ("name", pa.string())])


def envelopes(*values: tuple[Any, Any, str | None], nested: bool = False) -> pa.Table:
    found = [{"before": before, "after": after, "op": op, "ts_ms": 1} for before, after, op in values]
    kinds = [("before", ROW), ("after", ROW), ("op", pa.string()), ("ts_ms", pa.int64())]
    if nested:
        return pa.Table.from_pylist([{"payload": one} for one in found], pa.schema([("payload", pa.struct(kinds))]))
    return pa.Table.from_pylist(found, pa.schema(kinds))


@pytest.mark.parametrize("nested", [False, True])
def test_envelopes_of_debezium(nested: bool) -> None:
    made = weft.Session("never-made", workers=2, progress=False)
    stream = made.stream("c", weft.read.batches([envelopes(nested=nested)]), format="debezium")
    assert stream.schema.names == ["id", "name"]
    made.query("q", "SELECT c.id, c.name FROM c")
    t = Trial(made)
    ann, bob, eve = ({"id": at, "name": name} for at, name in enumerate(["ann", "bob", "eve"]))
    t.feed({"c": envelopes((None, ann, "r"), (None, bob, "c"), nested=nested)})
    t.feed({"c": envelopes((ann, ann | {"name": "anna"}, "u"), (bob, None, "d"), (None, None, None), nested=nested)})
    unknown = [{"before": None, "after": eve, "op": "c", "ts_ms": 1}]  # Arrow gives "before" no type here
    t.feed({"c": pa.Table.from_pylist([{"payload": one} for one in unknown] if nested else unknown)})
    assert shown(t) == [(0, "anna"), (2, "eve")]


def test_envelopes_that_cannot_be_read() -> None:
    made = weft.Session("never-made", workers=1, progress=False)
    made.stream("c", weft.read.batches([envelopes()]), format="debezium")
    made.query("q", "SELECT c.id FROM c")
    t = Trial(made)
    with pytest.raises(SourceError, match='"before" is NULL in 1 changes'):
        t.feed({"c": envelopes((None, None, "d"))})
    with pytest.raises(SourceError, match='"op" of stream "c" is \'t\''):
        t.feed({"c": envelopes((None, None, "t"))})
    with pytest.raises(QueryError, match="has no envelopes of Debezium"):
        made.stream("d", weft.read.batches([COLUMNS.empty_table()]), format="debezium")
    with pytest.raises(QueryError, match="has both changes"):
        made.stream("d", weft.read.batches([envelopes()]), format="debezium", changes="op")


# -------------------------------------------------------------------------------------------- upserts

ITEMS = pa.schema([("id", pa.int64()), ("k", pa.int64()), ("x", pa.string())])


def items(*values: tuple[Any, ...]) -> pa.Table:
    return rows(*values, schema=ITEMS)


def upserting(root: Path, workers: int = 2) -> weft.Session:
    made = weft.Session(root / "state", workers=workers, progress=False)
    made.stream("u", weft.read.batches([ITEMS.empty_table()]), key="id")
    made.stream("b", weft.read.batches([COLUMNS.empty_table()]))
    made.query("q", "SELECT u.id, u.x, b.x AS y FROM u JOIN b ON u.k = b.k")
    return made


def test_the_last_row_of_a_key_counts(tmp_path: Path) -> None:
    made = upserting(tmp_path)
    t = Trial(made)
    t.feed({"u": items((1, 1, "a"), (2, 2, "b"), (1, 2, "c")), "b": rows((1, 5, ""), (2, 6, ""))})
    assert shown(t) == [(1, "c", 6), (2, "b", 6)]
    t.feed({"u": items((2, None, None), (1, 1, "d"), (3, None, None))})  # to remove what is not there does nothing
    assert shown(t) == [(1, "d", 5)]
    t.feed({"u": items((2, 1, "gone"), (2, None, None), (2, 1, "back"), (1, 1, "d"))})
    assert shown(t) == [(1, "d", 5), (2, "back", 5)]
    changed = [batch.to_pylist() for batch in t.running.results["q"][-1:]]
    assert [row["#op"] for row in changed[0]] == ["insert"], "a row that replaces an equal one changes nothing"


def test_a_key_that_is_null_is_refused(tmp_path: Path) -> None:
    t = Trial(upserting(tmp_path))
    with pytest.raises(SourceError, match='key "id" of stream "u" is NULL') as caught:
        t.feed({"u": items((1, 1, "a"), (None, 7, "nobody"))})
    assert "nobody" in (caught.value.detail or "")


def test_upserts_go_on_under_another_plan(tmp_path: Path) -> None:
    made = upserting(tmp_path)
    t = Trial(made, state=made.checkpoint.root)
    t.feed({"u": items((1, 1, "a"), (2, 2, "b"), (3, 2, "z")), "b": rows((1, 5, ""), (2, 6, ""))})
    t.feed({"u": items((1, 2, "c"), (3, None, None))})
    made.rescale(3)
    t.change()
    made.query("new", "SELECT u.k, COUNT(*) AS n, MIN(u.x) AS least FROM u GROUP BY u.k")
    t.change()
    assert t.table("new").to_pylist() == [{"k": 2, "n": 2, "least": "b"}]
    t.feed({"u": items((2, 1, "bb"), (3, 1, "back"))})
    assert shown(t) == [(1, "c", 6), (2, "bb", 5), (3, "back", 5)]
    found = sorted(tuple(row.values()) for row in t.table("new").to_pylist())
    assert found == [(1, 2, "back"), (2, 1, "c")]


def test_envelopes_without_the_row_before_need_a_key() -> None:
    made = weft.Session("never-made", workers=2, progress=False)
    made.stream("c", weft.read.batches([envelopes()]), format="debezium", key="id")
    made.query("q", "SELECT c.id, c.name FROM c")
    t = Trial(made)
    t.feed({"c": envelopes((None, {"id": 1, "name": "ann"}, "c"), (None, {"id": 2, "name": "bob"}, "c"))})
    t.feed({"c": envelopes((None, {"id": 1, "name": "anna"}, "u"), ({"id": 2, "name": None}, None, "d"))})
    assert shown(t) == [(1, "anna")]


def test_keys_that_cannot_be() -> None:
    made = weft.Session("never-made", workers=1, progress=False)
    with pytest.raises(QueryError, match='has no column "nr"'):
        made.stream("u", weft.read.batches([ITEMS.empty_table()]), key="nr")
    with pytest.raises(QueryError, match="has a key and an event time"):
        made.stream("u", weft.read.batches([ITEMS.empty_table()]), key="id", event_time="k")
