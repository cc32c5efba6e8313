"""Which names a tree of joins shows, and what each of them means.

A name is looked up exactly first and then ignoring case, if only one fits.  Every column gets the alias of the source
that it belongs to; sources of subqueries may have another alias than the one that is written, so that all aliases of
a query differ.  USING and NATURAL merge two columns into one: the left one, of a RIGHT JOIN the right one, of a FULL
JOIN whichever is not NULL.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError, Span
from weft.expr.model import Call, Column, Expr, Literal, Udf, transform
from weft.expr.render import quote_text
from weft.query.aggregates import PARTS, WINDOW
from weft.query.draft import JoinKind, Star, Using
from weft.query.elsewhere import say_elsewhere
from weft.query.names import COLUMN_HINT, find, suggestion
from weft.query.parameters import PARAMETERS, REMOVED
from weft.query.visible import Visible

ALIAS_HINT = "name one of these; columns outside of a derived table are read behind LATERAL, or joined around it."
MOMENTS = ("current_timestamp", "current_date", "localtimestamp")
"""Functions that are called without parentheses, where no column has their name."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A column that a name may mean."""

    alias: str
    """As it is written; empty if it belongs to both sides of a join."""
    name: str
    value: Expr
    type: pa.DataType
    place: int = 0
    """Among the columns of its source."""

    def at(self, span: Span | None) -> Expr:
        """What the column stands for, as if it were written where its name is."""
        return transform(self.value, lambda node: replace(node, span=span))


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that can be seen at one place, in order."""

    columns: tuple[Shown, ...]
    merged: tuple[Shown, ...] = ()
    """Columns that USING has merged into others: only a name with an alias means them."""
    around: Scope | None = None
    """What a subquery sees of the query around it."""

    @classmethod
    def of(cls, written: str, alias: str, columns: Mapping[str, pa.DataType]) -> Scope:
        """What one source shows."""
        listed = enumerate(columns.items())
        return cls(tuple(Shown(written, name, Column(alias, name), kind, at) for at, (name, kind) in listed))

    @classmethod
    def of_table(cls, table: Visible) -> Scope:
        """What an entry of FROM shows; parameters are seen by their alias alone."""
        listed = enumerate(table.columns.items())
        shown = tuple(Shown(table.alias, name, value, value.type, at) for at, (name, value) in listed)
        return cls((), shown) if table.alias == PARAMETERS else cls(shown)

    @property
    def aliases(self) -> tuple[str, ...]:
        """Aliases as they are written, in order."""
        return tuple(dict.fromkeys(shown.alias for shown in (*self.columns, *self.merged) if shown.alias))

    def beside(self, other: Scope) -> Scope:
        """Both sides of a join."""
        return Scope((*self.columns, *other.columns), (*self.merged, *other.merged), self.around)

    def only(self, aliases: Collection[str]) -> Scope:
        """What some of the sources show."""
        return Scope(tuple(one for one in self.columns if one.alias in aliases))

    def without(self, gone: Collection[Shown]) -> Scope:
        """The same with some columns merged into others."""
        left = tuple(one for one in self.columns if one not in gone)
        return replace(self, columns=left, merged=(*self.merged, *(one for one in self.columns if one in gone)))

    def resolve(self, expr: Expr) -> Expr:
        """The expression with every column looked up."""
        return transform(expr, lambda node: self.meant(node) if isinstance(node, Column) else node)

    def star(self, star: Star) -> tuple[Shown, ...]:
        """What * or alias.* stands for."""
        found = self._starred(star)
        left = left_out(star, [(one.alias, one.name) for one in found])
        return tuple(replace(one, value=one.at(star.span)) for one in found if (one.alias, one.name) not in left)

    def _starred(self, star: Star) -> tuple[Shown, ...]:
        if not star.alias:
            return self.columns
        alias = self._alias(star.alias, star.span)
        mine = (shown for shown in (*self.columns, *self.merged) if shown.alias == alias)
        return tuple(sorted(mine, key=lambda shown: shown.place))

    def name_of(self, expr: Expr) -> str | None:
        """The name of its own that an expression has as an output: that of a column, or of a field of one."""
        if isinstance(expr, Call) and expr.op == "struct_extract" and isinstance(expr.args[1], Literal):
            return str(expr.args[1].value)
        if not isinstance(expr, Column):
            return None
        if self._is_window_part(expr):
            return expr.name.lower()
        found = self._find(expr)
        return found.name if found is not None else expr.name

    def alias_of(self, column: Column) -> str:
        """The alias, as it is written, that a column belongs to here; empty if it belongs to none, or to both sides."""
        found = self._find(column)
        return "" if found is None else found.alias

    def has(self, column: Column) -> bool:
        """Whether a column belongs here, not to a query around."""
        return self._find(column) is not None

    def meant(self, column: Column) -> Expr:
        """What a column stands for; a function that is called without parentheses is the call of it."""
        if self._is_window_part(column):
            return replace(column, alias=WINDOW, name=column.name.lower())
        scope: Scope | None = self
        while scope is not None:
            found = scope._find(column)
            if found is not None:
                return found.at(column.span)
            struct = scope._field(column)
            if struct is not None:
                return struct
            scope = scope.around
        if not column.alias and column.name.lower() in MOMENTS:
            return Udf(column.name, (), None, column.span)
        raise self._unknown(column)

    def _is_window_part(self, column: Column) -> bool:
        named = column.alias.lower() == WINDOW and column.name.lower() in PARTS
        return named and find(column.alias, self.aliases) is None

    def _find(self, column: Column) -> Shown | None:
        if column.alias:
            alias = find(column.alias, self.aliases)
            among = [one for one in (*self.columns, *self.merged) if one.alias == alias]
        else:
            among = [*self.columns]
        fitting = [one for one in among if one.name == column.name]
        fitting = fitting or [one for one in among if one.name.lower() == column.name.lower()]
        if len(fitting) > 1:
            raise QueryError(
                f'column "{column.name}" is ambiguous',
                detail=f"these aliases have one: {', '.join(one.alias for one in fitting)}.",
                hint=f"write {fitting[0].alias}.{column.name}.",
                span=column.span,
            )
        return fitting[0] if fitting else None

    def _field(self, column: Column) -> Expr | None:
        """`a.b` may also be field b of a column a."""
        if not column.alias or find(column.alias, self.aliases) is not None:
            return None
        owner = self._find(Column("", column.alias, None, column.span))
        if owner is None or not pt.is_struct(owner.type):
            return None
        return Call("struct_extract", (owner.at(column.span), Literal(column.name)), None, column.span)

    def _alias(self, name: str, span: Span | None) -> str:
        alias = find(name, self.aliases)
        if alias is not None:
            return alias
        if name == PARAMETERS:
            raise QueryError(
                "parameters are for subscriptions",
                detail="a row of parameters is a subscription; a query, or a SELECT inside another, has none.",
                hint="use s.subscriptions(name, sql, parameters=...), or put the value into the text.",
                span=span,
            )
        known = [alias for alias in self.aliases if alias != PARAMETERS]
        raise QueryError(
            f'there is no alias "{name}"',
            detail=f"aliases are: {', '.join(known)}.",
            hint=suggestion(name, known) or say_elsewhere(name) or ALIAS_HINT,
            span=span,
        )

    def _unknown(self, column: Column) -> QueryError:
        alias = self._alias(column.alias, column.span) if column.alias else ""
        among = [one for one in (*self.columns, *self.merged) if one.alias == alias] if alias else self.columns
        names = [one.name for one in among if one.name != REMOVED]
        if not alias:
            listed = ", ".join(f"{one.alias}.{one.name}" for one in among)
            message, detail = f'there is no column "{column.name}"', f"columns are: {listed}."
        elif alias == PARAMETERS:
            message = f'there is no parameter ":{column.name}"'
            detail = f"columns of the parameters are: {', '.join(names)}."
        else:
            message, detail = f'"{alias}" has no column "{column.name}"', f"its columns are: {', '.join(names)}."
        hint = suggestion(column.name, names) or _otherwise(column)
        return QueryError(message, detail=detail, hint=hint, span=column.span)


def _otherwise(column: Column) -> str:
    """The hint for a name that is like no column: in double quotes it may have been meant as text."""
    wide = 0 if column.span is None or column.alias else column.span.end + 1 - column.span.start - len(column.name)
    return f"text takes single quotes: {quote_text(column.name)}; or {COLUMN_HINT}" if wide == 2 else COLUMN_HINT


def left_out(star: Star, shown: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of the columns, each an alias and a name, EXCLUDE behind * means."""
    found: set[tuple[str, str]] = set()
    for column in star.without:
        fitting = {
            one for one in shown
            if one[1].lower() == column.name.lower() and (not column.alias or one[0].lower() == column.alias.lower())
        }  # fmt: skip
        if not fitting:
            names = [name for _, name in shown]
            raise QueryError(
                f'* has no column "{column.name}"',
                hint=suggestion(column.name, names) or "leave it out.",
                span=column.span,
            )
        found |= fitting
    if shown and len(found) == len(set(shown)):
        raise QueryError("* EXCLUDE leaves no column", hint="list the columns that are wanted.", span=star.span)
    return found


