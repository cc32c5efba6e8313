"""Functions that other systems have, and how a query says the same here: for hints."""

from __future__ import annotations

_DAYS = "x + INTERVAL '1' DAY"
_PARTS = "date_diff('day', first, last)"
_FIELDS = "the fields as columns of their own: a query makes no structs"
_SESSION = "LAG(time) OVER (...) is the time of the row before: a gap that is too long begins a session"

ELSEWHERE = {
    "approx_percentile": "quantile_cont(x, 0.5)",
    "approx_quantile": "quantile_cont(x, 0.5)",
    "charindex": "strpos(text, part)",
    "collect_list": "array_agg(x)",
    "convert": "CAST(x AS type)",
    "count_if": "COUNT(*) FILTER (WHERE condition)",
    "countif": "COUNT(*) FILTER (WHERE condition)",
    "date_add": _DAYS,
    "date_sub": "x - INTERVAL '1' DAY",
    "dateadd": _DAYS,
    "explode": "UNNEST(list) AS u (x) in FROM",
    "from_unixtime": "to_timestamp(seconds)",
    "getdate": "now()",
    "iif": "if(condition, x, y)",
    "isnull": "x IS NULL",
    "named_struct": _FIELDS,
    "nvl2": "CASE WHEN x IS NULL THEN b ELSE a END",
    "percentile": "quantile_cont(x, 0.5)",
    "percentile_approx": "quantile_cont(x, 0.5)",
    "pmod": "(x % n + n) % n",
    "posexplode": "UNNEST(list) WITH ORDINALITY AS u (x, at) in FROM",
    "session": _SESSION,
    "session_window": _SESSION,
    "size": "length(list)",
    "struct": _FIELDS,
    "timestamp_millis": "epoch_ms(x)",
    "timestampadd": _DAYS,
    "timestampdiff": _PARTS,
    "to_date": "CAST(x AS DATE)",
    "to_unixtime": "epoch(time)",
    "unix_timestamp": "epoch(time)",
}
"""Name -> what to write."""


def say_elsewhere(name: str) -> str | None:
    """The hint for the name of a function that other systems have.

    >>> say_elsewhere("COLLECT_LIST"), say_elsewhere("nothing")
    ('write array_agg(x).', None)
    """
    found = ELSEWHERE.get(name.lower())
    return None if found is None else f"{'' if found == _SESSION else 'write '}{found}."
