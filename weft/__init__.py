"""Weft: continuous multi-way joins over streams, exactly once, on Apache Spark.

    import weft

    s = weft.Session(checkpoint="state")
    s.stream("orders", weft.read.parquet("in/orders"), event_time="o_ts", lateness="10 seconds")
    s.stream("lines", weft.read.parquet("in/lines"), event_time="l_ts", lateness="10 seconds")
    q = s.query("matched", '''
        SELECT o.id, l.part FROM orders o JOIN lines l ON l.order_id = o.id
        WITHIN INTERVAL '10' MINUTE
    ''')
    q.to_parquet("out/matched")
    print(s.explain())
    print(s.run())
"""

from weft import read
from weft.errors import (
    HostError,
    InternalError,
    ParseError,
    PlanError,
    QueryError,
    SinkError,
    SourceError,
    StateError,
    WeftError,
)
from weft.observe.progress import Progress, RunReport
from weft.query.builder import col, fn, from_, lit, rel
from weft.query.model import Query, Stream
from weft.running import Handle
from weft.session import QueryHandle, Session

__version__ = "0.1.0"

__all__ = [
    "Handle",
    "HostError",
    "InternalError",
    "ParseError",
    "PlanError",
    "Progress",
    "Query",
    "QueryError",
    "QueryHandle",
    "RunReport",
    "Session",
    "SinkError",
    "SourceError",
    "StateError",
    "Stream",
    "WeftError",
    "__version__",
    "col",
    "fn",
    "from_",
    "lit",
    "read",
    "rel",
]