def merge(kind: JoinKind, left: Scope, right: Scope, using: Using) -> tuple[Scope, tuple[Expr, ...]]:
    """What a join with USING or NATURAL shows, and what it compares."""
    if using.places:
        return left, _same_rows(left, right, using)
    names = using.columns
    if names is None:
        names = tuple(dict.fromkeys(one.name for one in right.columns if _holds(left.columns, one.name)))
    if not names:
        hint = "write ON with the columns to compare, or CROSS JOIN."
        raise QueryError("both sides of NATURAL JOIN have no column in common", hint=hint, span=using.span)
    shown, hidden, compared = [*left.columns], [*left.merged, *right.merged], []
    rest = [*right.columns]
    for name in names:
        mine, other = (_one(side, name, using.span) for side in (shown, rest))
        compared.append(Call("=", (mine.at(using.span), other.at(using.span)), None, using.span))
        rest.remove(other)
        hidden += [other]
        if kind in ("right", "full"):
            hidden += [mine]
            shown[shown.index(mine)] = replace(mine, alias="", value=_merged(kind, mine, other))
        if using.alias:
            value = mine.value if kind not in ("right", "full") else _merged(kind, mine, other)
            hidden += [replace(mine, alias=using.alias, value=value, place=len(hidden))]
    return Scope((*shown, *rest), tuple(hidden), left.around), tuple(compared)


def _same_rows(left: Scope, right: Scope, using: Using) -> tuple[Expr, ...]:
    if len(left.columns) != len(right.columns):
        raise QueryError(
            "the SELECTs have different numbers of columns",
            detail=f"the first one has {len(left.columns)}, the other one {len(right.columns)}.",
            hint="select as many columns in each of them.",
            span=using.span,
        )
    pairs = zip(left.columns, right.columns, strict=True)
    return tuple(Call("same", (one.value, other.value), None, using.span) for one, other in pairs)


def _merged(kind: JoinKind, left: Shown, right: Shown) -> Expr:
    return right.value if kind == "right" else Call("coalesce", (left.value, right.value))


def _holds(columns: Iterable[Shown], name: str) -> bool:
    return find(name, [one.name for one in columns]) is not None


def _one(columns: Sequence[Shown], name: str, span: Span | None) -> Shown:
    found = Scope(tuple(columns))._find(Column("", name, None, span))
    if found is None:
        raise Scope(tuple(columns))._unknown(Column("", name, None, span))
    return found
