"""Type rules: each takes a call whose arguments are typed and gives the call with casts put in and its type.

After a rule has run, the kernel of the operator can rely on its arguments' types.  Rules may also rewrite a
call into others that mean the same (`nullif` is a CASE).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.arguments import Rule, all_as, argument, constant, is_number_or_null, require_all
from weft.expr.coerce import cast_to, incomparable, require_castable, unify
from weft.expr.model import Call, Expr, Literal
from weft.expr.nested import is_nested
from weft.expr.timerules import time_arithmetic
from weft.expr.types import (
    DURATION,
    digits,
    is_comparable,
    is_number,
    is_orderable,
    normalize,
    sql_name,
)


def comparison(call: Call) -> Call:
    """Both sides in one type; the result is a truth value."""
    args = _typed(unify(call.args, "comparison"))
    if call.op in ("=", "<>"):
        require_all(args, is_comparable, "comparison", call)
    else:
        require_all(args, is_orderable, f'"{call.op}"', call)
    return replace(call, args=args, type=pa.bool_())


def _typed(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Where nothing but NULL is compared, any type will do."""
    return tuple(cast_to(arg, pa.bool_()) for arg in args) if pt.is_null(args[0].type) else args


def same(call: Call) -> Call:
    """IS NOT DISTINCT FROM, as equalities that hash indexes can answer.

    Both are NULL or neither is, and what stands in for NULL is equal.  For floats NaN is treated in the same way.
    """
    a, b = _typed(unify(call.args, "comparison"))
    require_all((a, b), is_comparable, "comparison", call)
    equal = [_equal(call, (Call("is_null", (side,), pa.bool_()) for side in (a, b)))]
    if is_nested(a.type):
        either = (_equal(call, (a, b)), Literal(True, pa.bool_()))
        return replace(call, op="and", args=(*equal, Call("coalesce", either, pa.bool_())), type=pa.bool_())
    if pt.is_floating(a.type):
        nan = tuple(_or_false(Call("isnan", (side,), pa.bool_())) for side in (a, b))
        equal.append(_equal(call, nan))
        a, b = (Call("case", (n, _stand_in(a.type), side), a.type) for n, side in zip(nan, (a, b), strict=True))
    known = (Call("coalesce", (side, _stand_in(a.type)), a.type) for side in (a, b))
    return replace(call, op="and", args=(*equal, _equal(call, known)), type=pa.bool_())


def before(call: Call) -> Call:
    """Whether one value stands before another in an order: NaN is the greatest number there, and not unknown."""
    a, b = args = _typed(unify(call.args, "comparison"))
    require_all(args, is_orderable, "ORDER BY", call)
    less = Call("<", args, pa.bool_(), call.span)
    if not pt.is_floating(a.type):
        return less
    mine, other = (Call("isnan", (side,), pa.bool_()) for side in (a, b))
    last = Call("and", (Call("not", (mine,), pa.bool_()), other), pa.bool_())
    return replace(call, op="or", args=(less, last), type=pa.bool_())


def _or_false(condition: Expr) -> Expr:
    return Call("coalesce", (condition, Literal(False, pa.bool_())), pa.bool_())


def _equal(call: Call, sides: Iterable[Expr]) -> Call:
    return Call("=", tuple(sides), pa.bool_(), call.span)


def _stand_in(kind: pa.DataType) -> Literal:
    """Any constant of a type."""
    if pt.is_string(kind) or pt.is_binary(kind):
        return Literal("" if pt.is_string(kind) else b"", kind)
    if pt.is_decimal(kind):
        return Literal(Decimal(0), kind)
    zero = pa.scalar(0, pa.int32() if pt.is_date(kind) else pa.int64())
    return Literal(zero.cast(kind).as_py(), kind)


def membership(call: Call) -> Call:
    """IN: a comparison with each element; if an element is not a constant, it is rewritten as an OR."""
    args = _typed(unify(call.args, "comparison"))
    require_all(args, is_comparable, "comparison", call)
    if all(isinstance(arg, Literal) for arg in args[1:]):
        return replace(call, args=args, type=pa.bool_())
    equal = tuple(Call("=", (args[0], arg), pa.bool_(), call.span) for arg in args[1:])
    return replace(call, op="or", args=equal, type=pa.bool_())


def logical(call: Call) -> Call:
    """AND, OR, NOT."""
    return replace(call, args=tuple(condition(arg) for arg in call.args), type=pa.bool_())


def condition(expr: Expr) -> Expr:
    """The expression if it is a truth value."""
    if pt.is_boolean(expr.type) or pt.is_null(expr.type):
        return cast_to(expr, pa.bool_())
    raise QueryError(
        f"a condition is needed here, not a {sql_name(expr.type)}", hint="compare it with something.", span=expr.span
    )


