"""What a checkpoint remembers: plans that its state was made by, what its batches did, and what streams have shown.

What must hold: state goes on under the plan it was made by, as long as the same is asked for.  Looking leaves no trace
in a folder that is no checkpoint yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from weft.errors import PlanError
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Ledger, Manifest
from weft.observe.measured import Measured
from weft.optimizer.choose import Choice
from weft.optimizer.knobs import Knobs
from weft.optimizer.written.plan import Plan, bind, write
from weft.query.model import Query
from weft.stats.model import Statistics


def to_remember(choice: Choice, asked: Knobs) -> dict[str, str]:
    """What was asked for, and what was made of it."""
    plan = write(choice.query, choice.chosen.layout)
    return {"strategy": _spelled(asked.strategy), "plan": plan.to_json()}


def settled(asked: Knobs, query: Query, made: Mapping[str, str] | None) -> Knobs:
    """The knobs of a query; a plan that was made before, for the same strategy, stays."""
    if made is None or made["strategy"] != _spelled(asked.strategy):
        return asked
    try:
        plan = Plan.from_json(made["plan"])
        bind(plan, query)
    except (PlanError, ValueError, KeyError):
        return asked  # another query has taken the name; the checkpoint will say so
    return replace(asked, strategy=plan, settled=True)


def shown(checkpoint: Checkpoint) -> Statistics:
    """What streams have shown in committed batches."""
    return _last(checkpoint).observed


def done(checkpoint: Checkpoint) -> Measured | None:
    """What committed batches did; None if there are none."""
    return _last(checkpoint).measured


def _last(checkpoint: Checkpoint) -> Manifest:
    """The newest manifest, or the empty one."""
    return Ledger(checkpoint.root).last()


def _spelled(strategy: str | Plan) -> str:
    return strategy if isinstance(strategy, str) else strategy.to_json()
