"""The command line of random tests: cases by seed, on Spark or in this process, until one fails.

    python -m tests.wide --n 1000 --seed 0 [--spark] [--keep-going] [-v]

A case that fails is printed with the command that repeats it.
"""

from __future__ import annotations

import argparse
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_seeds(
    module: str,
    about: str,
    make: Callable[[int, SparkSession | None], Any],
    check: Callable[[Any, SparkSession | None], Any],
    tally: Any,
    arguments: Sequence[str] | None = None,
    *,
    on_spark: bool = True,
) -> int:
    """Make the case of each seed, check it, and add up what was compared; return the exit code.

    `on_spark` says whether cases can run on Spark too.
    """
    args = _arguments(module, about, arguments, on_spark)
    spark, began, failed = _spark() if args.spark else None, time.perf_counter(), 0
    for done, seed in enumerate(range(args.seed, args.seed + args.n), start=1):
        case = make(seed, spark)
        if args.verbose:
            print(case.describe())
        try:
            tally += check(case, spark)
        except Exception:  # noqa: BLE001 - whatever goes wrong is reported with its case
            failed += 1
            print(f"\nFAILED seed {seed}\n{case.describe() if not args.verbose else ''}")
            print(traceback.format_exc(limit=-6))
            print(f"repeat: python -m {module} --seed {seed} --n 1 -v{' --spark' if args.spark else ''}", flush=True)
            if not args.keep_going:
                return 1
        if done % 100 == 0 or done == args.n:
            print(f"{done} cases, {tally}, {failed} failed, {time.perf_counter() - began:.0f} s", flush=True)
    return 1 if failed else 0


def _arguments(module: str, about: str, arguments: Sequence[str] | None, on_spark: bool) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--n", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case")
    parser.set_defaults(spark=False)
    if on_spark:
        parser.add_argument("--spark", action="store_true", help="run on Spark")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every case")
    return parser.parse_args(arguments)


def _spark() -> SparkSession:
    from weft.launch.spark import local_session

    return local_session(2)
