"""Workload Q3: customer JOIN orders JOIN lineitem of TPC-H, full history, compared with Spark's own cascade.

    python -m bench.q3 [--scale 1] [--batches 20] [--systems weft,spark]

The part of `bench.peers` that needs nothing but the environment of Weft itself.
"""

from __future__ import annotations

import argparse

from bench import peers


def main() -> None:
    """Run the workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="1")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--systems", default="weft,spark")
    asked = parser.parse_args()
    workload = ["--workloads", f"q3/{asked.batches}", "--systems", asked.systems, "--scale", asked.scale]
    peers.main([*workload, "--here", "--limit", "600", "--name", f"q3-sf{asked.scale}-{asked.batches}"])


if __name__ == "__main__":
    main()
