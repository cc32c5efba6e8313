"""Nexmark's queries that Weft can answer: the answers are DuckDB's, after every batch, and the page tells the truth."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import weft
from bench import nexmark
from bench.published import IN_DUCKDB, NEXMARK
from tests.published import batches_of, check, rows_of_page

PAGE = Path(__file__).parent.parent / "docs" / "queries.md"
EVENTS = 10_000
SLOWER, PART, GAP = 1_000, 200, 7 * 3_600_000
"""Events come a thousand times as slowly as they are generated, with seven hours of nothing after each fifth of them:
many windows with several bids each, and more than one day."""


def events() -> dict[str, pa.Table]:
    """The three streams and a side input, spread over time."""
    made = nexmark.tables(EVENTS, seed=7)
    for name, table in made.items():
        for column in (f"{name[0]}_ts", "a_expires"):
            if column in table.schema.names:
                times = table[column].to_numpy()
                late = pa.array(times * SLOWER + times // PART * GAP)
                table = table.set_column(table.schema.names.index(column), column, late)
        made[name] = table
    made["bid"] = with_addresses(made["bid"])
    side = pa.table({"s_key": np.arange(300), "s_value": [f"value {i}" for i in range(300)]})
    return {**made, "side_input": side}


def with_addresses(bids: pa.Table) -> pa.Table:
    """Half of the addresses name a channel, and every fifth bid comes through one that has no number."""
    numbers = range(bids.num_rows)
    named = [f"&channel_id={i}" if i % 2 else "" for i in numbers]
    url = [f"https://shop/a{i % 7}/b{i % 3}/c/item.htm?query=1{named[i]}" for i in numbers]
    channel = [name if i % 5 else f"channel-{i}" for i, name in enumerate(bids["b_channel"].to_pylist())]
    at = bids.schema.names.index("b_channel")
    return bids.set_column(at, "b_channel", pa.array(channel)).append_column("b_url", pa.array(url))


def open_session(folder: Path) -> weft.Session:
    session = weft.Session(folder, workers=2, progress=False)
    for name, table in events().items():
        source = weft.read.batches([table.slice(0, 0)])
        if name == "side_input":
            session.table(name, source)
        else:
            session.stream(name, source, event_time=f"{name[0]}_ts", unit="ms")
    return session


@pytest.mark.parametrize("name", [*NEXMARK])
def test_nexmark_query_has_the_answer_of_duckdb_after_every_batch(name: str, tmp_path: Path) -> None:
    text = NEXMARK[name]
    batches = batches_of(events(), 3, fixed=["side_input"])
    assert check(open_session(tmp_path), text, batches, IN_DUCKDB.get(name))


def test_page_says_of_every_nexmark_query_whether_it_runs() -> None:
    said = rows_of_page(PAGE, "Nexmark")
    assert [*said] == [f"q{i}" for i in range(23)]
    assert {name for name, what in said.items() if what.startswith("runs")} == set(NEXMARK)


LACKING = {
    "session windows": "SELECT COUNT(*) AS n FROM bid GROUP BY session_window(b_ts, '10 seconds')",
}


@pytest.mark.parametrize("what", LACKING)
def test_what_the_page_calls_lacking_is_refused(what: str, tmp_path: Path) -> None:
    """If this fails, some more queries may run: see the page."""
    with pytest.raises(weft.WeftError):
        open_session(tmp_path).query("q", LACKING[what])
