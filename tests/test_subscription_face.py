"""What users of subscriptions see: explain, errors, sources with operations, changes by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from weft.host.sources.parameters import ParameterSource
from weft.query.parameters import REMOVED

SQL = """SELECT t.id FROM t JOIN w ON t.k = w.k
         WHERE t.name = :name AND t.x < :limit AND w.y BETWEEN :low AND :high AND w.id <> :but"""
GIVEN = pa.table({"who": ["a"], "name": ["n"], "limit": [1], "low": [0.5], "high": [1.5], "but": [3]})


def open_session(root: Path) -> weft.Session:
    session = weft.Session(checkpoint=root / "checkpoint", workers=2)
    session.stream("t", weft.read.batches([pa.table({"id": [1], "k": [1], "name": ["n"], "x": [0]})]))
    session.stream("w", weft.read.batches([pa.table({"id": [1], "k": [1], "y": [1.0]})]))
    return session


def test_explain_says_how_subscriptions_are_found(tmp_path: Path) -> None:
    session = open_session(tmp_path)
    session.subscriptions("alerts", SQL, parameters=GIVEN, key="who", strategy="narrow").to_memory()
    shown = session.explain()
    assert "bits t.x < :limit" in shown
    assert "bits w.y >= :low AND w.y <= :high" in shown
    assert "bits t.name = :name" in shown
    assert ":but IS NULL" in shown
    assert "is a subscription left by 2 dimensions" in shown
    assert "check rows came since the subscription did" in shown
    assert "#" not in shown
    assert all(session.explain(stage=stage) for stage in ("parsed", "resolved", "candidates", "chosen"))
    assert all(session.explain(format=form) for form in ("json", "mermaid"))


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        ("SELECT t.id FROM t WHERE t.x < :limits", {}, 'no parameter ":limits"'),
        ("SELECT COUNT(*) FROM t WHERE t.x < :limit", {}, "cannot be grouped"),
        ("SELECT t.id FROM t, w WHERE t.x < :limit AND w.y > :low", {}, "cross product"),
        ("SELECT t.id FROM t WHERE t.x < :limit", {"key": "whom"}, 'no column "whom"'),
        ("SELECT t.id FROM t WHERE t.x < :limit", {"window": "low"}, "has type double"),
        ("SELECT t.id FROM t WHERE t.x < :limit", {"strategy": "best"}, 'strategy "best" is unknown'),
        ("SELECT t.id FROM t WHERE t.x < :", {}, "the name of a parameter is missing"),
        ("SELECT d.id FROM (SELECT t.id FROM t WHERE t.x < :limit) d", {}, "parameters are for subscriptions"),
        ("SELECT t.id FROM t LEFT JOIN w ON t.k = w.k WHERE t.x < :limit", {}, "one join of rows that stay"),
        ("SELECT t.id FROM t WHERE t.x < :limit UNION ALL SELECT w.id FROM w", {}, "one join of rows that stay"),
        ("SELECT t.id AS who FROM t WHERE t.x < :limit", {}, "duplicate output name"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, sql: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(weft.WeftError, match=said) as caught:
        open_session(tmp_path).subscriptions("alerts", sql, **{"parameters": GIVEN, "key": "who", **options})
    assert caught.value.hint


def test_a_plain_query_has_no_parameters(tmp_path: Path) -> None:
    with pytest.raises(weft.WeftError, match="parameters are for subscriptions"):
        open_session(tmp_path).query("q", "SELECT t.id FROM t WHERE t.x < :limit")


def test_changes_by_hand_are_checked(tmp_path: Path) -> None:
    alerts = open_session(tmp_path).subscriptions("alerts", SQL, parameters=GIVEN, key=["who", "but"])
    with pytest.raises(weft.WeftError, match='"limit" of subscriptions does not fit int64'):
        alerts.add(pa.table({"who": ["b"], "limit": ["many"]}))
    with pytest.raises(weft.WeftError, match="too few or too many values"):
        alerts.remove(["b"])
    with pytest.raises(weft.WeftError, match="cannot be a list"):
        alerts.add([1])  # type: ignore[arg-type]
    with pytest.raises(weft.WeftError, match='column "but" of subscriptions is missing'):
        alerts.remove(pa.table({"who": ["b"]}))
    alerts.remove([("b", 1), ("c", 2)])
    alerts.add(GIVEN)
    files = sorted((tmp_path / "checkpoint" / "subscriptions" / "alerts").iterdir())
    assert [pq.read_table(file)[REMOVED].to_pylist() for file in files] == [[True, True], [False]]


def test_an_operation_column_adds_ends_and_replaces(tmp_path: Path) -> None:
    said = ["insert", None, "DELETE", "u", "d"]
    given = weft.read.batches([pa.table({"who": [1, 2, 3, 4, 5], "op": said})])
    source = ParameterSource(given, str(tmp_path / "changes"), "op")
    assert source.schema.names == ["who", REMOVED]
    reader = source.open("alerts-subscriptions", str(tmp_path))
    source.inbox.put(pa.table({"who": [6], REMOVED: [False]}))
    (piece,) = reader.pieces(reader.beginning(), reader.end(reader.beginning(), reader.discover()))
    rows = [row for batch in reader.read(piece, ["who", REMOVED], source.schema) for row in batch.to_pylist()]
    found = [(row["who"], row[REMOVED]) for row in rows]
    assert found == [(1, False), (2, False), (3, True), (4, True), (4, False), (5, True), (6, False)]
    assert piece.stream == "alerts-subscriptions"


def test_changes_by_hand_are_removed_when_they_are_committed(tmp_path: Path) -> None:
    source = ParameterSource(weft.read.batches([pa.table({"who": [1]})]), str(tmp_path / "changes"))
    reader, files = source.open("s", str(tmp_path)), tmp_path / "changes"
    for who in (2, 3):
        source.inbox.put(pa.table({"who": [who], REMOVED: [False]}))
    first = reader.end(reader.beginning(), reader.discover())
    assert len(list(files.iterdir())) == 2
    reader.end(reader.beginning(), reader.discover())  # the batch is run again: it was not committed
    assert len(list(files.iterdir())) == 2
    source.inbox.put(pa.table({"who": [4], REMOVED: [False]}))
    second = reader.end(first, reader.discover())
    assert len(list(files.iterdir())) == 1
    again = source.open("s", str(tmp_path))
    again.check(second)
    assert again.end(second, again.discover()) == second
    assert not list(files.iterdir())


def test_changes_keep_their_order_when_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = weft.read.batches([pa.table({"who": [1]})])
    for moment, removed in ((2_000, True), (1_000, False)):  # each in a process of its own
        monkeypatch.setattr("weft.host.sources.parameters.time.time_ns", lambda moment=moment: moment)
        source = ParameterSource(given, str(tmp_path / "changes"))
        source.inbox.put(pa.table({"who": [1], REMOVED: [removed]}))
    files = sorted((tmp_path / "changes").iterdir())
    assert [pq.read_table(file)[REMOVED].to_pylist() for file in files] == [[True], [False]]


def test_an_unknown_operation_is_named(tmp_path: Path) -> None:
    given = weft.read.batches([pa.table({"who": [1], "op": ["frobnicate"]})])
    reader = ParameterSource(given, str(tmp_path / "changes"), "op").open("s", str(tmp_path))
    (piece,) = reader.pieces(reader.beginning(), reader.discover())
    with pytest.raises(weft.WeftError, match='operation "frobnicate" in column "op" is unknown'):
        list(reader.read(piece, ["who"], pa.schema([("who", pa.int64())])))
