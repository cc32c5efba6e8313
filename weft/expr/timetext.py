"""Times as text: strftime, and Java's formats of dates, which Flink and Spark read.

What must hold: a format means the same here as in DuckDB's strftime, so only signs are known that mean a number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import QueryError, Span
from weft.expr.casts import Datum

_SIGNS = "YymdHMSj%"
_JAVA = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "DDD": "%j"}
_PART = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", re.DOTALL)


def check_pattern(pattern: str, span: Span | None) -> None:
    """Refuse signs that are not known."""
    for sign in re.findall(r"%(.?)", pattern, re.DOTALL):
        if not sign or sign not in _SIGNS:
            known = " ".join(f"%{one}" for one in _SIGNS)
            raise QueryError(f"strftime does not know %{sign}", hint=f"it knows {known}.", span=span)


def from_java(pattern: str, span: Span | None) -> str:
    """The format of strftime.

    >>> from_java("yyyy-MM-dd'T'HH:mm", None)
    '%Y-%m-%dT%H:%M'
    """
    return pattern if "%" in pattern else "".join(_sign(part, span) for part in _PART.finditer(pattern))


def _sign(part: re.Match[str], span: Span | None) -> str:
    if part["letters"] is None:
        return part["other"] or part["quoted"].replace("''", "'") or "'"
    if part["letters"] not in _JAVA:
        known = " ".join(_JAVA)
        raise QueryError(f"date_format does not know {part['letters']}", hint=f"it knows {known}.", span=span)
    return _JAVA[part["letters"]]


def strftime(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """A time as text, without parts of a second; a zoned one in UTC."""
    times, pattern = args
    if isinstance(times, pa.Scalar):
        return strftime((pa.array([times.as_py()], times.type), pattern), kind)[0]
    whole = pc.floor_temporal(pc.cast(times, pa.timestamp("us")), unit="second").cast(pa.timestamp("s"))
    return pc.strftime(whole, pattern.as_py())