def anything_to(kind: pa.DataType) -> Rule:
    """Any arguments, a result of one type."""
    return lambda call: replace(call, type=kind)


def arithmetic(call: Call) -> Call:
    """+ and - on numbers, dates, times and durations."""
    left, right = _null_like_other(call.args)
    if is_number(left.type) and is_number(right.type):
        return _number_arithmetic(replace(call, args=(left, right)))
    return time_arithmetic(call, left, right)


def _null_like_other(args: Sequence[Expr]) -> tuple[Expr, ...]:
    known = [arg.type for arg in args if not pt.is_null(arg.type)]
    kind = known[0] if known else pa.int64()
    stand_in = kind if is_number(kind) else DURATION
    return tuple(cast_to(arg, stand_in) if pt.is_null(arg.type) else arg for arg in args)


def _number_arithmetic(call: Call) -> Call:
    kinds = [arg.type for arg in call.args]
    if any(pt.is_floating(kind) for kind in kinds):
        return _floats(call)
    if all(pt.is_integer(kind) for kind in kinds):
        return all_as(call, pa.int64())
    return _decimals(call)


def _floats(call: Call) -> Call:
    single = all(arg.type == pa.float32() for arg in call.args)
    return all_as(call, pa.float32() if single else pa.float64())


def _decimals(call: Call) -> Call:
    (p, s), (q, t) = (digits(arg.type) for arg in call.args)
    if call.op == "*":
        if s + t > 38:
            raise QueryError(
                "the product has more than 38 decimal places", hint="CAST a factor AS DOUBLE.", span=call.span
            )
        args = tuple(_decimal(arg) for arg in call.args)
        return replace(call, args=args, type=pa.decimal128(min(38, p + q), s + t))
    whole, scale = max(p - s, q - t), max(s, t)
    if call.op == "%":
        return all_as(call, pa.decimal128(min(38, whole + scale), scale))
    return all_as(call, pa.decimal128(min(38, whole + scale + 1), scale))


def _decimal(arg: Expr) -> Expr:
    return cast_to(arg, pa.decimal128(*digits(arg.type)))


def product(call: Call) -> Call:
    """* on numbers, and a duration times an integer."""
    left, right = _null_like_other(call.args) if any(is_number(arg.type) for arg in call.args) else call.args
    if is_number(left.type) and is_number(right.type):
        return _number_arithmetic(replace(call, args=(left, right)))
    for duration, factor in ((left, right), (right, left)):
        if pt.is_duration(duration.type) and pt.is_integer(factor.type):
            return replace(call, args=(duration, cast_to(factor, pa.int64())), type=DURATION)
    raise incomparable(left.type, right.type, call, '"*"')


def remainder(call: Call) -> Call:
    """% on numbers."""
    call = replace(call, args=_null_like_other(call.args))
    require_all(call.args, is_number, '"%"', call)
    return _number_arithmetic(call)


def all_double(call: Call) -> Call:
    """Float functions and /: everything is a DOUBLE."""
    require_all(call.args, is_number_or_null, f'"{call.op}"', call)
    return all_as(call, pa.float64())


def float_test(call: Call) -> Call:
    """isnan and others: a test of a float."""
    return replace(all_double(call), type=pa.bool_())


def negation(call: Call) -> Call:
    """Unary minus and abs: integers become BIGINT, the rest stays."""
    arg = _only_number(call, also_duration=call.op == "neg")
    return replace(call, args=(arg,), type=arg.type)


def _only_number(call: Call, *, also_duration: bool = False) -> Expr:
    arg = call.args[0]
    if also_duration and pt.is_duration(arg.type):
        return arg
    require_all((arg,), is_number_or_null, f'"{call.op}"', call)
    return arg if pt.is_floating(arg.type) or pt.is_decimal(arg.type) else cast_to(arg, pa.int64())


def rounding(call: Call) -> Call:
    """round: a decimal keeps the digits it is rounded to."""
    arg, *places = (_only_number(call), *call.args[1:])
    if not places:
        places = [Literal(0, pa.int64())]
    digit = constant(call, places[0], pa.int64())
    kind: pa.DataType = arg.type
    if pt.is_decimal(kind):
        kept = max(0, min(kind.scale, digit.value if isinstance(digit.value, int) else 0))
        kind = pa.decimal128(kind.precision, kept)
    return replace(call, args=(arg, digit), type=kind)


