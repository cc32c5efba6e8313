"""Kernels of regular expressions, which are RE2's, as in DuckDB.

The first argument is an array; the others are constants that `spread` takes from columns, value by value.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

_OPTIONS = {"c": "", "i": "(?i)", "s": "(?s)", "m": "(?m)", "n": "(?m)", "p": "(?m)"}


def matches(text: pa.Array, pattern: str, options: str = "") -> pa.Array:
    """Whether the pattern fits a part of the text."""
    return pc.match_substring_regex(text, pattern=_with(pattern, options))


def full_match(text: pa.Array, pattern: str, options: str = "") -> pa.Array:
    """Whether the pattern fits the whole text; SIMILAR TO."""
    return pc.match_substring_regex(text, pattern=_with(rf"\A(?:{pattern})\z", options))


def replace(text: pa.Array, pattern: str, by: str, options: str = "") -> pa.Array:
    """The first part that fits is replaced; with option g, all."""
    most = None if "g" in options else 1
    found = _with(pattern, options.replace("g", ""))
    return pc.replace_substring_regex(text, pattern=found, replacement=by, max_replacements=most)


def extract(text: pa.Array, pattern: str, group: int = 0, options: str = "") -> pa.Array:
    """The first part that fits, or one group of it; empty if nothing fits."""
    found = pc.extract_regex(text, pattern=_with(_name_group(pattern, group), options))
    part = pc.fill_null(pc.struct_field(found, [0]), "")
    return pc.if_else(pc.is_valid(text), part, pa.scalar(None, pa.string()))


def _with(pattern: str, options: str) -> str:
    if unknown := [option for option in options if option not in _OPTIONS]:
        raise pa.ArrowInvalid(f"there is no option {unknown[0]!r}")
    return "".join(_OPTIONS[option] for option in options) + pattern


_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?P?<[^>]*>|\(\??|.", re.DOTALL)
"""An escaped character, a class, the beginning of a group that is counted, or anything else."""


def _name_group(pattern: str, group: int) -> str:
    """The pattern with one named group: Arrow gives back named groups only, and wants no others."""
    if group == 0:
        return f"(?P<found>{_name_group(pattern, -1)})"
    number, parts = 0, []
    for part in _PARTS.findall(pattern):
        counted = part == "(" or part.startswith(("(?P<", "(?<"))
        number += counted
        parts.append(("(?P<found>" if number == group else "(?:") if counted else part)
    if group > number:
        raise pa.ArrowInvalid(f"the pattern has no group {group}")
    return "".join(parts)
