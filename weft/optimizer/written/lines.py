"""Lines as people write them: what is made, whose new tuples make it, and the stores they look into.

What must hold: a line meets every other relation of what it makes once.  The results, and every join that a line looks
into, have one line for each alias that can be the newest in them: each stream, or each table where there are only
tables.  Nothing else is made.  A store lies by expressions that equalities offer, or by columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import PlanError
from weft.expr.model import Column, Expr
from weft.expr.render import to_sql
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.layout import Home, Target, mask, names
from weft.optimizer.graph.placement import keys
from weft.query.model import Query

Looks = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
"""(Aliases of a store, texts of its keys), in order."""
WrittenLine = tuple[tuple[str, ...], str, Looks]
"""(Aliases of what is made, alias that starts, what it looks into)."""
Lines = dict[tuple[int, int], tuple[Target, ...]]


def write_lines(query: Query, lines: Mapping[tuple[int, int], Sequence[Target]]) -> list[WrittenLine]:
    """Lines in words."""
    return [
        (
            names(query, goal),
            query.aliases[start.bit_length() - 1],
            tuple((names(query, store), tuple(map(to_sql, home))) for store, home in targets),
        )
        for (goal, start), targets in lines.items()
    ]


def read_lines(query: Query, written: Sequence[WrittenLine]) -> Lines:
    """Lines in terms of a query; an error says what is wrong with them."""
    lines: Lines = {}
    for goal, start, looks in written:
        for alias in (start, *goal, *(alias for store, _ in looks for alias in store)):
            _require_alias(query, alias)
        targets = tuple((mask(query, store), _home(query, mask(query, store), texts)) for store, texts in looks)
        line = mask(query, goal), mask(query, [start])
        if line in lines:
            raise PlanError(f'two lines lead from "{start}" to {"+".join(goal)}', hint="leave one of them out.")
        lines[line] = targets
        _check_line(query, *line, targets)
    _check_goals(query, lines)
    return lines


def _require_alias(query: Query, alias: str) -> None:
    if alias not in query.aliases:
        raise PlanError(
            f'the plan names "{alias}"',
            detail=f"the query has the aliases {', '.join(query.aliases)}.",
            hint="name aliases of the query.",
        )


def _check_line(query: Query, goal: int, start: int, targets: Sequence[Target]) -> None:
    met = start
    for store, _ in targets:
        if store & met or store & ~goal or store == goal:
            met = 0
            break
        met |= store
    if met != goal:
        raise PlanError(
            f'a line from "{names(query, start)[0]}" does not make {"+".join(names(query, goal))}',
            detail=f"it looks into {', '.join('+'.join(names(query, store)) for store, _ in targets) or 'nothing'}.",
            hint="a line meets each other alias of what it makes once.",
        )


def _check_goals(query: Query, lines: Lines) -> None:
    whole = (1 << len(query.relations)) - 1
    tables = sum(1 << i for i, relation in enumerate(query.relations) if relation.stream.table)
    asked = {store for targets in lines.values() for store, _ in targets if store.bit_count() > 1}
    made = {goal for goal, _ in lines}
    for goal in sorted({whole} | asked | made):
        wanted = {1 << i for i in bits(goal & ~tables or goal)}
        given = {start for made_here, start in lines if made_here == goal}
        if wanted != given or goal not in {whole} | asked:
            raise PlanError(
                f"{'+'.join(names(query, goal))} has lines from {_spell(query, given)}",
                detail=f"needed are lines from {_spell(query, wanted if goal in {whole} | asked else set())}.",
                hint="results and joins that are looked into have a line from each stream; nothing else has any.",
            )


def _spell(query: Query, starts: set[int]) -> str:
    return ", ".join(names(query, start)[0] for start in sorted(starts)) or "none"


def _home(query: Query, store: int, texts: Sequence[str]) -> Home:
    usable: dict[str, Expr] = {}
    for alias in names(query, store):
        schema = query.relation(alias).stream.schema
        usable |= {to_sql(c): c for c in (Column(alias, f.name, f.type) for f in schema)}
    usable |= {to_sql(expr): expr for expr in keys(query, store, {})}
    if unknown := [text for text in texts if text not in usable]:
        raise PlanError(
            f'"{unknown[0]}" cannot place "{"+".join(names(query, store))}"',
            detail=f"it has {', '.join(usable) or 'nothing'}.",
            hint="use some of these, or None to scatter the rows.",
        )
    return tuple(usable[text] for text in texts)
