"""Pages as JSON: the fields of the records, in their order, under their names.

Numbers are rounded to nine digits, as candidates are compared; what JSON cannot say (infinity) is null.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from weft.explain.pages import Page
from weft.explain.pages.figure import Figure


def to_json(page: Page) -> str:
    """The page as indented JSON text."""
    return json.dumps(plain(page), indent=2, ensure_ascii=False) + "\n"


def plain(value: Any) -> Any:
    """The value as data that JSON knows."""
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        found = {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        return {**found, "ratio": plain(value.ratio)} if isinstance(value, Figure) else found
    return value
