"""Join keys: what equalities compare, and the names that statistics have for it.

A column has its own name, any other expression over one alias its SQL text without the alias, as `k + 1`.  Codes of
values are those of the key as it is compared.  So statistics of a column hold for a key over it only if both have the
same codes: if the key is the column itself, or an integer column cast to a wider type.
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
    """The column whose values have the same codes as the key, if there is one."""
    if isinstance(key, Column):
        return key
    if not isinstance(key, Call) or key.op != "cast" or not isinstance(key.args[0], Column):
        return None
    column = key.args[0]
    wider = _is_whole(column) and _is_whole(key) and key.type.bit_width >= column.type.bit_width  # type: ignore[union-attr]
    return column if wider else None


def key_names(key: Expr) -> Iterator[str]:
    """Names under which statistics of a key may be found, the most specific first."""
    yield key_name(key)
    column = same_column(key)
    if column is not None and column != key:
        yield column.name


def is_equality(predicate: Expr) -> bool:
    """Whether a predicate sets a key of one alias equal to a key of another."""
    if not isinstance(predicate, Call) or predicate.op != "=":
        return False
    left, right = (aliases(arg) for arg in predicate.args)
    kinds = {arg.type for arg in predicate.args}
    return len(left) == len(right) == 1 and left != right and len(kinds) == 1 and has_codes(*kinds)


def find_keys(alias: str, equalities: Iterable[Expr]) -> list[Expr]:
    """The keys of an alias in some equalities."""
    return [arg for predicate in equalities for arg in children(predicate) if aliases(arg) == {alias}]


def with_alias(alias: str, key: Expr) -> Expr:
    """A key over the rows of an alias."""
    return transform(key, lambda node: replace(node, alias=alias) if isinstance(node, Column) else node)


def _is_whole(expr: Expr) -> bool:
    return expr.type is not None and pa.types.is_signed_integer(expr.type)
