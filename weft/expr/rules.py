"""Type rules: each takes a call whose arguments are typed and gives the call with casts put in and its type.

After a rule has run, the kernel of the operator can rely on its arguments' types.  Rules may also rewrite a
call into others that mean the same (`nullif` is a CASE).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.coerce import cast_to, incomparable, require_castable, unify
from weft.expr.dates import PARTS, UNITS, unit_of
from weft.expr.model import Call, Expr, Literal
from weft.expr.nested import is_nested
from weft.expr.timetext import check_pattern, from_java
from weft.expr.types import (
    DURATION,
    TIMESTAMP,
    TIMESTAMP_UTC,
    digits,
    is_comparable,
    is_number,
    is_orderable,
    normalize,
    sql_name,
)

Rule = Callable[[Call], Call]


def comparison(call: Call) -> Call:
    """Both sides in one type; the result is a truth value."""
    args = _typed(unify(call.args, "comparison"))
    if call.op in ("=", "<>"):
        _require_all(args, is_comparable, "comparison", call)
    else:
        _require_all(args, is_orderable, f'"{call.op}"', call)
    return replace(call, args=args, type=pa.bool_())


def _typed(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Where nothing but NULL is compared, any type will do."""
    return tuple(cast_to(arg, pa.bool_()) for arg in args) if pt.is_null(args[0].type) else args


def same(call: Call) -> Call:
    """IS NOT DISTINCT FROM, as equalities that hash indexes can answer.

    Both are NULL or neither is, and what stands in for NULL is equal.  For floats NaN is treated in the same way.
    """
    a, b = _typed(unify(call.args, "comparison"))
    _require_all((a, b), is_comparable, "comparison", call)
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
    _require_all(args, is_orderable, "ORDER BY", call)
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
    _require_all(args, is_comparable, "comparison", call)
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
    return _time_arithmetic(call, left, right)


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
        return _all_as(call, pa.int64())
    return _decimals(call)


def _floats(call: Call) -> Call:
    single = all(arg.type == pa.float32() for arg in call.args)
    return _all_as(call, pa.float32() if single else pa.float64())


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
        return _all_as(call, pa.decimal128(min(38, whole + scale), scale))
    return _all_as(call, pa.decimal128(min(38, whole + scale + 1), scale))


def _decimal(arg: Expr) -> Expr:
    return cast_to(arg, pa.decimal128(*digits(arg.type)))


def _all_as(call: Call, kind: pa.DataType) -> Call:
    return replace(call, args=tuple(cast_to(arg, kind) for arg in call.args), type=kind)


def _time_arithmetic(call: Call, left: Expr, right: Expr) -> Call:
    a, b = left.type, right.type
    if call.op == "+" and (pt.is_duration(a) or pt.is_integer(a)) and not pt.is_duration(b):
        return _time_arithmetic(call, right, left)
    if pt.is_date(a) and pt.is_integer(b):
        return replace(call, args=(left, cast_to(right, pa.int32())), type=a)  # days, as many as a date can hold
    if call.op == "-" and pt.is_date(a) and pt.is_date(b):
        return replace(call, args=(left, right), type=pa.int64())
    if pt.is_duration(b) and (pt.is_timestamp(a) or pt.is_date(a) or pt.is_duration(a)):
        moved = cast_to(left, TIMESTAMP) if pt.is_date(a) else left
        return replace(call, args=(moved, right), type=moved.type)
    if call.op == "-" and _is_time(a) and _is_time(b):
        return replace(call, args=unify((left, right), "difference"), type=DURATION)
    raise incomparable(a, b, call, f'"{call.op}"')


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_date(kind))


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
    _require_all(call.args, is_number, '"%"', call)
    return _number_arithmetic(call)


def all_double(call: Call) -> Call:
    """Float functions and /: everything is a DOUBLE."""
    _require_all(call.args, _number_or_null, f'"{call.op}"', call)
    return _all_as(call, pa.float64())


def float_test(call: Call) -> Call:
    """isnan and others: a test of a float."""
    return replace(all_double(call), type=pa.bool_())


def all_integer(call: Call) -> Call:
    """Integer division."""
    _require_all(call.args, lambda kind: bool(pt.is_integer(kind) or pt.is_null(kind)), f'"{call.op}"', call)
    return _all_as(call, pa.int64())