def whole(call: Call) -> Call:
    """floor and ceil: a decimal loses its places, an integer becomes a DOUBLE."""
    arg = _only_number(call)
    if pt.is_decimal(arg.type):
        return replace(call, args=(arg,), type=pa.decimal128(digits(arg.type)[0], 0))
    return all_as(call, arg.type if pt.is_floating(arg.type) else pa.float64())


def sign(call: Call) -> Call:
    """sign: -1, 0 or 1 as a TINYINT."""
    return replace(call, args=(_only_number(call),), type=pa.int8())


def case(call: Call) -> Call:
    """Conditions are truth values, results meet in one type."""
    conditions = [condition(arg) for arg in call.args[:-1:2]]
    results = unify((*call.args[1:-1:2], call.args[-1]), "CASE")
    pairs = (arg for pair in zip(conditions, results, strict=False) for arg in pair)
    return replace(call, args=(*pairs, results[-1]), type=results[-1].type)


def only(call: Call) -> Call:
    """A value and how many there are."""
    return replace(call, type=call.args[0].type)


def nullif(call: Call) -> Call:
    """NULLIF(a, b) is CASE WHEN a = b THEN NULL ELSE a END."""
    first = call.args[0]
    equal = comparison(Call("=", call.args, None, call.span))
    return case(Call("case", (equal, Literal(None, pa.null()), first), None, call.span))


def same_type(call: Call) -> Call:
    """coalesce, greatest, least: all arguments and the result in one type."""
    args = unify(call.args, f'"{call.op}"')
    if call.op != "coalesce":
        require_all(args, is_orderable, f'"{call.op}"', call)
    return replace(call, args=args, type=args[0].type)


def concatenation(call: Call) -> Call:
    """|| and concat: everything is written as text."""
    return all_as(call, pa.string())


def text(result: pa.DataType | None = None, others: tuple[pa.DataType, ...] = ()) -> Rule:
    """A function of one text and further arguments of the given types."""

    def rule(call: Call) -> Call:
        subject, *rest = call.args
        if not (pt.is_string(subject.type) or pt.is_null(subject.type)):
            raise QueryError(
                f'"{call.op}" needs text, not a {sql_name(subject.type)}', hint="CAST it AS VARCHAR.", span=subject.span
            )
        given = (argument(call, arg, kind) for arg, kind in zip(rest, others, strict=False))
        kind = result if result is not None else pa.string()
        return replace(call, args=(cast_to(subject, pa.string()), *given), type=kind)

    return rule


def code(call: Call) -> Call:
    """chr: a whole number becomes text."""
    return replace(call, args=(argument(call, call.args[0], pa.int64()),), type=pa.string())


def length(call: Call) -> Call:
    """Characters of a text, or elements of a list."""
    if pt.is_list(call.args[0].type):
        return replace(call, type=pa.int64())
    return text(pa.int64())(call)


def json_part(call: Call) -> Call:
    """json_extract: a path is text or a place in an array."""
    given = call.args[1].type
    return text(pa.string(), (pa.int64() if pt.is_integer(given) else pa.string(),))(call)


def struct_extract(call: Call) -> Call:
    """A field of a struct."""
    value, name = call.args
    struct: pa.DataType = value.type
    if not pt.is_struct(struct):
        raise QueryError(f"a {sql_name(value.type)} has no fields", hint="only a struct has fields.", span=call.span)
    wanted = str(constant(call, name, pa.string()).value)
    fields = [field.name for field in struct]
    found = [field for field in fields if field == wanted] or [f for f in fields if f.lower() == wanted.lower()]
    if len(found) != 1:
        detail = f"its fields are: {', '.join(fields)}."
        raise QueryError(
            f'the struct has no field "{wanted}"', detail=detail, hint="name one of these.", span=call.span
        )
    kind = normalize(struct.field(found[0]).type)
    return replace(call, args=(value, Literal(found[0], pa.string(), name.span)), type=kind)


def list_extract(call: Call) -> Call:
    """An element of a list; with a name, a field of a struct."""
    value, place = call.args
    kind: pa.DataType = value.type
    if pt.is_struct(value.type):
        return struct_extract(replace(call, op="struct_extract"))
    if not pt.is_list(value.type):
        hint = "only a list has elements; for characters write substring(text, place, 1)."
        raise QueryError(f"a {sql_name(value.type)} has no elements", hint=hint, span=call.span)
    require_all((place,), lambda kind: bool(pt.is_integer(kind) or pt.is_null(kind)), "a place in a list", call)
    return replace(call, args=(value, cast_to(place, pa.int64())), type=normalize(kind.value_type))


def cast(call: Call) -> Call:
    """CAST: the type stands in the call itself."""
    require_castable(call.args[0].type, call.type, call.span)
    return call
