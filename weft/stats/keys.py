"""Join keys under the names that statistics have for them.

A column goes by its name, any other expression over one alias by its SQL text without the alias, as `k + 1`.  Codes of
values are those of the key as it is compared, so what is said of a column says something of a key only if the two have
the same codes: an integer that was made wider.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, without_alias
from weft.expr.render import to_sql


def key_name(key: Expr) -> str:
    """The name of a key."""
    return key.name if isinstance(key, Column) else to_sql(without_alias(key))


def same_column(key: Expr) -> Column | None:
    """The column whose values a key has, code for code."""
    if isinstance(key, Column):
        return key
    if not isinstance(key, Call) or key.op != "cast" or not isinstance(key.args[0], Column):
        return None
    column = key.args[0]
    wider = _is_whole(column) and _is_whole(key) and key.type.bit_width >= column.type.bit_width  # type: ignore[union-attr]
    return column if wider else None


def key_names(key: Expr) -> Iterator[str]:
    """Names under which something may be known of a key, the nearest first."""
    yield key_name(key)
    column = same_column(key)
    if column is not None and column != key:
        yield column.name


def _is_whole(expr: Expr) -> bool:
    return expr.type is not None and pa.types.is_signed_integer(expr.type)
