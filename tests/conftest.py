"""Settings of all tests."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings

# The same examples in every run: what is random and new belongs to `make fuzz`.  A slow machine is no failure.
settings.register_profile("weft", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("weft")

# Plans hang on prices: what somebody has calibrated on this machine must not change what tests see.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="weft-no-prices-")
