"""Five seeded streams in the shape of TPC-H, as folders of Parquet files.

The streams are those of a shop: nations and suppliers are tables that do not change, customers sign up during the
whole hour, orders arrive all the time, and each order's line items follow it within minutes.  So windows exclude real
matches, and a customer may be newer than the order that names it.

Rows are written in order of arrival, which is the event time plus up to `JITTER`: files are out of order
inside, but never by more than that.  File k of every stream covers the same stretch of time.  So a run with one file
per stream and batch sees the hour in its real order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SECOND = 1_000_000  # event times are microseconds
SPAN = 3600 * SECOND
JITTER = 5 * SECOND
LATENESS = "10 seconds"
FILES = 6

_START = np.datetime64("2026-01-01T08:00:00", "us")
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
_PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW", "5-NONE")
# fmt: off
_NATIONS = (
    "ALGERIA", "ARGENTINA", "BRAZIL", "CANADA", "EGYPT", "ETHIOPIA", "FRANCE", "GERMANY", "INDIA", "INDONESIA",
    "IRAN", "IRAQ", "JAPAN", "JORDAN", "KENYA", "MOROCCO", "MOZAMBIQUE", "PERU", "CHINA", "ROMANIA", "SAUDI ARABIA",
    "VIETNAM", "RUSSIA", "UNITED KINGDOM", "UNITED STATES"
)
# fmt: on
# By then half of the customers have signed up.
_OPENING = 60 * SECOND
_DELAY_OF_LINES = 240 * SECOND

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DemoStream:
    """One generated stream: where its files are and which column is its event time."""

    name: str
    folder: Path
    event_time: str | None
    """None for a table."""
    rows: int
    files: int


def write_streams(folder: Path, *, orders: int, seed: int) -> tuple[DemoStream, ...]:
    """Generate all streams under `folder`; the same `orders` and `seed` give the same bytes."""
    random = np.random.default_rng(seed)
    customers = max(orders // 10, 1)
    suppliers = max(orders // 100, 1)
    order_times = np.sort(random.integers(0, SPAN, orders))
    tables: dict[str, tuple[str | None, pa.Table]] = {
        "nation": (None, pa.table({"n_nationkey": np.arange(len(_NATIONS)), "n_name": _NATIONS})),
        "supplier": (None, _supplier(random, suppliers)),
        "customer": ("c_ts", _customer(random, customers)),
        "orders": ("o_ts", _orders(random, order_times, customers)),
        "lineitem": ("l_ts", _lineitem(random, order_times, suppliers)),
    }
    return tuple(_write(random, folder / name, name, time, table) for name, (time, table) in tables.items())


def _supplier(random: np.random.Generator, rows: int) -> pa.Table:
    return pa.table({"s_suppkey": np.arange(rows), "s_nationkey": random.integers(0, len(_NATIONS), rows)})


def _customer(random: np.random.Generator, rows: int) -> pa.Table:
    early = random.random(rows) < 0.5
    times = np.where(early, random.integers(0, _OPENING, rows), random.integers(_OPENING, SPAN, rows))
    return pa.table(
        {
            "c_custkey": np.arange(rows),
            "c_name": [f"Customer#{key:09d}" for key in range(rows)],
            "c_segment": _pick(random, _SEGMENTS, rows),
            "c_nationkey": random.integers(0, len(_NATIONS), rows),
            "c_ts": _clock(times),
        }
    )


def _orders(random: np.random.Generator, times: Longs, customers: int) -> pa.Table:
    rows = len(times)
    return pa.table(
        {
            "o_orderkey": np.arange(rows),
            "o_custkey": random.integers(0, customers, rows),
            "o_priority": _pick(random, _PRIORITIES, rows),
            "o_limit": np.round(random.uniform(90_000, 105_000, rows), 2),
            "o_ts": _clock(times),
        }
    )


def _lineitem(random: np.random.Generator, order_times: Longs, suppliers: int) -> pa.Table:
    orders = np.repeat(np.arange(len(order_times)), random.integers(1, 8, len(order_times)))
    rows = len(orders)
    delay = random.exponential(_DELAY_OF_LINES, rows).astype(np.int64)
    return pa.table(
        {
            "l_orderkey": orders,
            "l_partkey": random.integers(0, 200_000, rows),
            "l_suppkey": random.integers(0, suppliers, rows),
            "l_price": np.round(random.uniform(900, 105_000, rows), 2),
            "l_ts": _clock(order_times[orders] + delay),
        }
    )


def _pick(random: np.random.Generator, choices: tuple[str, ...], rows: int) -> pa.Array:
    return pa.array(choices).take(pa.array(random.integers(0, len(choices), rows)))


def _clock(microseconds: Longs) -> npt.NDArray[np.datetime64]:
    return _START + microseconds.astype("timedelta64[us]")


def _write(random: np.random.Generator, folder: Path, name: str, event_time: str | None, table: pa.Table) -> DemoStream:
    """Write the rows in order of arrival, one file for each of `FILES` equal stretches of time that has any."""
    if event_time is None:
        folder.mkdir(parents=True)
        pq.write_table(table, folder / "00000.parquet")
        return DemoStream(name, folder, None, table.num_rows, 1)
    times = (table[event_time].to_numpy() - _START).astype(np.int64)
    arrival = times + random.integers(0, JITTER, len(times))
    order = np.argsort(arrival, kind="stable")
    stretch = np.minimum(arrival[order] * FILES // (SPAN + JITTER), FILES - 1)
    folder.mkdir(parents=True)
    stretches = np.unique(stretch)
    for number in stretches:
        pq.write_table(table.take(pa.array(order[stretch == number])), folder / f"{number:05d}.parquet")
    return DemoStream(name, folder, event_time, table.num_rows, len(stretches))
