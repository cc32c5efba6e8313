"""Settings of all tests."""

from __future__ import annotations

import os
import sys
import tempfile

from hypothesis import HealthCheck, settings

from tests.browser import browser

__all__ = ["browser"]

# The same examples in every run: what is random and new belongs to `make fuzz`.  A slow machine is no failure.
settings.register_profile("weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")

# Plans depend on prices: a calibration of this machine must not change what tests see.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="weft-no-prices-")


def pytest_unconfigure() -> None:
    """Let pytest's last line be the last.

    DuckDB's binding reports all that is left of its own objects when the interpreter ends, pages of it: Hypothesis and
    Spark's gateway hold test modules, and so DuckDB, to the very end.  Nothing of ours is written after this point.
    """
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
