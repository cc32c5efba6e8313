"""The columns that the user declares: an Arrow schema, names with types, or a class with annotations."""

from __future__ import annotations

import datetime
import decimal
import re
import types
import typing
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from weft.errors import SourceError
from weft.expr.types import from_sql_name, normalize_schema, type_names

_PYTHON: Mapping[Any, pa.DataType] = {
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bool: pa.bool_(),
    bytes: pa.binary(),
    datetime.datetime: pa.timestamp("us"),
    datetime.date: pa.date32(),
    decimal.Decimal: pa.decimal128(38, 9),
}
_NAME = re.compile(r"\s*([A-Za-z][A-Za-z0-9 ]*?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")


def read_declared(given: object, what: str) -> pa.Schema:
    """The schema that was declared for values or keys."""
    if isinstance(given, pa.Schema):
        return normalize_schema(given)
    if isinstance(given, type):
        given = typing.get_type_hints(given)
    if not isinstance(given, Mapping) or not given:
        raise SourceError(
            f"the columns of {what} are not declared",
            detail=f"schema is {given!r}." if given is not None else "records do not say which columns they have.",
            hint='pass schema={"id": "BIGINT", "ts": "TIMESTAMP"}, an Arrow schema, or a class with annotations.',
        )
    return normalize_schema(pa.schema([(str(name), _read_type(str(name), kind)) for name, kind in given.items()]))


def _read_type(name: str, given: Any) -> pa.DataType:
    given = _without_none(given)
    if isinstance(given, pa.DataType):
        return given
    found = _PYTHON.get(given) if isinstance(given, type) else _from_text(given) if isinstance(given, str) else None
    if found is not None:
        return found
    if typing.get_origin(given) is list:
        return pa.list_(_read_type(name, typing.get_args(given)[0]))
    if isinstance(given, type) and typing.get_type_hints(given):
        return pa.struct([(key, _read_type(key, kind)) for key, kind in typing.get_type_hints(given).items()])
    raise SourceError(
        f'column "{name}" has the type {given!r}, which is unknown',
        hint=f"use a type of Arrow or Python, or one of SQL: {', '.join(type_names())}.",
    )


def _without_none(given: Any) -> Any:
    """The type T of `T | None`."""
    if typing.get_origin(given) in (typing.Union, types.UnionType):
        kept = [kind for kind in typing.get_args(given) if kind is not type(None)]
        return kept[0] if len(kept) == 1 else given
    return given


def _from_text(text: str) -> pa.DataType | None:
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    name = {"DOUBLE PRECISION": "DOUBLE"}.get(found[1].upper(), found[1])
    parameters = tuple(int(digits) for digits in found.groups()[1:] if digits is not None)
    return from_sql_name(name, () if name.upper() == "VARCHAR" else parameters)
