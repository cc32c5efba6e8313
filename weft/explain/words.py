"""Numbers and expressions for people: three digits and a unit; event times and windows in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from weft.expr.model import Call, Column, Expr, Literal, columns, transform
from weft.expr.render import to_sql
from weft.optimizer.graph.layout import Layout, names
from weft.optimizer.graph.tree import Tree
from weft.query.duration import format_duration
from weft.query.model import Query
from weft.topology.model import TIME
from weft.topology.spread import Axis, Regions, Spread

_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
ROUTES = {
    "local": "here",
    "key": "one worker",
    "broadcast": "all workers",
    "scatter": "any worker",
    "spread": "its cells",
}
"""Where tuples go, in words."""


JOINED = "the worker that joins it"
"""Where an intermediate result lies in a cube."""


def number(value: float) -> str:
    """Three digits.

    >>> number(0), number(12.345), number(1234567), number(999.6)
    ('0', '12.3', '1.23 M', '1 k')
    """
    short = float(f"{value:.3g}")
    for size, letter in _SIZES:
        if abs(short) >= size:
            return f"{short / size:.3g} {letter}"
    return f"{short:.3g}"


def count(many: int, noun: str) -> str:
    """A number with its noun.

    >>> count(1, "worker"), count(2, "batch")
    ('1 worker', '2 batches')
    """
    return f"{many} {noun}" + ("" if many == 1 else "es" if noun.endswith("ch") else "s")


def verb(many: int, word: str) -> str:
    """The form of a verb that goes with a number.

    >>> verb(1, "grow"), verb(2, "grow"), verb(1, "be"), verb(2, "be")
    ('grows', 'grow', 'is', 'are')
    """
    return ("is" if many == 1 else "are") if word == "be" else f"{word}s" if many == 1 else word


def share(part: float) -> str:
    """A share of pairs: one in so many."""
    return "none" if part == 0 else "all" if part == 1 else f"1 in {number(1 / part)}"


def expression(expr: Expr) -> str:
    """SQL, with event times and windows in words."""
    match expr:
        case Column(alias, name) if name == TIME:
            return f"{alias}.time" if alias else "time"
        case Call("+" | "-" as op, (Column(_, name) as time, Literal(amount))) if name == TIME and isinstance(
            amount, int
        ):
            return f"{expression(time)} {op} {format_duration(amount)}"
        case Call("<" | ">" | "<=" | ">=" as op, (left, right)) if any(c.name == TIME for c in columns(expr)):
            return f"{expression(left)} {op} {expression(right)}"
        case _:
            return to_sql(expr)


def expressions(found: Iterable[Expr], called: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Each of them as text; `called` says by label how a query calls its relations."""
    return tuple(expression(expr if called is None else call(expr, called)) for expr in found)


def call(expr: Expr, called: Mapping[str, str]) -> Expr:
    """The expression with aliases in the place of labels."""
    return transform(
        expr, lambda node: replace(node, alias=called[node.alias]) if isinstance(node, Column) and node.alias else node
    )


def duration(micros: int | None) -> str:
    """A length of time; None is for ever."""
    return "for ever" if micros is None else format_duration(micros)


def column(name: str, called: Mapping[str, str]) -> str:
    """A column of a store, with an alias in the place of its label; event times in words."""
    label, dot, own = name.rpartition(".") if name.partition(".")[0] in called else ("", "", name)
    return f"{called.get(label, '')}{dot}{'time' if dot and own == TIME else own}"


def is_exclusive(reason: str) -> bool:
    """Whether the reason to keep rows is a window, whose end is not part of it."""
    return reason.rpartition("; ")[2].startswith("window")


def join_names(aliases: Sequence[str]) -> str:
    """The aliases of a store."""
    return " + ".join(aliases)


def shape(query: Query, tree: Tree) -> str:
    """A tree on one line: (c, (o, l)) keeps o + l."""
    if not tree.children:
        return names(query, tree.relations)[0]
    return f"({', '.join(shape(query, child) for child in tree.children)})"


def layout_shape(query: Query, layout: Layout) -> str:
    """A layout on one line: its tree, or the joins that it keeps."""
    if not layout.lines:
        return shape(query, layout.tree)
    kept = ", ".join(join_names(names(query, store)) for store in layout.kept)
    return shape(query, layout.tree) + (f", kept {kept}" if kept else "")


def place(placement: Sequence[str], spread: str | None) -> str:
    """Where rows of a store lie."""
    return f"on {spread}" if spread else f"by {', '.join(placement)}" if placement else "scattered"


def cells(found: Spread | None) -> str | None:
    """A spread in words: what rows do along each axis of their cube, or into how many ranges their values are cut."""
    if found is None:
        return None
    if isinstance(found, Regions):
        return f"ranges of {expression(found.key)}, {len(found.workers)} of them"
    axes = [f"{axis.size} {_axis(axis)}" for axis in found.axes]
    return f"cube of {' x '.join(axes)}" if axes else "one worker"


def _axis(axis: Axis) -> str:
    if axis.key is None:
        return {"random": "at random", "copy": "copies"}[axis.kind]
    heavy = f", {count(len(axis.heavy), 'heavy value')} spread" if axis.heavy else ""
    dealt = f", {count(len(axis.domain), 'value')} dealt in turn" if axis.domain else ""
    return f"by {expression(axis.key)}{dealt}{heavy}"


def table(rows: Sequence[Sequence[str]], indent: str) -> list[str]:
    """Rows as lines, with columns aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [f"{indent}{line}".rstrip() for line in lines]
