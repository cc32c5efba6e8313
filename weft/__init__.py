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

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weft import read
    from weft.console.serve import Console
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
    from weft.launch.ship import ship
    from weft.launch.spark import tuned_session as spark
    from weft.observe.counters import Counters
    from weft.observe.notice import Notice
    from weft.observe.progress import Progress
    from weft.observe.report import RunReport
    from weft.optimizer.written.plan import Plan
    from weft.query.builder import col, count, exists, fn, from_, lit, rel, value_of, window
    from weft.query.model import Query, Stream
    from weft.session import Session
    from weft.session.query import QueryHandle
    from weft.session.run import Handle
    from weft.stats.model import Statistics

__version__ = "0.2.0"

__all__ = [
    "Console",
    "Counters",
    "Handle",
    "HostError",
    "InternalError",
    "Notice",
    "ParseError",
    "Plan",
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
    "Statistics",
    "Stream",
    "WeftError",
    "__version__",
    "col",
    "count",
    "exists",
    "fn",
    "from_",
    "lit",
    "read",
    "rel",
    "ship",
    "spark",
    "value_of",
    "window",
]

_HOMES = {
    "weft.console.serve": ("Console",),
    "weft.errors": (
        "HostError", "InternalError", "ParseError", "PlanError", "QueryError",
        "SinkError", "SourceError", "StateError", "WeftError",
    ),
    "weft.launch.ship": ("ship",),
    "weft.observe.counters": ("Counters",),
    "weft.observe.notice": ("Notice",),
    "weft.observe.progress": ("Progress",),
    "weft.observe.report": ("RunReport",),
    "weft.optimizer.written.plan": ("Plan",),
    "weft.query.builder": ("col", "count", "exists", "fn", "from_", "lit", "rel", "value_of", "window"),
    "weft.query.model": ("Query", "Stream"),
    "weft.session.query": ("QueryHandle",),
    "weft.session.run": ("Handle",),
    "weft.session": ("Session",),
    "weft.stats.model": ("Statistics",),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: worker processes import parts of Weft and need no SQL front end."""
    if name in ("read", "testing"):
        return importlib.import_module(f"weft.{name}")
    if name == "spark":
        return importlib.import_module("weft.launch.spark").tuned_session
    if name not in _HOME:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext weft` calls: it brings `%%weft` for SQL in cells."""
    importlib.import_module("weft.notebook").load(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
