"""Views: drafts under names that a query may use in FROM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from weft.query.draft import Draft, Named


@dataclass(frozen=True, slots=True)
class View:
    """A draft under a name, and the names that it can use itself."""

    draft: Draft
    columns: tuple[str, ...]
    views: Mapping[str, View]


Views = Mapping[str, View]


def add_views(views: Views, named: Iterable[Named]) -> Views:
    """The views with more of them; each may use those before it."""
    for one in named:
        views = {**views, one.name: View(one.draft, one.columns, views)}
    return views
