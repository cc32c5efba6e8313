"""What a campaign came to, as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.chaos.outcome import Outcome


def summarize(outcomes: Sequence[Outcome]) -> str:
    """A table for the documentation."""
    kills, harms, missed = Counter[str](), Counter[str](), Counter[str]()
    for outcome in outcomes:
        kills.update(outcome.kills)
        harms.update(outcome.harms)
        missed.update(outcome.missed)
    well = sum(sum(outcome.kills.values()) for outcome in outcomes if not outcome.difference)
    failed = [str(outcome.seed) for outcome in outcomes if outcome.difference]
    rows = [
        ("stories", f"{len(outcomes):,}"),
        ("- with the checkpoint in an object store", f"{sum(outcome.is_remote for outcome in outcomes):,}"),
        ("processes killed", f"{kills.total():,}"),
        *((f"- {kind}", f"{count:,}") for kind, count in kills.most_common()),
        ("of them in stories that came to a good end", f"{well:,}"),
        ("other harm", f"{harms.total():,}"),
        *((f"- {kind}", f"{count:,}") for kind, count in harms.most_common()),
        ("troubles that did not come about", f"{missed.total():,}"),
        ("starts of a job", f"{sum(outcome.lives for outcome in outcomes):,}"),
        ("runs that failed with an error and went on", f"{sum(outcome.failures for outcome in outcomes):,}"),
        ("sinks compared", f"{sum(outcome.sinks for outcome in outcomes):,}"),
        ("rows compared", f"{sum(outcome.rows for outcome in outcomes):,}"),
        ("stories that failed", f"{len(failed)}" + (f": {', '.join(failed)}" if failed else "")),
        ("minutes", f"{sum(outcome.seconds for outcome in outcomes) / 60:.0f}"),
    ]
    return "\n".join(["| | |", "|---|---:|", *(f"| {name} | {value} |" for name, value in rows)])
