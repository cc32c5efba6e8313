"""Looking up names: first exactly, then ignoring case if only one fits; near misses for error messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def find(name: str, known: Iterable[str]) -> str | None:
    """The known name meant by `name`, if there is one.

    >>> find("ORDERS", ["orders", "lineitem"]), find("a", ["A", "a"]), find("AB", ["Ab", "aB"])
    ('orders', 'a', None)
    """
    names = list(known)
    if name in names:
        return name
    fitting = [other for other in names if other.lower() == name.lower()]
    return fitting[0] if len(fitting) == 1 else None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, if one is alike at all.

    >>> nearest("odrers", ["orders", "lineitem"])
    'orders'
    """
    by_lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


COLUMN_HINT = "name one of these columns."


def suggestion(name: str, known: Iterable[str]) -> str | None:
    """The hint "did you mean ...?", or None."""
    close = nearest(name, known)
    return f'did you mean "{close}"?' if close else None
