"""The grammar of FROM.

    item {, item}       item: factor {JOIN factor [ON condition | USING (column, ...)]}
    factor: name [FOR SYSTEM_TIME AS OF time] [[AS] alias [(column, ...)]] [WITHIN length]
          | (SELECT ...) [AS] alias ... | (item)
    JOIN: [NATURAL] [INNER | LEFT | RIGHT | FULL [OUTER] | [LEFT] SEMI | [LEFT] ANTI] JOIN | CROSS JOIN
          | ASOF [INNER | LEFT [OUTER] | [LEFT] SEMI | [LEFT] ANTI] JOIN, with MATCH_CONDITION (times) before ON or not

A comma binds weaker than JOIN.  FROM is read as a tree.  One of inner joins alone is made flat: its parentheses mean
nothing, but for USING and NATURAL, which merge columns of what stands left and right of them.  `read` reads the SELECT
of a derived table up to its parenthesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from weft.errors import Span
from weft.expr.model import Expr, Udf, conjuncts
from weft.query.draft import (
    Condition,
    Draft,
    Item,
    Join,
    JoinKind,
    Source,
    Star,
    Tree,
    Using,
    Within,
    is_inner,
    joins,
)
from weft.sql import forms
from weft.sql.cursor import Cursor
from weft.sql.elements import Elements, read_elements, sees_elements
from weft.sql.expression import parse_condition
from weft.sql.interval import window_length
from weft.sql.refused import JOINS, refuse_clause, unsupported_clause
from weft.sql.snapshot import read_snapshot, sees_snapshot
from weft.sql.windowed import read_windows, sees_windows

ReadSelect = Callable[[Cursor], Draft]

_ENDS = (
    "JOIN", "WHERE", "GROUP", "HAVING", "WITHIN", "INNER", "CROSS", "NATURAL", "UNION", "EXCEPT",
    "INTERSECT", ";", ",", ")",
)  # fmt: skip


_EVERYWHERE = ("PUBLIC", "MAIN")
"""The schemas in which other systems have what has no schema."""


@dataclass(slots=True)
class Found:
    """What FROM says, as far as it is read."""

    sources: list[Source] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    usings: list[Using] = field(default_factory=list)
    tree: Tree | None = None
    """Where not all joins are inner joins."""


def read_from(cursor: Cursor, read: ReadSelect) -> Found:
    """Read what stands behind FROM."""
    found = Found()
    tree = _item(cursor, read, found.sources)
    while cursor.accept(","):
        tree = _beside(found.sources, tree, _item(cursor, read, found.sources))
    if not cursor.sees_any("ORDER", "QUALIFY", "WINDOW", *(("LIMIT",) if cursor.depth else ())):
        refuse_clause(cursor)
    _check_dated(cursor, found.sources, tree)
    named = any(join.using is not None and join.using.alias for join in joins(tree))
    if is_inner(tree) and not named and not any(source.lateral for source in found.sources):
        found.conditions = [condition for join in joins(tree) for condition in join.on]
        found.usings = [join.using for join in joins(tree) if join.using is not None]
    else:
        found.tree = tree
    return found


def _beside(sources: list[Source], left: Tree, right: Tree) -> Tree:
    """Two items of a comma list; LATERAL in the second one sees the first: a, (b LEFT JOIN c) is (a, b) LEFT JOIN c."""
    if isinstance(right, int):
        return Join("inner", left, right, asof=_is_dated(sources, right))
    reads = any(
        sources[side].lateral for join in joins(right) for side in (join.left, join.right) if isinstance(side, int)
    )
    if reads and all(join.kind not in ("right", "full") and join.using is None for join in joins(right)):
        return replace(right, left=_beside(sources, left, right.left))
    return Join("inner", left, right)


def _check_dated(cursor: Cursor, sources: list[Source], tree: Tree) -> None:
    """FOR SYSTEM_TIME AS OF stands right of a JOIN."""
    right = {join.right for join in joins(tree) if join.asof}
    for place, source in enumerate(sources):
        if source.as_of is not None and place not in right and source.span is not None:
            hint = "write the stream first: FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts r ON ..."
            raise cursor.fail(source.span, "FOR SYSTEM_TIME AS OF stands behind JOIN", hint=hint)


def _item(cursor: Cursor, read: ReadSelect, sources: list[Source]) -> Tree:
    """One factor and all that is joined to it."""
    first = len(sources)
    tree = _factor(cursor, read, sources)
    while (kind := _kind(cursor)) is not None:
        tree = _join(cursor, read, sources, (first, tree), kind)
    return tree


@dataclass(frozen=True, slots=True)
class _Kind:
    """The words before a table factor that is joined."""

    kind: JoinKind
    manner: OneOf["", "natural", "cross", "asof"]
    span: Span


def _kind(cursor: Cursor) -> _Kind | None:
    """Read the words up to JOIN, if they are those of a join."""
    start = cursor.at
    if cursor.accept("CROSS", "JOIN"):
        return _Kind("inner", "cross", cursor.span_from(start))
    manner: OneOf["", "natural", "asof"] = "natural" if cursor.accept("NATURAL") else ""
    if not manner and cursor.accept("ASOF"):
        manner = "asof"
    if not manner and cursor.accept("LEFT", "ASOF", "JOIN"):
        return _Kind("left", "asof", cursor.span_from(start))
    words = next((words for words in _KINDS if cursor.sees(*words, "JOIN") or _hinted(cursor, words)), None)
    if words is None:
        if manner == "asof":
            raise cursor.unexpected("JOIN is missing behind ASOF", "write ASOF JOIN or ASOF LEFT JOIN.")
        if manner or cursor.sees_any("CROSS", "INNER"):
            raise cursor.unexpected("JOIN is missing", "write CROSS JOIN, NATURAL JOIN or INNER JOIN.")
        return None
    cursor.read(*words)
    _ = cursor.sees("JOIN") or cursor.next()  # how it is joined is chosen by cost
    cursor.read("JOIN")
    if manner == "asof" and _KINDS[words] in ("right", "full"):
        hint = "exchange both sides, or use ASOF LEFT JOIN and a second query for the rows of the right side."
        raise cursor.fail(cursor.span_from(start), f"ASOF {words[0]} joins are not supported", hint=hint)
    return _Kind(_KINDS[words], manner, cursor.span_from(start))


def _hinted(cursor: Cursor, words: tuple[str, ...]) -> bool:
    """INNER HASH JOIN and the like."""
    return bool(words) and any(cursor.sees(*words, hint, "JOIN") for hint in ("HASH", "MERGE", "LOOKUP"))


_KINDS: dict[tuple[str, ...], JoinKind] = {
    (): "inner", ("INNER",): "inner", ("LEFT",): "left", ("LEFT", "OUTER"): "left", ("RIGHT",): "right",
    ("RIGHT", "OUTER"): "right", ("FULL",): "full", ("FULL", "OUTER"): "full", ("SEMI",): "semi", ("ANTI",): "anti",
    ("LEFT", "SEMI"): "semi", ("LEFT", "ANTI"): "anti",
}  # fmt: skip


def _join(cursor: Cursor, read: ReadSelect, sources: list[Source], left: tuple[int, Tree], how: _Kind) -> Tree:
    """The right side of a join and its condition; in `a JOIN b JOIN c ON p ON q` the second JOIN is a right side."""
    (first, tree), middle = left, len(sources)
    right = _factor(cursor, read, sources)
    if how.manner in ("", "asof"):
        while not cursor.sees_any("ON", "USING") and (inner := _kind(cursor)) is not None:
            right = _join(cursor, read, sources, (middle, right), inner)
    sides = range(first, middle), range(middle, len(sources))
    if how.manner == "natural":
        return Join(how.kind, tree, right, (), Using(None, *sides, how.span), how.span)
    is_dated = _is_dated(sources, right)
    if how.manner == "cross":
        return Join("inner", tree, right, (), None, how.span, is_dated)
    matched = _matched(cursor) if how.manner == "asof" else ()
    on, using = _join_condition(cursor, sources, *sides)
    on = (*on, *matched)
    if is_dated and how.kind in ("right", "full"):
        hint = "write the stream on the left side."
        raise cursor.fail(how.span, "FOR SYSTEM_TIME AS OF stands in JOIN and LEFT JOIN alone", hint=hint)
    return Join(how.kind, tree, right, on, using, how.span, is_dated or how.manner == "asof")


def _is_dated(sources: list[Source], right: Tree) -> bool:
    return isinstance(right, int) and sources[right].as_of is not None


def _matched(cursor: Cursor) -> tuple[Condition, ...]:
    """MATCH_CONDITION (a.ts >= b.ts) before ON: the comparison of times of an ASOF JOIN, written by itself."""
    if not cursor.accept("MATCH_CONDITION"):
        return ()
    return tuple(Condition(part, cursor.text) for part in conjuncts(parse_condition(cursor)))


def _join_condition(
    cursor: Cursor, sources: list[Source], left: range, right: range
) -> tuple[tuple[Condition, ...], Using | None]:
    start = cursor.at
    if cursor.sees("USING") and not cursor.sees("USING", "SAMPLE"):
        cursor.next()
        columns = read_names(cursor, "USING (column, ...).")
        alias = cursor.name("a name after AS").text if cursor.accept("AS") else ""
        return (), Using(columns, left, right, cursor.span_from(start), alias)
    refuse_clause(cursor)
    if not cursor.accept("ON"):
        raise cursor.unexpected(
            f'JOIN "{sources[-1].alias}" has no ON',
            hint="write ON condition or USING (column), or CROSS JOIN and the condition in WHERE.",
        )
    return tuple(Condition(part, cursor.text) for part in conjuncts(read_condition(cursor, "ON"))), None


def read_names(cursor: Cursor, form: str) -> tuple[str, ...]:
    """Read names in parentheses."""
    cursor.expect("(", form)
    names = [cursor.name("a column").text]
    while cursor.accept(","):
        names.append(cursor.name("a column").text)
    cursor.expect(")", form)
    return tuple(names)


def read_condition(cursor: Cursor, clause: str) -> Expr:
    """Read the condition of a clause."""
    ends = cursor.at_end or cursor.sees_any(*_ENDS)
    if ends or unsupported_clause(cursor) or (cursor.token.upper in JOINS and cursor.peek().upper != "("):
        raise cursor.unexpected(f"{clause} has no condition", f"write a comparison after {clause}.")
    return parse_condition(cursor)


def _factor(cursor: Cursor, read: ReadSelect, sources: list[Source]) -> Tree:
    if sees_windows(cursor):
        sources.append(_windowed(cursor))
        return len(sources) - 1
    if sees_snapshot(cursor):
        sources.append(_snapshot(cursor))
        return len(sources) - 1
    if sees_elements(cursor):
        sources.append(_elements(cursor, is_first=not sources))
        return len(sources) - 1
    if cursor.sees("LATERAL"):
        sources.append(_lateral(cursor, read, is_first=not sources))
        return len(sources) - 1
    if cursor.sees("(") and not forms.is_select(cursor):
        return _parenthesis(cursor, read, sources)
    sources.append(_derived(cursor, read) if cursor.sees("(") else _stream(cursor))
    return len(sources) - 1


def _snapshot(cursor: Cursor) -> Source:
    """A table as it is now."""
    start = cursor.at
    name = read_snapshot(cursor)
    alias, columns = _alias(cursor)
    now = Condition(Udf("now", (), None, name.span), cursor.text)
    return Source(name.text, alias or name.text, None, cursor.span_from(start), columns=columns, as_of=now)


def _elements(cursor: Cursor, *, is_first: bool) -> Source:
    """UNNEST(list) [WITH ORDINALITY], generate_series(a, b)."""
    start = cursor.at
    found = read_elements(cursor, is_first=is_first)
    made = _source(cursor, start, "", found) if isinstance(found, Draft) else None
    if made is not None:
        return made if made.columns else replace(made, columns=(made.alias,))
    assert isinstance(found, Elements)
    alias, columns = _alias(cursor)
    return Source(
        "", alias or found.name, None, cursor.span_from(start), None, None, columns,
        lateral=True, elements=Condition(found.listed, cursor.text), ordinality=found.ordinality,
    )  # fmt: skip


def _lateral(cursor: Cursor, read: ReadSelect, *, is_first: bool) -> Source:
    """LATERAL (SELECT ...) AS alias."""
    start = cursor.at
    if cursor.peek().upper != "(" or not forms.is_select(cursor, 1):
        hint = "LATERAL is followed by a SELECT in parentheses, UNNEST(list) or generate_series(first, last)."
        raise cursor.fail(cursor.token.span, "LATERAL with a function is not supported", hint=hint)
    cursor.next()
    return replace(_derived(cursor, read), lateral=not is_first, span=cursor.span_from(start))


def _parenthesis(cursor: Cursor, read: ReadSelect, sources: list[Source]) -> Tree:
    behind = forms.behind(cursor, 0)
    if cursor.is_name(behind) or cursor.peek(behind).upper == "AS":
        sources.append(_aliased_join(cursor, read))
        return len(sources) - 1
    cursor.next()
    tree = _item(cursor, read, sources)
    refuse_clause(cursor)
    cursor.expect(")", "the parenthesis is never closed.")
    return tree


def _aliased_join(cursor: Cursor, read: ReadSelect) -> Source:
    """(a JOIN b ...) AS alias: the same as (SELECT * FROM a JOIN b ...) AS alias."""
    start = cursor.at
    cursor.next()
    found = read_from(cursor, read)
    cursor.expect(")", "the parenthesis is never closed.")
    text, star = cursor.source(cursor.span_from(start)), Item(Star(), None, cursor.text)
    draft = Draft(
        tuple(found.sources), tuple(found.conditions), (star,), None, cursor.text,
        usings=tuple(found.usings), tree=found.tree,
    )  # fmt: skip
    return _source(cursor, start, text, draft)


def _derived(cursor: Cursor, read: ReadSelect) -> Source:
    """(SELECT ...) AS alias."""
    start = cursor.at
    draft = read_parenthesised(cursor, read)
    return _source(cursor, start, cursor.source(cursor.span_from(start)), draft)


def _windowed(cursor: Cursor) -> Source:
    """TUMBLE(...) and its like: without an alias it is called as its stream is."""
    start = cursor.at
    found = read_windows(cursor)
    return _source(cursor, start, cursor.source(cursor.span_from(start)), found.draft, found.stream)


def _source(cursor: Cursor, start: int, text: str, draft: Draft, otherwise: str | None = None) -> Source:
    """A derived table with what stands behind it: an alias, columns, a window."""
    alias, columns = _alias(cursor)
    if alias is None:
        alias = otherwise or f"unnamed_subquery{start}"
    span = cursor.span_from(start)
    within, within_span = _window(cursor)
    return Source(text, alias, within, span, within_span, draft, columns)


def read_parenthesised(cursor: Cursor, read: ReadSelect) -> Draft:
    """Read a SELECT in parentheses."""
    cursor.expect("(", "a SELECT inside another one stands in parentheses.")
    cursor.depth += 1
    draft = read(cursor)
    cursor.depth -= 1
    refuse_clause(cursor)
    cursor.expect(")", "the parenthesis is never closed.")
    return draft


def _stream(cursor: Cursor) -> Source:
    start = cursor.at
    name = cursor.name("the name of a stream")
    if cursor.sees("("):
        raise cursor.fail(
            cursor.span_from(start),
            f"there is no table function {name.text}",
            hint="table functions are: UNNEST, generate_series, range, TUMBLE, HOP and CUMULATE.",
        )
    if name.upper in _EVERYWHERE and cursor.accept("."):
        name = cursor.name("the name of a stream")
    if cursor.sees("."):
        hint = f"declare it under one name, such as {name.text}_{cursor.peek().text}; public and main may stand here."
        raise cursor.fail(cursor.token.span, "a stream's name has one part", hint=hint)
    as_of = _as_of(cursor)
    alias, columns = _alias(cursor)
    as_of = as_of or _as_of(cursor)
    span = cursor.span_from(start)
    within, within_span = _window(cursor)
    return Source(name.text, alias or name.text, within, span, within_span, None, columns, as_of)


def _as_of(cursor: Cursor) -> Condition | None:
    """FOR SYSTEM_TIME AS OF time, or nothing."""
    if not cursor.accept("FOR", "SYSTEM_TIME"):
        return None
    form = "write FOR SYSTEM_TIME AS OF a.ts, with the event time of the stream that is joined."
    if not cursor.accept("AS", "OF"):
        raise cursor.unexpected("AS OF is missing", form)
    return Condition(parse_condition(cursor), cursor.text)


def _alias(cursor: Cursor) -> tuple[str | None, tuple[str, ...]]:
    """An alias, and new names of columns; both may be missing."""
    if cursor.accept("AS"):
        alias = cursor.name("an alias after AS").text
    elif cursor.is_name():
        alias = cursor.next().text
    else:
        return None, ()
    return alias, read_names(cursor, "alias (column, ...).") if cursor.sees("(") else ()


def _window(cursor: Cursor) -> tuple[Within, Span | None]:
    """WITHIN directly behind a table factor."""
    if not cursor.sees("WITHIN"):
        return None, None
    start = cursor.at
    cursor.next()
    length = window_length(cursor)
    return length, cursor.span_from(start)
