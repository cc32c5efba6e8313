"""Kills runs at named and at random moments, starts them again, and compares the results with the oracle.

python -m tests.chaos --n 100 --seed 1
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path

from tests.spark._kill import Job, check_prefix, committed, complete, grow
from tests.spark._kit import PLANS, make_session
from weft.host.crash import points

MIGRATIONS = ("migrate before", "migrate commit before", "migrate commit after", "wave 1 after", "segment write")
"""Crash points of a migration; their batch is the one before it."""
A_JOB = 10
"""Kills that hit one job."""


def attack(root: Path, dice: random.Random, workers: int, plans: str, changes: int = 0) -> str:
    """One kill; what was hit.  If `changes` is not 0, the job changes its session while it runs."""
    grow(root, dice.randrange(1 << 30), ahead=4)
    named = dice.random() < 0.5
    waves = make_session(root, workers, plans).topology.waves
    point, batch = dice.choice(points(waves)), committed(root) + 1 + dice.randrange(2)
    if changes and committed(root) >= 0 and dice.random() < 0.5:
        point, batch = dice.choice(MIGRATIONS), committed(root) + dice.randrange(3)
    only_driver = dice.random() < 0.2
    with Job(root, workers, (point, batch) if named else None, plans, changes) as job:
        if named:
            # A point that lies on no path, for example a batch without results, is never reached.
            alive = job.until(job.marked, 60)
            moment = f"{point} of batch {batch}"
        else:
            delay = dice.uniform(0, 8)
            early = dice.random() < 0.2
            alive = early or job.until(job.working)
            began = time.monotonic()
            alive = alive and job.until(lambda: time.monotonic() - began > delay)
            moment = f"{delay:.1f} s after {'start' if early else 'first input'}"
        if alive:
            job.kill(only_driver=only_driver)
    check_prefix(root)
    who = "" if alive else " (ended before)"
    return f"{moment}{', driver only' if only_driver and alive else ''}{who}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 30)
    dice = random.Random(seed)
    began, kills, jobs = time.monotonic(), 0, 0
    while kills < options.n:
        root = Path(tempfile.mkdtemp(prefix="weft-chaos-"))
        workers, plans = dice.choice((1, 2, 3)), dice.choice(["flat", *PLANS])
        is_changing = plans != "mixed" and dice.random() < 0.5
        for _ in range(min(A_JOB, options.n - kills)):
            kills += 1
            changes = dice.randrange(1, 1 << 30) if is_changing else 0
            if is_changing:  # every session is another one, and changes while it runs
                workers, plans = dice.choice((1, 2, 3)), dice.choice([name for name in PLANS if name != "mixed"])
            what = attack(root, dice, workers, plans, changes)
            how = "changing, " if is_changing else ""
            print(f"kill {kills}, job {jobs}, {how}{workers} workers, plans {plans}: {what}", flush=True)
        complete(root, workers, plans)
        shutil.rmtree(root)
        jobs += 1
    seconds = time.monotonic() - began
    print(f"chaos: {kills} kills in {jobs} jobs, nothing lost, nothing doubled, {seconds:.0f} s, seed {seed}")


if __name__ == "__main__":
    main()
