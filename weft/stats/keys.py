"""Join keys: what equalities compare, and the names that statistics have for it.

A column goes by its name, any other expression over one alias by its SQL text without the alias, as `k + 1`.  Codes of
values are those of the key as it is compared, so what is said of a column says something of a key only if the two have
the same codes: an integer that was made wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, aliases, children, transform, without_alias
from weft.expr.render import to_sql
from weft.kernels.codes import has_codes


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


def is_equality(predicate: Expr) -> bool:
    """Whether a predicate between two aliases compares one with the other."""
    if not isinstance(predicate, Call) or predicate.op != "=":
        return False
    left, right = (aliases(arg) for arg in predicate.args)
    kinds = {arg.type for arg in predicate.args}
    return len(left) == len(right) == 1 and left != right and len(kinds) == 1 and has_codes(*kinds)


def compared(alias: str, equalities: Iterable[Expr]) -> list[Expr]:
    """What equalities compare of an alias."""
    return [arg for predicate in equalities for arg in children(predicate) if aliases(arg) == {alias}]


def under(alias: str, key: Expr) -> Expr:
    """A key over the rows of an alias."""
    return transform(key, lambda node: replace(node, alias=alias) if isinstance(node, Column) else node)


def _is_whole(expr: Expr) -> bool:
    return expr.type is not None and pa.types.is_signed_integer(expr.type)
