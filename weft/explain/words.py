"""Numbers and expressions for people: three digits and a unit; event times and windows in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from weft.expr.model import Call, Column, Expr, Literal, columns, transform
from weft.expr.render import to_sql
from weft.optimizer.candidate import Candidate
from weft.optimizer.choose import Choice
from weft.optimizer.graph.layout import Layout, names
from weft.optimizer.graph.tree import Tree
from weft.optimizer.written.plan import write
from weft.query.duration import format_duration
from weft.query.model import TIME, Query
from weft.topology.spread import Axis, Regions, Spread

_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_WORDS = {"T": "trillion", "G": "billion", "M": "million", "k": "thousand"}
MOST = 8
"""How many things of a kind a line names."""
ROUTES = {
    "local": "here",
    "key": "one worker",
    "broadcast": "all workers",
    "scatter": "any worker",
    "spread": "its cells",
}
"""Where tuples go, in words."""


ORDERS = {"narrow": "subscriptions first", "join": "join first", "naive": "join first, naive"}
"""In which order subscriptions are asked, in words."""
JOINED = "on the worker that joins it"
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


def few(found: Iterable[str], separator: str = "; ") -> str:
    """A list that does not get long: the first things, and how many more there are.

    >>> few(["a", "b", "a"], ", ")
    'a, b'
    """
    items = list(dict.fromkeys(found))
    more = [f"and {len(items) - MOST} more"] if len(items) > MOST else []
    return separator.join(items[:MOST] + more)


def in_words(value: float) -> str:
    """Three digits, large numbers in words.

    >>> in_words(12), in_words(7.52e9), in_words(300_000)
    ('12', '7.52 billion', '300 thousand')
    """
    size, _, letter = number(value).partition(" ")
    return f"{size} {_WORDS[letter]}" if letter else size


def share(part: float) -> str:
    """How many pairs give a match.

    >>> share(1 / 300_000), share(0), share(1)
    ('300 thousand pairs give 1 match', 'no pair matches', 'every pair matches')
    """
    if part in (0, 1):
        return "every pair matches" if part else "no pair matches"
    return f"{in_words(1 / part)} pairs give 1 match"


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


def called_in(query: Query, aliases: Sequence[str]) -> str:
    """The aliases of a store; if they are all of a view, a WITH or a derived table, its name comes first."""
    found: dict[tuple[str, str], list[str]] = {}
    for relation in query.relations:
        for of in relation.inside:
            found.setdefault(of, []).append(relation.alias)
    whole = next((of for of, inside in found.items() if len(inside) > 1 and set(inside) == set(aliases)), None)
    if whole is None:
        return join_names(aliases)
    name, alias = whole
    return f"{name if name == alias else f'{name} {alias}'} ({join_names(aliases)})"


def shape(query: Query, tree: Tree) -> str:
    """A tree on one line: (c, (o, l)) keeps o + l."""
    if not tree.children:
        return names(query, tree.relations)[0]
    return f"({', '.join(shape(query, child) for child in tree.children)})"


def layout_shape(query: Query, layout: Layout) -> str:
    """A layout on one line: its tree, or the joins that it keeps; their number if there are many."""
    if not layout.lines:
        return shape(query, layout.tree)
    found = [join_names(names(query, store)) for store in layout.kept]
    kept = ", ".join(found) if len(found) <= MOST else f"{len(found)} joins"
    return shape(query, layout.tree) + (f", kept {kept}" if kept else "")


def place(placement: Sequence[str], spread: str | None) -> str:
    """Where rows of a store lie."""
    return spread or (f"by {', '.join(placement)}" if placement else "scattered")


def cells(found: Spread | None) -> str | None:
    """A spread in words: what rows do along each axis of their cube, or into how many ranges their values are cut."""
    if found is None:
        return None
    if isinstance(found, Regions):
        return f"by {len(found.workers)} ranges of {expression(found.key)}"
    workers = math.prod(axis.size for axis in found.axes)
    if len(found.axes) != 1:
        parts = ", ".join(f"{_axis(axis)} over {axis.size}" for axis in found.axes)
        return f"in a grid of {workers} workers: {parts}" if found.axes else "on one worker"
    [axis] = found.axes
    return f"copied to {_all(workers)}" if axis.kind == "copy" else f"{_axis(axis)} over {count(workers, 'worker')}"


def _all(workers: int) -> str:
    return {1: "the only worker", 2: "both workers"}.get(workers, f"all {workers} workers")


def _axis(axis: Axis) -> str:
    if axis.key is None:
        return {"random": "at random", "copy": "copied"}[axis.kind]
    heavy = f" ({count(len(axis.heavy), 'frequent value')} spread)" if axis.heavy else ""
    dealt = f" ({count(len(axis.domain), 'value')} dealt in turn)" if axis.domain else ""
    return f"by {expression(axis.key)}{dealt}{heavy}"


def plan_name(choice: Choice, candidate: Candidate) -> str:
    """What a plan is called: its strategy, or what it keeps."""
    if candidate.name == "by hand" and choice.known.made is not None:
        return "as before"
    kept = ", ".join(join_names(names(choice.query, store)) for store in candidate.layout.kept)
    named = f"keep {kept}" if candidate.name == "other" else candidate.name
    order, asked = candidate.layout.subscriptions, candidate.layout.asked
    whose = "" if asked is None else f" for {', '.join(join_names(names(choice.query, some)) for some in asked)}"
    return named if order is None else f"{named}, {ORDERS[order]}{whose}"


def plan_with(
    choice: Choice, placement: dict[int, str] | None = None, parallelism: dict[int, int] | None = None
) -> str:
    """The chosen tree with one thing changed, as a user writes it."""
    kept = write(choice.query, choice.chosen.layout).keep
    parts = [f"keep={list(kept)!r}"] if kept else []
    for name, given in (("placement", placement), ("parallelism", parallelism)):
        for store, value in (given or {}).items():
            members = names(choice.query, store)
            parts.append(f"{name}={ {members[0] if len(members) == 1 else members: value}!r}")
    return f"weft.Plan({', '.join(parts)})"


def table(rows: Sequence[Sequence[str]], indent: str) -> list[str]:
    """Rows as lines, with columns aligned."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)] if rows else []
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return [f"{indent}{line}".rstrip() for line in lines]
