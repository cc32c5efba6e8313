"""Names for people of what a query reads of others.

    #488f70d76bfc       becomes  q.d        what query q calls d
    #488f70d76bfc-0     becomes  q.d        the SELECT that makes it, or "q.d, part 1" if UNION joins several

The names of derived streams say what they are, but only to a program.  A page is renamed as a whole, before it is
printed.  What several queries read is called after the first of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from weft.query.derived import SIGN, branch_name
from weft.query.model import Query

Value = TypeVar("Value")
_NAME = re.compile(rf"{SIGN}[0-9a-f]{{12}}(-\d+)?")


def readable(queries: Mapping[str, Query]) -> dict[str, str]:
    """Name of a derived stream or a branch -> what people call it."""
    found: dict[str, str] = {}
    for name in sorted(queries):
        _add(found, name, queries[name])
    return found


def _add(found: dict[str, str], name: str, query: Query) -> None:
    for relation in query.relations:
        stream = relation.stream
        if stream.made and stream.name not in found:
            found[stream.name] = called = f"{name}.{relation.alias}"
            for place, branch in enumerate(stream.made):
                part = f"{called}, part {place + 1}" if len(stream.made) > 1 else called
                found[branch_name(stream.name, place)] = part
                _add(found, part, branch)


def rename(value: Value, names: Mapping[str, str]) -> Value:
    """A page, or a part of one, with names for people."""
    return _rename(value, names) if names else value


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda found: names.get(found.group(), found.group()), value)
    if isinstance(value, tuple | list):
        return type(value)(_rename(part, names) for part in value)
    if isinstance(value, Mapping):
        return {_rename(key, names): _rename(part, names) for key, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        changed = {field.name: _rename(getattr(value, field.name), names) for field in fields(value) if field.init}
        return replace(value, **changed)
    return value
