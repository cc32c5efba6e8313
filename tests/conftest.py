"""Settings of all tests."""

from __future__ import annotations

import gc
import os
import tempfile

from hypothesis import HealthCheck, settings

# The same examples in every run: what is random and new belongs to `make fuzz`.  A slow machine is no failure.
settings.register_profile("weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")

# Plans depend on prices: a calibration of this machine must not change what tests see.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="weft-no-prices-")


def pytest_unconfigure() -> None:
    """Take Hypothesis's clock out of the garbage collector.

    The collector's list outlives all modules.  What can be reached from it does too, the test modules among it, and
    DuckDB's binding then reports pages of its own objects as leaks, after pytest's last line.
    """
    gc.callbacks[:] = [callback for callback in gc.callbacks if not callback.__module__.startswith("hypothesis.")]