def _number_or_null(kind: pa.DataType) -> bool:
    return is_number(kind) or bool(pt.is_null(kind))


def negation(call: Call) -> Call:
    """Unary minus and abs: integers become BIGINT, the rest stays."""
    arg = _only_number(call, also_duration=call.op == "neg")
    return replace(call, args=(arg,), type=arg.type)


def _only_number(call: Call, *, also_duration: bool = False) -> Expr:
    arg = call.args[0]
    if also_duration and pt.is_duration(arg.type):
        return arg
    _require_all((arg,), _number_or_null, f'"{call.op}"', call)
    return arg if pt.is_floating(arg.type) or pt.is_decimal(arg.type) else cast_to(arg, pa.int64())


def rounding(call: Call) -> Call:
    """round: a decimal keeps the digits it is rounded to."""
    arg, *places = (_only_number(call), *call.args[1:])
    if not places:
        places = [Literal(0, pa.int64())]
    digit = _constant(call, places[0], pa.int64())
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
    return _all_as(call, arg.type if pt.is_floating(arg.type) else pa.float64())


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
        _require_all(args, is_orderable, f'"{call.op}"', call)
    return replace(call, args=args, type=args[0].type)


def concatenation(call: Call) -> Call:
    """|| and concat: everything is written as text."""
    return _all_as(call, pa.string())


def text(result: pa.DataType | None = None, others: tuple[pa.DataType, ...] = ()) -> Rule:
    """A function of one text and further arguments of the given types."""

    def rule(call: Call) -> Call:
        subject, *rest = call.args
        if not (pt.is_string(subject.type) or pt.is_null(subject.type)):
            raise QueryError(
                f'"{call.op}" needs text, not a {sql_name(subject.type)}', hint="CAST it AS VARCHAR.", span=subject.span
            )
        given = (_argument(call, arg, kind) for arg, kind in zip(rest, others, strict=False))
        kind = result if result is not None else pa.string()
        return replace(call, args=(cast_to(subject, pa.string()), *given), type=kind)

    return rule


def code(call: Call) -> Call:
    """chr: a whole number becomes text."""
    return replace(call, args=(_argument(call, call.args[0], pa.int64()),), type=pa.string())


def _argument(call: Call, arg: Expr, kind: pa.DataType) -> Expr:
    if not (pt.is_null(arg.type) or arg.type == kind or (pt.is_integer(kind) and pt.is_integer(arg.type))):
        raise QueryError(
            f'"{call.op}" needs a {sql_name(kind)} here, not a {sql_name(arg.type)}',
            hint=f"CAST it AS {sql_name(kind)}.",
            span=arg.span or call.span,
        )
    return cast_to(arg, kind)


def _constant(call: Call, arg: Expr, kind: pa.DataType) -> Literal:
    if not isinstance(arg, Literal):
        raise QueryError(
            f'"{call.op}" needs a constant here',
            detail="it decides what the result is.",
            hint="write a number or a text in quotes.",
            span=arg.span or call.span,
        )
    constant = _argument(call, arg, kind)
    assert isinstance(constant, Literal)
    return constant


def length(call: Call) -> Call:
    """Characters of a text, or elements of a list."""
    if pt.is_list(call.args[0].type):
        return replace(call, type=pa.int64())
    return text(pa.int64())(call)


def json_part(call: Call) -> Call:
    """json_extract: a path is text or a place in an array."""
    given = call.args[1].type
    return text(pa.string(), (pa.int64() if pt.is_integer(given) else pa.string(),))(call)


def extraction(call: Call) -> Call:
    """year, month and other parts of a date or timestamp; epoch also of a duration."""
    kind = pa.float64() if call.op == "epoch" else pa.int64()
    if call.op == "epoch" and pt.is_duration(call.args[0].type):
        return replace(call, type=kind)
    if call.op == "epoch_ms" and pt.is_integer(call.args[0].type):
        return from_epoch(TIMESTAMP)(replace(call, op="make_timestamp_ms"))
    return replace(call, args=(_time(call, call.args[0]),), type=kind)


