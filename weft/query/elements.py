"""UNNEST: the elements of a list beside the row that has it.

    FROM t, UNNEST(t.list) AS u (x)       becomes       FROM (SELECT *, unnest(t.list) AS "#e0" FROM t) AS t

and u.x means t."#e0".  So the source that has the list is a derived stream, whose rows are those of t, one for each
element (`weft.expr.apart`).  LEFT JOIN UNNEST ... ON TRUE keeps a row without elements.  Structs show their fields,
unless a name is given to the whole.

What must hold: rows are taken apart before they are joined.  That is the same as afterwards only if no join pads the
source with NULLs or looks for its nearest row.  A window would be lost with the event time, so a source that is joined
has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.lists import ORDINAL, UNNEST
from weft.expr.model import Call, Column, Expr, Literal, aliases
from weft.query.draft import Draft, Item, Source, Star
from weft.query.opened import Part, sources_of
from weft.query.qualify import Beside, Reader
from weft.query.scope import Scope, Shown

_HINT = "take it apart in a derived table first: (SELECT ... FROM t, UNNEST(t.list) AS u (x)) AS d."


def unnested(reader: Reader, source: Source, left: Scope, part: Part, *, padded: bool) -> Beside:
    """What UNNEST shows, and what stands left of it with a row for each element."""
    assert source.elements is not None
    assert not isinstance(source.elements.expr, str)
    listed = left.resolve(source.elements.expr)
    owner = _owner(listed, part, source)
    taken = [name for name in reader.known.columns(owner) if name.startswith("#e")]
    name, place = f"#e{len(taken)}", f"#o{len(taken)}"
    calls = {name: UNNEST, **({place: ORDINAL} if source.ordinality else {})}
    items = [Item(Call(op, (listed, Literal(padded)), None, source.span), one) for one, op in calls.items()]
    text = source.elements.text
    draft = Draft((owner,), (), (Item(Star()), *(replace(item, text=text) for item in items)), text=text)
    made = Source("", owner.alias, derived=draft)
    found = reader.known.columns(made)
    reader.types |= {(owner.alias, column): kind for column, kind in found.items()}
    shown = _shown(source, Column(owner.alias, name), found[name], Column(owner.alias, place))
    return Beside(None, Scope(tuple(shown), around=left.around), (), _replaced(part, made, source))


def _owner(listed: Expr, part: Part, source: Source) -> Source:
    """The one source that the list belongs to."""
    sources = list(sources_of(part))
    found = [one for one in sources if one.alias in aliases(listed)]
    if len(found) != 1:
        detail = "the list of UNNEST is made of columns of one stream or table that stands left of it."
        raise QueryError("UNNEST reads no list of one stream", detail=detail, hint=_HINT, span=source.span)
    if len(sources) > 1 and isinstance(found[0].within, int):
        detail = f'elements have no event time, so "{found[0].alias}" cannot have a window.'
        hint = "leave WITHIN out, or compare event times in ON."
        raise QueryError("UNNEST reads a stream with a window", detail=detail, hint=hint, span=source.span)
    return found[0]


def _shown(source: Source, value: Column, kind: pa.DataType, place: Column) -> Iterator[Shown]:
    """The columns of UNNEST under the names behind its alias."""
    values = [*_values(source, value, kind), *([("ordinality", place, pa.int64())] if source.ordinality else [])]
    if len(source.columns) > len(values):
        hint = "leave some names out."
        raise QueryError(f'"{source.alias}" has {len(values)} columns', hint=hint, span=source.span)
    names = (*source.columns, *(name for name, _, _ in values[len(source.columns) :]))
    for at, (name, (_, expr, type_)) in enumerate(zip(names, values, strict=True)):
        yield Shown(source.alias, name, expr, type_, at)


def _values(source: Source, value: Column, kind: pa.DataType) -> list[tuple[str, Expr, pa.DataType]]:
    whole = len(source.columns) == 1 + source.ordinality
    if not pt.is_struct(kind) or whole:
        return [(source.alias, value, kind)]
    return [(one.name, Call("struct_extract", (value, Literal(one.name))), one.type) for one in kind]


def _replaced(part: Part, made: Source, source: Source) -> Part:
    """The tree with the source whose rows are taken apart."""
    if isinstance(part, Source):
        return made
    if made.alias in {one.alias for one in sources_of(part.left)}:
        if part.kind in ("full", "mark"):
            raise _refused(made, source)
        return replace(part, left=_replaced(part.left, made, source))
    if part.kind != "inner" or part.asof or part.right is None:
        raise _refused(made, source)
    return replace(part, right=_replaced(part.right, made, source))


def _refused(made: Source, source: Source) -> QueryError:
    detail = f'a join before it may pad "{made.alias}" with NULLs, or look for its nearest row.'
    return QueryError("UNNEST cannot stand behind this join", detail=detail, hint=_HINT, span=source.span)
