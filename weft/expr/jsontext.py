"""Kernels that read JSON in text.

A path is a name, a place in an array (counted from 0, from the end if negative), `$.a[0]."b c"`, or `/a/0`.  What is
not there is NULL.  A part comes out as JSON without white space; with `->>`, text comes out without quotes and null as
NULL.  Every distinct text is read once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pyarrow as pa

from weft.expr.strings import each_distinct

_STEP = re.compile(r"""\.(?:"((?:[^"\\]|\\.)*)"|([^.\["]+))|\[(#?-?\d+)\]""")
_MISSING = object()
Step = str | int


def extract(text: pa.Array, path: str | int) -> pa.Array:
    """The part at a path, as JSON."""
    return _extract(text, path, _write)


def extract_string(text: pa.Array, path: str | int) -> pa.Array:
    """The part at a path, as text."""
    return _extract(text, path, lambda part: None if part is None else part if isinstance(part, str) else _write(part))


def _extract(text: pa.Array, path: str | int, write: Callable[[object], str | None]) -> pa.Array:
    steps = _steps(path)

    def part_of(document: str) -> str | None:
        part = _read(document)
        for step in steps:
            part = _inside(part, step)
        return None if part is _MISSING else write(part)

    return each_distinct(text, pa.string(), part_of)


def _read(document: str) -> object:
    try:
        return json.loads(document, parse_constant=_refuse)
    except ValueError as error:
        raise pa.ArrowInvalid(f"this is not JSON: {error}") from error


def _refuse(word: str) -> object:
    raise ValueError(f"{word} is not JSON")


def _write(part: object) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


def _inside(part: object, step: Step) -> object:
    if isinstance(part, dict) and isinstance(step, str):
        return part.get(step, _MISSING)
    if isinstance(part, list) and isinstance(step, int) and -len(part) <= step < len(part):
        return part[step]
    return _MISSING


def _steps(path: str | int) -> list[Step]:
    if isinstance(path, int):
        return [path]
    if path.startswith("/"):
        parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
        return [int(part) if part.isdigit() else part for part in parts]
    if not path.startswith("$"):
        return [path]
    steps, at = list[Step](), 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or "*" in found.group():
            raise pa.ArrowInvalid(f"the path {path!r} cannot be read")
        quoted, name, place = found.groups()
        steps.append(int(place.lstrip("#")) if place is not None else name if quoted is None else quoted)
        at = found.end()
    return steps
