"""What ORDER BY means where it stands around a SELECT whose rows must be there first.

    SELECT DISTINCT ... ORDER BY ... LIMIT n, and the same behind UNION and numbers of rows, become
    SELECT * FROM (SELECT DISTINCT ...) ORDER BY ... LIMIT n

What must hold: an order means what it means in the SELECT itself.  A bare name is that of an output, if one has it.
Anything else is an expression over the rows that are read: it is selected too, and not shown.  Rows that are made one,
or added by UNION, have only their outputs; there a column is the output that shows it, and no other of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Column, Expr, Literal, columns, transform, walk
from weft.query.derived import all_rows
from weft.query.draft import EVERY, Draft, Item, Star
from weft.query.names import find
from weft.query.overcall import is_over


def around(draft: Draft, wanted: Sequence[Expr]) -> tuple[Draft, tuple[Expr, ...]]:
    """SELECT * over all rows of a SELECT, and what expressions of it are there."""
    hidden: list[Item] = []
    shown = tuple(_shown(draft, expr, hidden) for expr in wanted)
    rows = all_rows(replace(draft, items=(*draft.items, *hidden), named=()), draft.text)
    if hidden:
        star = Star(without=tuple(Column("", str(item.name)) for item in hidden))
        rows = replace(rows, items=(Item(star, text=draft.text),))
    return replace(rows, named=draft.named), shown


def _shown(draft: Draft, wanted: Expr, hidden: list[Item]) -> Expr:
    if isinstance(wanted, Literal):
        return wanted  # the place of an output
    if draft.distinct or draft.unions or any(key.expr == EVERY for key in draft.group_by):
        return transform(wanted, lambda node: _output(draft, node) if isinstance(node, Column) else node)
    if _is_of_outputs(draft, wanted):
        return wanted
    name = f"#order{len(hidden)}"
    hidden.append(Item(wanted, name, draft.text))
    return Column("", name, None, wanted.span)


def _is_of_outputs(draft: Draft, wanted: Expr) -> bool:
    """Whether it is the name of an output, or made of names of numbers, which no row has that is read."""
    if isinstance(wanted, Column):
        return not wanted.alias and find(wanted.name, _names(draft)) is not None
    numbers = [item.name for item in draft.items if item.name and _is_number(item)]
    return any(not column.alias and find(column.name, numbers) is not None for column in columns(wanted))


def _is_number(item: Item) -> bool:
    return isinstance(item.expr, Expr) and any(map(is_over, walk(item.expr)))


def _names(draft: Draft) -> list[str]:
    named = (item.name or (item.expr.name if isinstance(item.expr, Column) else None) for item in draft.items)
    return [name for name in named if name]


def _output(draft: Draft, column: Column) -> Column:
    """A column as an output; it is not the one that has its name and is something else."""
    same = [item for item in draft.items if item.name and find(column.name, [item.name]) is not None]
    if column.alias and same and not any(_is_it(item.expr, column) for item in same):
        what = "UNION" if draft.unions else "SELECT DISTINCT"
        raise QueryError(
            f"ORDER BY reads a column that {what} does not show",
            detail=f"the output {column.name} is something else.",
            hint="order by an output, by its name or its number, or select the column too.",
            span=column.span,
        )
    return replace(column, alias="")


def _is_it(written: object, column: Column) -> bool:
    return (
        isinstance(written, Column)
        and find(written.name, [column.name]) is not None
        and (not written.alias or written.alias.lower() == column.alias.lower())
    )
