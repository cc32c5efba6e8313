"""`weft calibrate`."""

from __future__ import annotations

import datetime

from weft.cli.command import OK, Command, Option
from weft.cli.terminal import say


def calibrate(*, quick: bool = False, dry_run: bool = False) -> int:
    """Measure what the parts of a micro-batch cost on this machine, and save the prices for planning.

    Takes about a minute.  Run nothing else meanwhile, or all prices will be too high.
    """
    from weft.calibrate import compare, measure
    from weft.optimizer.cost.prices import Prices

    today = datetime.datetime.now().astimezone().date()
    prices = measure(say=say, today=today, quick=quick)
    say(f"\n{compare(prices, Prices())}\n")
    say("not saved" if dry_run else f"saved to {prices.save()}")
    return OK


COMMAND = Command(
    calibrate,
    (
        Option("--quick", bool, "measure less, with more noise"),
        Option("--dry-run", bool, "do not save the prices"),
    ),
)
