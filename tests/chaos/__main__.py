"""Runs stories until so many processes were killed.

    python -m tests.chaos --kills 1000 --seed 1 --beside 2     a campaign, two stories at a time
    python -m tests.chaos --story 1017                         one story again

A story that fails is printed with the command that plays it again; its folder stays.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import random
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.broker import Broker, missing, running
from tests.chaos.outcome import Outcome
from tests.chaos.play import play
from tests.chaos.story import draw
from tests.chaos.summary import summarize

A_STORY = 20
"""Kills of a story."""


class Lane:
    """Stories one after the other; a broker is started when the first of them needs it."""

    def __init__(self, into: Path | None, kills: int, say: Callable[[str], None], patience: float) -> None:
        self.into, self.kills, self.say, self.patience = into, kills, say, patience
        self.stack = contextlib.ExitStack()
        self.broker: Broker | None = None

    def tell(self, seed: int) -> Outcome:
        """Play one story."""
        story = draw(seed, self.kills, topics=False if missing() else None)
        if story.has_topics and self.broker is None:
            self.broker = self.stack.enter_context(running())
        outcome = Outcome(seed)
        try:
            play(story, self.broker, self.say, outcome, self.patience)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is reported with its story
            print(f"\nFAILED\n{story.describe()}\n{traceback.format_exc(limit=-4)}", flush=True)
            print(f"repeat: python -m tests.chaos --story {seed} --each {self.kills}", flush=True)
            outcome.difference = str(error).splitlines()[0]
        if self.into is not None:
            with open(self.into, "a") as file:
                file.write(json.dumps(vars(outcome)) + "\n")
        return outcome


class Campaign:
    """Stories side by side, until so many processes were killed."""

    def __init__(self, first: int, kills: int) -> None:
        self.seeds, self.kills = itertools.count(first), kills
        self.outcomes: list[Outcome] = []

    @property
    def done(self) -> int:
        """How many processes were killed."""
        return sum(sum(outcome.kills.values()) for outcome in self.outcomes)

    def follow(self, lane: Lane) -> None:
        """Tell stories in one lane until all lanes together have done enough."""
        with lane.stack:
            while self.done < self.kills:
                self.tell_next(lane)

    def tell_next(self, lane: Lane) -> None:
        """Tell one story."""
        outcome = lane.tell(next(self.seeds))
        self.outcomes.append(outcome)
        print(_line(outcome, self.done), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="kills jobs and compares their results")
    parser.add_argument("--kills", type=int, default=100, help="processes to kill in all")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first story; the next one has the next")
    parser.add_argument("--story", type=int, default=None, help="play the story of this seed only")
    parser.add_argument("--each", type=int, default=A_STORY, help="kills of a story")
    parser.add_argument("--beside", type=int, default=1, help="stories at a time")
    parser.add_argument("--patience", type=float, default=1.0, help="how much longer a job may take, on a busy machine")
    parser.add_argument("--into", type=Path, default=None, help="a file that gets a line of JSON for each story")
    parser.add_argument("--summary", type=Path, default=None, help="print the summary of such a file, and end")
    args = parser.parse_args()
    if args.summary is not None:
        lines = args.summary.read_text().splitlines()
        print(summarize([Outcome(**json.loads(line)) for line in lines]))
        return 0
    if args.story is not None:
        print(draw(args.story, args.each).describe(), flush=True)
        campaign, lane = Campaign(args.story, args.each), Lane(args.into, args.each, _print, args.patience)
        with lane.stack:
            campaign.tell_next(lane)
    else:
        campaign = Campaign(random.SystemRandom().randrange(1 << 30) if args.seed is None else args.seed, args.kills)
        with ThreadPoolExecutor(args.beside) as pool:
            lanes = [Lane(args.into, args.each, lambda _line: None, args.patience) for _ in range(args.beside)]
            list(pool.map(campaign.follow, lanes))
    print(summarize(campaign.outcomes))
    return 1 if any(outcome.difference for outcome in campaign.outcomes) else 0


def _print(line: str) -> None:
    print(line, flush=True)


def _line(outcome: Outcome, done: int) -> str:
    killed = ", ".join(f"{count} {kind}" for kind, count in sorted(outcome.kills.items()))
    how = outcome.difference or f"{outcome.rows:,} rows in {outcome.sinks} sinks as they should be"
    return f"story {outcome.seed}: {killed}; {how}; {outcome.seconds:.0f} s; {done} kills so far"


if __name__ == "__main__":
    sys.exit(main())
