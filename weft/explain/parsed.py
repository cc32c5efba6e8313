"""Stage "parsed": the queries as they were written, no name looked up yet."""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import PlanError
from weft.explain.pages.parsed import ParsedPage, WrittenOutput, WrittenQuery, WrittenRelation
from weft.explain.subject import Subject
from weft.expr.model import Expr, aliases
from weft.expr.render import quote_name, to_sql
from weft.query.draft import Condition, Draft, Item, Star, Using, Within, has_subquery, joins
from weft.query.duration import format_duration


def page(subject: Subject) -> ParsedPage:
    """The page."""
    if unknown := sorted(set(subject.queries) - set(subject.drafts)):
        raise PlanError(
            f'how query "{unknown[0]}" was written is not known',
            detail="it was given as a finished query, not as SQL text or from the builder.",
            hint='use stage="resolved".',
        )
    return ParsedPage("parsed", tuple(_query(name, draft) for name, draft in _by_name(subject.drafts)))


def _by_name(drafts: Mapping[str, Draft]) -> list[tuple[str, Draft]]:
    return sorted(drafts.items(), key=lambda entry: entry[0])


def _query(name: str, draft: Draft) -> WrittenQuery:
    outer = () if draft.tree is None else tuple(joins(draft.tree))
    conditions = [*(condition for join in outer for condition in join.on), *draft.conditions]
    usings = [*draft.usings, *(join.using for join in outer if join.using is not None)]
    kinds = [f"{join.kind.upper()} JOIN" for join in outer]
    return WrittenQuery(
        name,
        tuple(WrittenRelation(source.alias, source.stream, _within(source.within)) for source in draft.sources),
        _within(draft.within),
        (*kinds, *map(_using, usings), *map(_text, conditions)),
        (*(() for _ in (*kinds, *usings)), *(_alias_names(condition.expr) for condition in conditions)),
        tuple(WrittenOutput(item.name, _item(item)) for item in draft.items),
        draft.distinct,
        tuple(map(_text, draft.group_by)),
        tuple(map(_text, draft.having)),
    )


def _within(within: Within) -> str | None:
    return format_duration(within) if isinstance(within, int) else within


def _using(using: Using) -> str:
    return "NATURAL" if using.columns is None else f"USING ({', '.join(map(quote_name, using.columns))})"


def _alias_names(expr: Expr | str) -> tuple[str, ...]:
    return () if isinstance(expr, str) else tuple(sorted(aliases(expr) - {""}))


def _item(item: Item) -> str:
    if isinstance(item.expr, Star):
        star = f"{quote_name(item.expr.alias)}.*" if item.expr.alias else "*"
        without = ", ".join(to_sql(column) for column in item.expr.without)
        return f"{star} EXCLUDE ({without})" if without else star
    return _text(item)


def _text(written: Condition | Item) -> str:
    """As SQL; what has a subquery in it as it was written."""
    expr = written.expr
    if isinstance(expr, str | Star):
        return str(expr)
    if has_subquery(expr):
        return " ".join(written.text[expr.span.start : expr.span.end + 1].split()) if expr.span else "a subquery"
    return to_sql(expr)
