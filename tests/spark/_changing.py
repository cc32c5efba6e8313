"""A job over upserts that is killed: `python -m tests.spark._changing ROOT WORKERS PLANS CHANGES [POINT BATCH MARK]`.

Outer joins, first rows of groups, and the time of the batch.  Functions of the user write down what they are told.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from tests.spark._kit import hang_at

TEXTS = {
    "outer": "SELECT o.id, o.price, l.n FROM orders o FULL JOIN lines l ON l.id = o.id",
    "first": """SELECT c, id, price, ROW_NUMBER() OVER (PARTITION BY c ORDER BY price DESC, id) AS place FROM orders
                QUALIFY place <= 2""",
    "missing": "SELECT o.id FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lines l WHERE l.id = o.id AND l.n > 2)",
    "least": "SELECT l.id, l.n FROM lines l LEFT JOIN orders o ON o.id = l.id ORDER BY l.n, l.id, o.price LIMIT 5",
}
TIMED = "SELECT l.id, l.n, now() AS came FROM lines l"
BATCHES, KEYS = 3, 12


def make_input(root: Path) -> tuple[dict[int, tuple[int, int]], list[tuple[int, int]]]:
    """Write the files; the orders that are left, by key, and all lines."""
    rng, orders, lines = random.Random(4), dict[int, tuple[int, int]](), list[tuple[int, int]]()
    for number in range(BATCHES):
        new = [(rng.randrange(KEYS), rng.randrange(3), rng.randrange(100)) for _ in range(8)]
        ops = ["delete" if rng.random() < 0.25 else "upsert" for _ in new]
        for (key, c, price), op in zip(new, ops, strict=True):
            orders.pop(key, None)
            orders |= {key: (c, price)} if op == "upsert" else {}
        more = [(rng.randrange(KEYS), rng.randrange(5)) for _ in range(6)]
        lines += more
        write(root, "orders", number, {"id": [k for k, _, _ in new], "c": [c for _, c, _ in new],
                                       "price": [p for _, _, p in new], "op": ops})  # fmt: skip
        write(root, "lines", number, {"id": [key for key, _ in more], "n": [n for _, n in more]})
    return orders, lines


def write(root: Path, name: str, number: int, columns: dict[str, Any]) -> None:
    """One file of a stream."""
    (root / "in" / name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), root / "in" / name / f"{number}.parquet")


def main() -> None:
    """Run all that is there."""
    root, workers, _, _, *crash = sys.argv[1:]
    place = Path(root)
    session = weft.Session(place / "checkpoint", workers=int(workers), progress=False)
    session.stream("orders", weft.read.parquet(place / "in" / "orders", max_files=1), key=["id"], changes="op")
    session.stream("lines", weft.read.parquet(place / "in" / "lines", max_files=1))
    for name, text in TEXTS.items():
        session.query(name, text).to_parquet(place / "out" / name, mode="snapshot")

    def tell(df: Any, batch: int) -> None:
        with (place / "told").open("a") as file:
            file.writelines(f"{batch} {sorted(map(str, df.collect()))}\n")

    session.query("timed", TIMED).foreach_batch(tell)
    hang_at(session, crash)
    session.run()


if __name__ == "__main__":
    main()