def date_part(call: Call) -> Call:
    """date_part and EXTRACT: the function that is named by a constant."""
    unit = _unit(call, tuple(PARTS))
    return extraction(replace(call, op=str(unit.value), args=call.args[1:]))


def truncation(call: Call) -> Call:
    """date_trunc: a constant unit; a date becomes a timestamp."""
    arg = _time(call, call.args[1])
    return replace(call, args=(_unit(call, UNITS), arg), type=arg.type)


def written_time(call: Call) -> Call:
    """strftime(time, '%Y-%m-%d'): a constant format."""
    pattern = _constant(call, call.args[1], pa.string())
    check_pattern(str(pattern.value), pattern.span or call.span)
    return replace(call, args=(_time(call, call.args[0]), pattern), type=pa.string())


def java_time(call: Call) -> Call:
    """date_format(time, 'yyyy-MM-dd') is strftime, with the letters of Java's formats."""
    pattern = _constant(call, call.args[1], pa.string())
    made = from_java(str(pattern.value), pattern.span or call.span)
    return written_time(replace(call, op="strftime", args=(call.args[0], replace(pattern, value=made))))


def difference(call: Call) -> Call:
    """date_diff: a constant unit and two times."""
    unit = _unit(call, UNITS)
    first, last = unify([_time(call, arg) for arg in call.args[1:]], '"date_diff"')
    return replace(call, args=(unit, first, last), type=pa.int64())


def _unit(call: Call, known: Sequence[str]) -> Literal:
    given = _constant(call, call.args[0], pa.string())
    name = unit_of(str(given.value))
    if name not in known:
        raise QueryError(
            f"{call.op} does not know the unit {given.value!r}", hint=f"use one of {', '.join(known)}.", span=given.span
        )
    return Literal(name, pa.string(), given.span)


def moment(call: Call) -> Call:
    """The time of a batch."""
    return replace(call, type=TIMESTAMP_UTC)


def from_epoch(kind: pa.DataType) -> Rule:
    """A number of seconds, milliseconds or microseconds since 1970 as a time."""

    def rule(call: Call) -> Call:
        _require_all(call.args, _number_or_null, f'"{call.op}"', call)
        number = pa.float64() if call.op == "to_timestamp" else pa.int64()
        if number == pa.int64():
            _require_all(call.args, lambda given: not pt.is_floating(given), f'"{call.op}"', call)
        return replace(call, args=(cast_to(call.args[0], number),), type=kind)

    return rule


def months_added(call: Call) -> Call:
    """A time and a constant number of months."""
    arg = _time(call, call.args[0])
    return replace(call, args=(arg, _constant(call, call.args[1], pa.int64())), type=arg.type)


def date_of_parts(call: Call) -> Call:
    """make_date: three integers."""
    return replace(all_integer(call), type=pa.date32())


def struct_extract(call: Call) -> Call:
    """A field of a struct."""
    value, name = call.args
    struct: pa.DataType = value.type
    if not pt.is_struct(struct):
        raise QueryError(f"a {sql_name(value.type)} has no fields", hint="only a struct has fields.", span=call.span)
    wanted = str(_constant(call, name, pa.string()).value)
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
    _require_all((place,), lambda kind: bool(pt.is_integer(kind) or pt.is_null(kind)), "a place in a list", call)
    return replace(call, args=(value, cast_to(place, pa.int64())), type=normalize(kind.value_type))


def _time(call: Call, arg: Expr) -> Expr:
    if not (_is_time(arg.type) or pt.is_null(arg.type)):
        raise QueryError(
            f'"{call.op}" needs a date or timestamp, not a {sql_name(arg.type)}',
            hint="CAST it AS TIMESTAMP.",
            span=arg.span,
        )
    return arg if pt.is_timestamp(arg.type) else cast_to(arg, TIMESTAMP)


def cast(call: Call) -> Call:
    """CAST: the type stands in the call itself."""
    require_castable(call.args[0].type, call.type, call.span)
    return call


def _require_all(args: Sequence[Expr], test: Callable[[pa.DataType], bool], what: str, call: Call) -> None:
    for arg in args:
        if not test(arg.type):
            raise QueryError(
                f"{what} is not defined on {sql_name(arg.type)}",
                hint="use CAST(... AS type), or another function.",
                span=arg.span or call.span,
            )
