"""The knobs that queries are planned with: what was asked for, what sources show, what a checkpoint remembers.

What must hold: statistics that were given or measured are not looked for again.  A plan that state was made by is not
chosen anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.optimizer.knobs import Knobs
from weft.query.model import Query
from weft.session.measuring import Inputs
from weft.session.remembered import settled
from weft.stats.model import Statistics


def narrowed(every: Knobs, own: Mapping[str, Any]) -> Knobs:
    """The knobs of a query: its own over those of all; of statistics it knows both."""
    asked = replace(every, **own)
    if every.statistics is None or asked.statistics is None:
        return asked
    return replace(asked, statistics=every.statistics.merge(asked.statistics))


def planned_with(
    asked: Mapping[str, Knobs],
    queries: Mapping[str, Query],
    inputs: Inputs,
    given: Statistics,
    made: Mapping[str, Mapping[str, str]],
) -> dict[str, Knobs]:
    """Query -> knobs that say all there is to know; `made` are plans that were made before."""
    unknown = [name for name, knobs in asked.items() if _looks(knobs, queries[name])]
    open_ = [queries[name] for name in unknown if name not in made]
    seen, sizes = inputs.glance(open_, given) if open_ else None, inputs.sizes()
    found = {name: replace(knobs, sizes=sizes) for name, knobs in asked.items()}
    found |= {name: replace(found[name], statistics=seen) for name in unknown}
    return {name: settled(knobs, queries[name], made.get(name)) for name, knobs in found.items()}


def _looks(asked: Knobs, query: Query) -> bool:
    """Whether the plan of a query is chosen by a look at the sources."""
    return asked.statistics is None and asked.strategy != "flat" and len(query.relations) > 1
