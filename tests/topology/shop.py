"""Queries for tests of plans."""

from __future__ import annotations

import pyarrow as pa

import weft

TS = pa.timestamp("us")


def session(workers: int = 4) -> weft.Session:
    """A shop: customers without event time, orders and lines with one, clicks in milliseconds."""
    s = weft.Session("unused", workers=workers)
    declare(s, "customer", {"id": pa.int64(), "name": pa.string(), "region": pa.string()})
    declare(
        s,
        "orders",
        {"id": pa.int64(), "customer": pa.int64(), "price": pa.float64(), "ts": TS},
        event_time="ts",
        lateness=5,
    )
    declare(s, "lines", {"order": pa.int64(), "part": pa.string(), "price": pa.float64(), "ts": TS}, event_time="ts")
    declare(s, "clicks", {"user": pa.int64(), "page": pa.string(), "at": pa.int64()}, event_time="at", unit="ms")
    return s


def declare(s: weft.Session, name: str, columns: dict[str, pa.DataType], **options: object) -> None:
    s.stream(name, weft.read.batches([pa.schema(list(columns.items())).empty_table()]), **options)  # type: ignore[arg-type]


QUERIES = {
    "matched": """SELECT o.id, l.part FROM orders o JOIN lines l ON l."order" = o.id WITHIN INTERVAL '10' MINUTE""",
    "named": """SELECT c.name, o.id FROM customer c JOIN orders o ON o.customer = c.id WHERE c.region = 'north'""",
    "near": """SELECT a.id AS first, b.id AS second FROM orders a, orders b
               WHERE abs(a.price - b.price) <= 0.5 AND a.id < b.id
                 AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' MINUTE""",
    "triangle": """SELECT o.id, l.part, k.page FROM orders o, lines l, clicks k
                   WHERE o.id = l."order" AND k.user = o.customer AND l.price > o.price AND k.user <> l."order"
                   WITHIN INTERVAL '1' HOUR""",
}
