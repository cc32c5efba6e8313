"""The job that is killed: two topics in, one topic out.

`python -m tests.kafka._job ROOT WORKERS SERVERS,A,B,OUT 0 [POINT BATCH MARK]`
"""

from __future__ import annotations

import sys
from pathlib import Path

import weft
from tests.spark._kit import hang_at

COLUMNS = {"id": "BIGINT", "k": "BIGINT", "ts": "TIMESTAMP"}
PAIRS = """
    SELECT a.id AS aid, b.id AS bid
    FROM a WITHIN INTERVAL '60' SECOND JOIN b WITHIN INTERVAL '40' SECOND ON a.k = b.k
"""


def main() -> None:
    root, workers, place, _, *crash = sys.argv[1:]
    servers, a, b, out = place.split(",")
    s = weft.Session(Path(root) / "state", workers=int(workers))
    for name, topic in (("a", a), ("b", b)):
        source = weft.read.kafka(servers, topic, schema=COLUMNS, max_rows=100)
        s.stream(name, source, event_time="ts", lateness="1 day")
    s.query("q", PAIRS).to_kafka(servers, out, key="aid")
    hang_at(s, crash)
    print(s.run(), flush=True)


if __name__ == "__main__":
    main()
