"""The grammar of scalar expressions, by precedence climbing.

Weakest first: OR, AND, NOT, IS, comparisons, IN LIKE BETWEEN ~, ||, + -, * / // %, **, unary minus, `::` -> . [].
Names are not looked up here; a call by name becomes a Udf node without type, even if the function is built in.
Whatever is not in this grammar is refused, and the error points at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from weft.expr.model import Call, Column, Expr, Literal, chained
from weft.query.parameters import PARAMETERS
from weft.sql import forms, rowvalue
from weft.sql.cursor import Cursor
from weft.sql.interval import interval_literal
from weft.sql.typename import read_type

_COMPARE = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_MULTIPLY = {"*": "*", "/": "/", "//": "div", "%": "%"}
_MEMBERSHIP = ("BETWEEN", "IN", "LIKE", "ILIKE", "SIMILAR")
_REGULAR = {"~": ("", False), "!~": ("", True), "~*": ("i", False), "!~*": ("i", True)}
"""Operator -> option of the regular expression, whether it is negated."""
_SIGNS = frozenset("!#%&*+-/<=>@^|~")
_TYPED = ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "DATETIME")


def parse_condition(cursor: Cursor) -> Expr:
    """Read one expression."""
    expr = _left_associative(cursor, {"OR": "or"}, _and)
    if cursor.token.kind == "operator" and set(cursor.token.text) <= _SIGNS:
        raise _misplaced(cursor)
    return expr


def _misplaced(cursor: Cursor) -> Exception:
    """An operator behind a whole expression: one that does not exist here, or one that binds differently."""
    sign = cursor.token.text
    if sign in _COMPARE:
        return cursor.fail(cursor.token.span, f"{sign} cannot stand here", hint="put what is before it in parentheses.")
    hint = "write IS NOT DISTINCT FROM." if sign == "<=>" else _OPERATOR_HINT
    return cursor.fail(cursor.token.span, f"the operator {sign} is not supported", hint=hint)


_OPERATOR_HINT = "operators are = <> < <= > >= + - * / // % ** || ~ :: -> ->>, and words such as AND, IN and LIKE."


def _left_associative(cursor: Cursor, operators: dict[str, str], operand: Callable[[Cursor], Expr]) -> Expr:
    start = cursor.at
    left = operand(cursor)
    while cursor.token.upper in operators:
        op = operators[cursor.next().upper]
        left = Call(op, chained(op, left, operand(cursor)), None, cursor.span_from(start))
    return left


def _and(cursor: Cursor) -> Expr:
    return _left_associative(cursor, {"AND": "and"}, _not)


def _not(cursor: Cursor) -> Expr:
    start = cursor.at
    if cursor.accept("NOT"):
        return Call("not", (_not(cursor),), None, cursor.span_from(start))
    return _is(cursor)


def _is(cursor: Cursor) -> Expr:
    start = cursor.at
    value = _comparison(cursor)
    while cursor.sees("IS") or cursor.sees("ISNULL") or cursor.sees("NOTNULL"):
        value = _is_suffix(cursor, value, start)
    return value


def _is_suffix(cursor: Cursor, value: Expr, start: int) -> Expr:
    at = cursor.next()
    negated = at.upper == "NOTNULL" or (at.upper == "IS" and cursor.accept("NOT"))
    if at.upper == "IS" and cursor.accept("DISTINCT"):
        cursor.expect("FROM", "write IS [NOT] DISTINCT FROM value.")
        same = Call("same", (value, _comparison(cursor)), None, cursor.span_from(start))
        return same if negated else Call("not", (same,), None, cursor.span_from(start))
    if at.upper == "IS" and cursor.sees_any("TRUE", "FALSE"):
        wanted = cursor.next().upper == "TRUE"
        known = Call("coalesce", (value, Literal(not wanted)), None, cursor.span_from(start))
        result = Call("=", (known, Literal(wanted)), None, cursor.span_from(start))
    else:
        if at.upper == "IS" and not cursor.accept("UNKNOWN"):
            cursor.expect("NULL", "IS is followed by [NOT] NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM.")
        result = Call("is_null", (value,), None, cursor.span_from(start))
    return Call("not", (result,), None, cursor.span_from(start)) if negated else result


def _comparison(cursor: Cursor) -> Expr:
    start = cursor.at
    left = _membership(cursor)
    if cursor.token.upper not in _COMPARE:
        return left
    op = _COMPARE[cursor.next().upper]
    if cursor.sees_any("ANY", "ALL", "SOME"):
        left = rowvalue.quantified(cursor, op, left, start, parse_condition)
    else:
        left = rowvalue.compare(cursor, op, left, _membership(cursor), cursor.span_from(start))
    if cursor.token.upper in _COMPARE:
        raise cursor.fail(
            cursor.token.span, "comparisons cannot be chained", hint="join two by AND, or put one in parentheses."
        )
    return left


def _membership(cursor: Cursor) -> Expr:
    """IN, LIKE and BETWEEN bind tighter than =: `a = b IN (c)` compares a with the result of IN."""
    start = cursor.at
    left = _concat(cursor)
    while cursor.sees_any(*_MEMBERSHIP) or (cursor.sees("NOT") and cursor.peek().upper in _MEMBERSHIP):
        left = _word_comparison(cursor, left, start)
    while cursor.token.upper in _REGULAR:
        left = _regular(cursor, left, start)
    return left


def _regular(cursor: Cursor, left: Expr, start: int) -> Expr:
    option, negated = _REGULAR[cursor.next().upper]
    args = (left, _concat(cursor), *((Literal(option),) if option else ()))
    result = Call("regexp_matches", args, None, cursor.span_from(start))
    return Call("not", (result,), None, cursor.span_from(start)) if negated else result


def _word_comparison(cursor: Cursor, left: Expr, start: int) -> Expr:
    negated = cursor.accept("NOT")
    word = cursor.next().upper
    readers = {"BETWEEN": _between, "IN": _in, "LIKE": _like, "ILIKE": _like, "SIMILAR": _similar}
    result = readers[word](cursor, left, start, word.lower())
    return Call("not", (result,), None, cursor.span_from(start)) if negated else result


def _between(cursor: Cursor, left: Expr, start: int, _op: str) -> Expr:
    if cursor.sees("SYMMETRIC"):
        raise cursor.fail(cursor.token.span, "BETWEEN SYMMETRIC is not supported", hint="put the lower bound first.")
    low = _concat(cursor)
    cursor.expect("AND", "BETWEEN takes two bounds: BETWEEN low AND high.")
    high = _concat(cursor)
    span = cursor.span_from(start)
    return Call("and", (Call(">=", (left, low), None, span), Call("<=", (left, high), None, span)), None, span)


def _in(cursor: Cursor, left: Expr, start: int, _op: str) -> Expr:
    cursor.expect("(", "IN is followed by a list in parentheses.")
    if forms.sees_subquery(cursor):
        return Call("in_query", (left, forms.subquery(cursor)), None, cursor.span_from(start))
    return rowvalue.member(cursor, left, forms.arguments(cursor, parse_condition), cursor.span_from(start))


def _like(cursor: Cursor, left: Expr, start: int, op: str) -> Expr:
    args = [left, _concat(cursor)]
    if cursor.accept("ESCAPE"):
        args.append(_concat(cursor))
    return Call(op, tuple(args), None, cursor.span_from(start))


def _similar(cursor: Cursor, left: Expr, start: int, _op: str) -> Expr:
    cursor.expect("TO", "write SIMILAR TO pattern.")
    return Call("regexp_full_match", (left, _concat(cursor)), None, cursor.span_from(start))


def _concat(cursor: Cursor) -> Expr:
    return _left_associative(cursor, {"||": "||"}, _sum)


def _sum(cursor: Cursor) -> Expr:
    return _left_associative(cursor, {"+": "+", "-": "-"}, _product)


def _product(cursor: Cursor) -> Expr:
    return _left_associative(cursor, _MULTIPLY, _power)


def _power(cursor: Cursor) -> Expr:
    return _left_associative(cursor, {"**": "power", "^": "power"}, _unary)


def _unary(cursor: Cursor) -> Expr:
    start = cursor.at
    if cursor.accept("-"):
        inner = _unary(cursor)
        if isinstance(inner, Literal) and inner.type is None and isinstance(inner.value, int | float | Decimal):
            return Literal(-inner.value, None, cursor.span_from(start))
        return Call("neg", (inner,), None, cursor.span_from(start))
    if cursor.accept("+"):
        return _unary(cursor)
    return _postfix(cursor)


def _postfix(cursor: Cursor) -> Expr:
    start = cursor.at
    value = _primary(cursor)
    while cursor.token.upper in _SUFFIXES:
        value = _SUFFIXES[cursor.next().upper](cursor, value, start)
    return value


def _cast(cursor: Cursor, value: Expr, start: int) -> Expr:
    return Call("cast", (value,), read_type(cursor), cursor.span_from(start))


def _field(cursor: Cursor, value: Expr, start: int) -> Expr:
    """The field of a struct behind a point."""
    if cursor.token.kind not in ("word", "name"):
        raise cursor.unexpected("the name of a field is missing", "write column.field.")
    return Call("struct_extract", (value, Literal(cursor.next().text)), None, cursor.span_from(start))


def _subscript(cursor: Cursor, value: Expr, start: int) -> Expr:
    """An element of a list, or a field of a struct."""
    index = parse_condition(cursor)
    if cursor.sees(":"):
        raise cursor.fail(cursor.token.span, "slices are not supported", hint="take one element: list[1].")
    cursor.expect("]", "the subscript is never closed.")
    return Call("list_extract", (value, index), None, cursor.span_from(start))


def _json(op: str) -> Callable[[Cursor, Expr, int], Expr]:
    """A part of JSON behind an arrow."""
    return lambda cursor, value, start: Call(op, (value, _arrow_side(cursor)), None, cursor.span_from(start))


def _arrow_side(cursor: Cursor) -> Expr:
    start = cursor.at
    if cursor.accept("-") and cursor.token.kind == "number":
        return Literal(-int(cursor.next().text), None, cursor.span_from(start))
    return _primary(cursor)


_SUFFIXES: dict[str, Callable[[Cursor, Expr, int], Expr]] = {
    "::": _cast,
    ".": _field,
    "[": _subscript,
    "->": _json("json_extract"),
    "->>": _json("json_extract_string"),
}


def _primary(cursor: Cursor) -> Expr:
    token = cursor.token
    if token.kind == "string":
        return Literal(cursor.next().text, None, token.span)
    if token.kind == "number":
        return _number(cursor)
    if cursor.accept("("):
        return _parenthesis(cursor)
    if token.kind in ("word", "name"):
        return _named(cursor)
    if cursor.accept(":"):
        return _parameter(cursor)
    if cursor.sees("["):
        return _list(cursor, cursor.at)
    raise cursor.unexpected("an expression is missing", "write a column, a constant, a function or (...).")


def _list(cursor: Cursor, start: int) -> Expr:
    """[value, ...], in other systems ARRAY[value, ...]."""
    cursor.next()
    if cursor.accept("]"):
        raise cursor.fail(cursor.span_from(start), "an empty list has no type", hint="write a value into it.")
    values = [parse_condition(cursor)]
    while cursor.accept(","):
        values.append(parse_condition(cursor))
    cursor.expect("]", "the list is never closed.")
    return Call("list_value", tuple(values), None, cursor.span_from(start))


def _parameter(cursor: Cursor) -> Expr:
    start = cursor.at - 1
    if cursor.token.kind not in ("word", "name"):
        raise cursor.unexpected("the name of a parameter is missing", "write :name.")
    return Column(PARAMETERS, cursor.next().text, None, cursor.span_from(start))


def _parenthesis(cursor: Cursor) -> Expr:
    start = cursor.at - 1
    if forms.sees_subquery(cursor):
        return Call("subquery", (forms.subquery(cursor),), None, cursor.span_from(start))
    inner = parse_condition(cursor)
    if cursor.accept(","):
        return Call(rowvalue.ROW, (inner, *forms.arguments(cursor, parse_condition)), None, cursor.span_from(start))
    cursor.expect(")", "the parenthesis is never closed.")
    return replace(inner, span=cursor.span_from(start))


def _number(cursor: Cursor) -> Literal:
    token, after = cursor.next(), cursor.token
    if after.span.start == token.span.end + 1 and after.kind in ("word", "number"):
        raise cursor.fail(token.span.to(after.span), "this number cannot be read", hint=_NUMBER_HINT)
    if "e" in token.text.lower():
        return Literal(float(token.text), None, token.span)
    if "." in token.text:
        return Literal(Decimal(token.text), None, token.span)
    value = int(token.text)
    return Literal(value if value < 2**63 else Decimal(value), None, token.span)


_NUMBER_HINT = "numbers are written as 10, 1_000, 1.5 or 1e3; a name that begins with a digit takes double quotes."


def _named(cursor: Cursor) -> Expr:
    special = _SPECIAL.get(cursor.token.upper)
    follower = cursor.peek()
    if special is not None and not (cursor.token.upper in _BARE_NAMES and follower.upper != "("):
        return special(cursor, parse_condition)
    if cursor.token.upper in _TYPED and (follower.kind == "string" or cursor.sees("TIMESTAMP", "WITH")):
        return _typed_literal(cursor)
    if cursor.token.upper == "ARRAY" and follower.upper == "[":
        cursor.next()
        return _list(cursor, cursor.at)
    if cursor.token.upper in ("ARRAY", "LIST") and follower.upper == "(" and forms.is_select(cursor, 1):
        hint = "write (SELECT ARRAY_AGG(x ORDER BY y) FROM ...); it is NULL, not empty, where there are no rows."
        raise cursor.fail(cursor.token.span, f"{cursor.token.upper}(SELECT ...) is not supported", hint=hint)
    if follower.upper == "(":
        return forms.function(cursor, parse_condition)
    return _column(cursor)


_BARE_NAMES = ("CAST", "EXTRACT", "SUBSTRING", "SUBSTR", "POSITION", "TRIM", "EXISTS", "TRY_CAST", "IF")


def _column(cursor: Cursor) -> Expr:
    start = cursor.at
    if cursor.sees("WINDOW") and cursor.peek().upper != ".":
        raise cursor.fail(cursor.token.span, "a window is no value", hint="write window.start or window.end.")
    first = cursor.next() if cursor.sees("WINDOW") else cursor.name("an expression")
    if not cursor.sees("."):
        return Column("", first.text, None, first.span)
    cursor.next()
    if cursor.sees("*"):
        hint = f"name one column; COUNT({first.text}.key) counts the rows in which {first.text} has a partner."
        raise cursor.fail(cursor.token.span, "* stands for columns, and only in the SELECT list", hint=hint)
    if cursor.token.kind not in ("word", "name"):
        raise cursor.unexpected("a column name is missing", "write alias.column.")
    second = cursor.next()
    return Column(first.text, second.text, None, cursor.span_from(start))


def _constant(value: object) -> Callable[[Cursor, forms.Read], Expr]:
    return lambda cursor, _: Literal(value, None, cursor.next().span)


def _typed_literal(cursor: Cursor) -> Expr:
    start = cursor.at
    kind = read_type(cursor)
    if cursor.token.kind != "string":
        raise cursor.unexpected("the text of the constant is missing", "as in DATE '2024-01-31'.")
    text = Literal(cursor.token.text, None, cursor.next().span)
    return Call("cast", (text,), kind, cursor.span_from(start))


_SPECIAL: dict[str, Callable[[Cursor, forms.Read], Expr]] = {
    "TRUE": _constant(True),
    "FALSE": _constant(False),
    "NULL": _constant(None),
    "INTERVAL": lambda cursor, _: interval_literal(cursor),
    "CASE": forms.case,
    "CAST": forms.cast,
    "TRY_CAST": forms.cast,
    "EXTRACT": forms.extract,
    "SUBSTRING": forms.substring,
    "SUBSTR": forms.substring,
    "POSITION": lambda cursor, _: forms.position(cursor, _concat),
    "TRIM": forms.trim,
    "EXISTS": forms.exists,
    "IF": forms.if_,
}
