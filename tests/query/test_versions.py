"""Versions that are looked up once they are final: FOR SYSTEM_TIME AS OF, and ASOF joins with windows.

The oracle is DuckDB's ASOF JOIN: after every batch, over the rows that were in time, for the rows of the stream whose
time the watermark has passed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import weft
from weft import col, from_, rel
from weft.errors import WeftError
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.int64()), ("v", pa.int64())])
LATENESS = {"o": 3, "b": 2, "r": 5, "u": 4}
Row = tuple[Any, ...]
Batch = dict[str, list[Row]]


def rows(values: Sequence[Row]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in values], SCHEMA)


def session(checkpoint: Path | str = "never-made", workers: int = 2) -> weft.Session:
    s = weft.Session(checkpoint, workers=workers)
    for name in ("o", "b"):
        s.stream(name, weft.read.batches([rows([])]), event_time="ts", lateness=f"{LATENESS[name]} seconds")
    for name in ("r", "u"):
        s.table(name, weft.read.batches([rows([])]), key="k", event_time="ts", lateness=f"{LATENESS[name]} seconds")
    s.table("f", weft.read.batches([rows([(0, 0, 0), (1, 0, 1)])]))
    return s


@dataclass(frozen=True)
class Asked:
    """A query, and the same for DuckDB over the rows that count."""

    text: str
    streams: str
    """Those whose watermark counts."""
    oracle: str
    waits: int = 0
    """How long after its time a row is final."""
    waiting: str = "o"
    """The streams whose rows wait.  DuckDB has the rows of b that count as c, and all that were in time as e."""


PAST = "o.v, x.v AS w FROM o ASOF {} JOIN x ON o.k = x.k AND o.ts {} x.ts"
QUERIES = {
    "dated": Asked(
        "SELECT o.v, r.v AS w FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k",
        "or",
        "SELECT o.v, r.v AS w FROM o ASOF JOIN r ON o.k = r.k AND o.ts >= r.ts WHERE r.v IS NOT NULL",
    ),
    "padded": Asked(
        "SELECT o.v, o.k, x.v AS w FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts AS x ON o.k = x.k",
        "or",
        "SELECT o.v, o.k, r.v AS w FROM o ASOF LEFT JOIN r ON o.k = r.k AND o.ts >= r.ts",
    ),
    "near": Asked(
        "SELECT o.v, b.v AS w FROM o ASOF LEFT JOIN b WITHIN INTERVAL '8' SECOND ON o.k = b.k AND o.ts >= b.ts",
        "ob",
        "SELECT o.v, CASE WHEN o.ts - b.ts < 8 THEN b.v END AS w FROM o ASOF LEFT JOIN b ON o.k = b.k AND o.ts >= b.ts",
    ),
    "before": Asked(
        "SELECT o.v, b.v AS w FROM o ASOF JOIN b ON o.k = b.k AND b.ts < o.ts WITHIN INTERVAL '9' SECOND",
        "ob",
        "SELECT o.v, b.v AS w FROM o ASOF JOIN b ON o.k = b.k AND o.ts > b.ts WHERE o.ts - b.ts < 9",
    ),
    "after": Asked(
        "SELECT o.v, b.v AS w FROM o WITHIN INTERVAL '6' SECOND ASOF LEFT JOIN b ON o.k = b.k AND o.ts <= b.ts",
        "ob",
        "SELECT o.v, CASE WHEN b.ts - o.ts < 6 THEN b.v END AS w FROM o ASOF LEFT JOIN b ON o.k = b.k AND o.ts <= b.ts",
        6,
    ),
    "both": Asked(
        "SELECT o.v, r.v AS w, b.v AS u, f.v AS z FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k AND r.v > 1"
        " ASOF LEFT JOIN b ON b.k = o.k AND b.ts <= o.ts LEFT JOIN f ON f.k = o.k",
        "orb",
        "SELECT o.v, r.v AS w, b.v AS u, f.v AS z FROM o ASOF JOIN r ON o.k = r.k AND o.ts >= r.ts"
        " ASOF LEFT JOIN b ON b.k = o.k AND b.ts <= o.ts LEFT JOIN f ON f.k = o.k WHERE r.v > 1",
    ),
    "two_streams": Asked(
        "SELECT o.v, b.v AS w, r.v AS x, u.v AS y FROM o JOIN b ON o.k = b.k"
        " JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k LEFT JOIN u FOR SYSTEM_TIME AS OF b.ts ON u.k = b.k",
        "obru",
        "SELECT o.v, b.v AS w, r.v AS x, u.v AS y FROM o JOIN c AS b ON o.k = b.k"
        " ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts ASOF LEFT JOIN u ON u.k = b.k AND b.ts >= u.ts"
        " WHERE r.v IS NOT NULL",
        waiting="ob",
    ),
    "one_table_twice": Asked(
        "SELECT o.v, b.v AS w, x.v AS x, y.v AS y FROM o JOIN b ON o.k <> b.k AND o.v < b.v"
        " LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts AS x ON x.k = b.k"
        " LEFT JOIN r FOR SYSTEM_TIME AS OF b.ts AS y ON y.k = b.k",
        "obr",
        "SELECT o.v, b.v AS w, x.v AS x, y.v AS y FROM o JOIN c AS b ON o.k <> b.k AND o.v < b.v"
        " ASOF LEFT JOIN r AS x ON x.k = b.k AND o.ts >= x.ts ASOF LEFT JOIN r AS y ON y.k = b.k AND b.ts >= y.ts",
        waiting="ob",
    ),
    "windows_between_streams": Asked(
        "SELECT o.v, b.v AS w, r.v AS x FROM o WITHIN INTERVAL '7' SECOND JOIN b WITHIN INTERVAL '4' SECOND"
        " ON o.k = b.k JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k",
        "obr",
        "SELECT o.v, b.v AS w, r.v AS x FROM o JOIN c AS b ON o.k = b.k AND b.ts < o.ts + 7 AND o.ts < b.ts + 4"
        " ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts WHERE r.v IS NOT NULL",
    ),
    "partners_that_come_later": Asked(
        "SELECT o.v, r.v AS x, b.v AS w FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k LEFT JOIN b ON b.k = o.k"
        " AND b.v > 10 AND EXISTS (SELECT 1 FROM b AS e WHERE e.k = o.k AND e.v > o.v)",
        "obr",
        "SELECT o.v, r.v AS x, b.v AS w FROM o ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts LEFT JOIN e AS b ON b.k = o.k"
        " AND b.v > 10 AND EXISTS (SELECT 1 FROM e WHERE e.k = o.k AND e.v > o.v) WHERE r.v IS NOT NULL",
    ),
    "a_derived_table": Asked(
        "SELECT d.x, COUNT(*) AS n, MAX(b.v) AS m FROM (SELECT o.k, r.v AS x FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts"
        " ON r.k = o.k) AS d LEFT JOIN b ON d.k = b.k AND b.v > 20 GROUP BY d.x",
        "obr",
        "SELECT r.v AS x, COUNT(*) AS n, MAX(b.v) AS m FROM o ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts"
        " LEFT JOIN e AS b ON o.k = b.k AND b.v > 20 WHERE r.v IS NOT NULL GROUP BY r.v",
    ),
    "parts_of_a_union": Asked(
        "SELECT o.v, r.v AS x FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k"
        " UNION ALL SELECT b.v, u.v AS x FROM b LEFT JOIN u FOR SYSTEM_TIME AS OF b.ts ON u.k = b.k",
        "obru",
        "SELECT o.v, r.v AS x FROM o ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts WHERE r.v IS NOT NULL"
        " UNION ALL SELECT b.v, u.v AS x FROM c AS b ASOF LEFT JOIN u ON u.k = b.k AND b.ts >= u.ts",
        waiting="ob",
    ),
}


def batches(rng: random.Random, count: int) -> list[Batch]:
    """Times go on, and some rows are late; a row of the table without a value says that its key is gone."""
    made, number = list[Batch](), 0
    for now in range(0, 6 * count, 6):
        batch: Batch = {}
        for name, late in LATENESS.items():
            batch[name] = []
            for _ in range(rng.randrange(6)):
                number += 1
                gone = name in ("r", "u") and rng.random() < 0.25
                time = now + rng.randrange(6) - rng.choice((0, 0, rng.randrange(2 * late)))
                batch[name].append((rng.choice((0, 1, 2)), max(time, 0), None if gone else number))
        made.append(batch)
    return made


class Clock:
    """Which rows are in time for a query, and where its watermark is."""

    def __init__(self, streams: str) -> None:
        self.streams = streams
        self.newest: dict[str, int] = {}
        self.kept: dict[str, list[Row]] = {name: [] for name in LATENESS}

    @property
    def mark(self) -> int | None:
        """The watermark when the next batch begins."""
        if any(name not in self.newest for name in self.streams):
            return None
        return min(self.newest[name] - LATENESS[name] for name in self.streams)

    def take(self, batch: Batch) -> int | None:
        """See a batch; the watermark with which it began."""
        mark = self.mark
        for name in self.streams:
            self.kept[name] += [row for row in batch[name] if mark is None or row[1] >= mark]
            self.newest |= (
                {name: max(self.newest.get(name, 0), *(row[1] for row in batch[name]))} if batch[name] else {}
            )
        return mark

    def answer(self, asked: Asked, mark: int | None, **more: pa.Table) -> list[str]:
        """What DuckDB says of the rows whose time has passed."""
        final = [row for row in self.kept["o"] if mark is not None and row[1] + asked.waits < mark]
        final = final if "o" in asked.waiting else self.kept["o"]
        with duckdb.connect(config={"threads": 1}) as con:
            con.register("o", rows(final))
            passed = [row for row in self.kept["b"] if mark is not None and row[1] < mark]
            con.register("c", rows(passed if "b" in asked.waiting else self.kept["b"]))
            con.register("e", rows(self.kept["b"]))
            for name in ("r", "u"):
                con.register(name, rows(list({row[:2]: row for row in self.kept[name]}.values())))
            for name, table in more.items():
                con.register(name, table)
            greatest = {row[:2]: row for row in sorted(self.kept["b"])}
            con.register("b", rows(list(greatest.values())))
            con.register("f", rows([(0, 0, 0), (1, 0, 1)]))
            return sorted(map(str, con.sql(asked.oracle).fetchall()))


def found(trial: Trial, name: str) -> list[str]:
    return sorted(str(tuple(row.values())) for row in trial.table(name).to_pylist())


def fed(batch: Batch, number: int) -> dict[str, pa.Table]:
    return {name: rows(values) for name, values in batch.items()} | (
        {} if number else {"f": rows([(0, 0, 0), (1, 0, 1)])}
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2))
def test_versions_that_are_final_are_met_once(seed: int) -> None:
    rng = random.Random(seed)
    s = session(workers=rng.randint(1, 3))
    for name, asked in QUERIES.items():
        s.query(name, asked.text)
    trial, clocks = Trial(s), {name: Clock(asked.streams) for name, asked in QUERIES.items()}
    answers = 0
    for number, batch in enumerate(batches(rng, 8)):
        trial.feed(fed(batch, number))
        for name, asked in QUERIES.items():
            answer = clocks[name].answer(asked, clocks[name].take(batch))
            assert found(trial, name) == answer, (seed, number, name)
            answers += len(answer)
    assert answers > 100


DATED = "JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k"
CHANGING = [
    f"SELECT o.v, c.v AS w, r.v AS x FROM o JOIN c ON c.k = o.k {DATED}",
    f"SELECT o.v, c.v AS w, r.v AS x FROM o LEFT JOIN c ON c.k = o.k LEFT {DATED}",
    f"SELECT o.v, r.v AS x FROM o {DATED} WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = o.k AND c.v > r.v)",
    f"SELECT o.v, r.v AS x, c.v AS w FROM o {DATED} FULL JOIN c ON c.k = o.k AND c.v > r.v",
    f"SELECT o.v, r.v AS x, (SELECT MAX(c.v) FROM c WHERE c.k = r.k) AS m FROM o LEFT {DATED}",
    f"SELECT c.v, d.x FROM c LEFT JOIN (SELECT o.k, r.v AS x FROM o LEFT {DATED}) d ON c.k = d.k",
]


@pytest.mark.parametrize("text", CHANGING)
def test_rows_that_are_taken_back_meet_the_version_that_they_met(text: str) -> None:
    op = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("op", pa.string())])
    chained = text.replace(f"LEFT {DATED}", "ASOF LEFT JOIN r ON r.k = o.k AND o.ts >= r.ts")
    asked = Asked(text, "or", chained.replace(DATED, "ASOF JOIN r ON r.k = o.k AND o.ts >= r.ts"))
    for seed in (1, 4, 5):
        rng, here, s = random.Random(seed), list[Row](), session()
        s.stream("c", weft.read.batches([op.empty_table()]), changes="op")
        s.query("q", text)
        trial, clock = Trial(s), Clock(asked.streams)
        for batch in batches(rng, 6):
            kept = [[row for row in batch[name] if row[2] is not None] for name in ("o", "r")]
            gone = [here.pop(rng.randrange(len(here))) for _ in range(rng.randrange(len(here) + 1))]
            new = [(rng.randrange(3), rng.randrange(9)) for _ in range(rng.randrange(4))]
            here += new
            said = [*((*row, "delete") for row in gone), *((*row, "insert") for row in new)]
            changes = pa.Table.from_pylist([dict(zip(op.names, row, strict=True)) for row in said], op)
            trial.feed({"o": rows(kept[0]), "r": rows(kept[1]), "c": changes})
            mark = clock.take({"o": kept[0], "r": kept[1]})
            now = pa.Table.from_pylist([dict(zip(op.names, row, strict=False)) for row in here], op.remove(2))
            assert found(trial, "q") == clock.answer(asked, mark, c=now), (seed, text)


def test_using_compares_the_columns_that_it_names() -> None:
    s = session()
    used = s.query("used", "SELECT o.v, r.v AS w FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts USING (k)").query
    on = "SELECT o.v, r.v AS w FROM o JOIN r FOR SYSTEM_TIME AS OF o.ts ON o.k = r.k"
    assert used == s.query("on", on).query


def test_a_session_that_ends_goes_on_with_the_same_versions(tmp_path: Path) -> None:
    some = {name: QUERIES[name] for name in ("padded", "near", "after", "two_streams", "windows_between_streams")}
    clocks = {name: Clock(asked.streams) for name, asked in some.items()}
    shown: dict[str, list[str]] = {name: [] for name in some}
    for number, batch in enumerate(batches(random.Random(4), 6)):
        s = session(tmp_path / "state", workers=1 + number // 3)
        for name, asked in some.items():
            s.query(name, asked.text)
        trial = Trial(s, state=tmp_path / "state", tables={"f": rows([(0, 0, 0), (1, 0, 1)])} if number else None)
        trial.feed(fed(batch, number))
        for name, asked in some.items():
            shown[name] = sorted(shown[name] + found(trial, name))
            assert shown[name] == clocks[name].answer(asked, clocks[name].take(batch)), (number, name)


def test_versions_that_nobody_can_meet_are_forgotten() -> None:
    s = session()
    s.query("q", QUERIES["dated"].text)
    trial, most = Trial(s), 0
    for now in range(0, 400, 10):
        trial.feed({"o": rows([(1, now, now)]), "r": rows([(1, now + step, step) for step in range(4)])})
        most = max(most, sum(trial.state_rows.values()))
    assert trial.table("q").num_rows == 38
    assert most < 80, "all 160 versions are still there, each in two stores"


def test_a_table_with_versions_takes_no_part_in_the_watermark_of_others() -> None:
    s = session()
    s.query("plain", "SELECT o.v, r.v AS w FROM o JOIN r ON r.k = o.k")
    s.query("windowed", "SELECT o.v FROM o JOIN b ON o.k = b.k JOIN r ON r.k = o.k WITHIN INTERVAL '5' SECOND")
    assert [[name for name, _ in clock.streams] for clock in Trial(s).topology.clocks] == [["b", "o"]]
    trial = Trial(s)
    trial.feed({"r": rows([(1, 50, 7)]), "o": rows([(1, 5, 1)])})
    trial.feed({"r": rows([(1, 9, 8)]), "o": rows([(1, 6, 2)])})
    assert found(trial, "plain") == ["(1, 7)", "(2, 8)"], "the present row is the one that came last"


def test_timestamps_and_deletions_by_a_column_make_versions() -> None:
    def at(*values: tuple[int, int, Any, str]) -> pa.Table:
        kinds = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us")), ("v", pa.float64()), ("op", pa.string())])
        listed = [{"k": k, "ts": ts * 1_000_000, "v": v, "op": op} for k, ts, v, op in values]
        return pa.Table.from_pylist(listed, kinds)

    s = weft.Session("never-made", workers=2)
    s.stream("o", weft.read.batches([at().drop_columns(["op"])]), event_time="ts")
    s.table("r", weft.read.batches([at()]), key=["k"], changes="op", event_time="ts")
    text = "SELECT o.v, x.v AS w FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts x ON x.k = o.k"
    s.query("q", text)
    trial = Trial(s)
    table = at((1, 10, 1.5, "insert"), (1, 20, 2.5, "update"), (1, 30, 2.5, "delete"), (1, 40, None, "insert"))
    stream = at(*((1, ts, ts, "") for ts in (5, 10, 15, 20, 29, 30, 35, 40, 41))).drop_columns(["op"])
    trial.feed({"o": stream, "r": table})
    trial.feed({"o": at((1, 90, 0, "")).drop_columns(["op"]), "r": at((2, 90, 0, "insert"))})
    trial.feed({})
    seen = {row["v"]: row["w"] for row in trial.table("q").to_pylist()}
    assert seen == {5: None, 10: 1.5, 15: 1.5, 20: 2.5, 29: 2.5, 30: None, 35: None, 40: None, 41: None}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SELECT o.v FROM o JOIN b FOR SYSTEM_TIME AS OF o.ts ON b.k = o.k", '"b" has no versions'),
        ("SELECT o.v FROM o JOIN f FOR SYSTEM_TIME AS OF o.ts ON f.k = o.k", '"f" has no versions'),
        ("SELECT r.v FROM r FOR SYSTEM_TIME AS OF o.ts JOIN o ON r.k = o.k", "stands behind JOIN"),
        ("SELECT r.v FROM o JOIN r FOR SYSTEM_TIME ON r.k = o.k", "AS OF is missing"),
        ("SELECT r.v FROM o JOIN r FOR SYSTEM_TIME AS OF o.v ON r.k = o.k", "as of another time than o.ts"),
        ("SELECT r.v FROM o JOIN r FOR SYSTEM_TIME AS OF CAST(o.ts AS DOUBLE) ON r.k = o.k", "different types"),
        ("SELECT r.v FROM o JOIN b USING (k) JOIN r FOR SYSTEM_TIME AS OF b.v ON r.k = o.k", "other time than b.ts"),
        (
            "SELECT r.v FROM (SELECT DISTINCT k, ts FROM o) d JOIN r FOR SYSTEM_TIME AS OF d.ts USING (k)",
            "a stream with",
        ),
        ("SELECT b.v FROM o ASOF JOIN b WITHIN INTERVAL '8' SECOND ON o.k = b.k AND o.v >= b.v", "than event times"),
        ("SELECT b.v FROM o ASOF JOIN b WITHIN INTERVAL '8' SECOND ON o.k = b.k AND o.ts <= b.ts", "how long a row"),
        ("SELECT o.v FROM o RIGHT JOIN r FOR SYSTEM_TIME AS OF o.ts ON r.k = o.k", "LEFT JOIN alone"),
    ],
)
def test_what_has_no_final_version_is_refused_with_a_cure(text: str, said: str) -> None:
    with pytest.raises(WeftError, match=said) as caught:
        session().query("q", text)
    assert caught.value.hint


def test_the_builder_asks_for_a_version() -> None:
    s = session()
    built = from_(rel("o")).join(rel("r", as_of="o.ts"), col("r.k") == col("o.k")).select("o.v", w="r.v")
    assert s.query("built", built).query == s.query("written", QUERIES["dated"].text).query


def test_envelopes_have_no_versions_since_a_deletion_has_no_time_of_its_own() -> None:
    row = pa.struct(list(SCHEMA))
    envelope = pa.schema([("before", row), ("after", row), ("op", pa.string())]).empty_table()
    s = weft.Session("never-made", workers=2)
    with pytest.raises(WeftError, match='format="debezium" and an event time') as caught:
        s.table("r", weft.read.batches([envelope]), key="k", format="debezium", event_time="ts")
    assert caught.value.hint
    s.table("r", weft.read.batches([envelope]), key="k", format="debezium")
