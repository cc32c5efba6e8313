"""Says in one line that Spark's workers lack a package, and how they get it: Spark says it in fifty."""

from __future__ import annotations

import re
import sys

from weft.errors import HostError

_LACKS = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
_NEEDED = ("weft", "pyarrow", "numpy", "pandas", "numba", "confluent_kafka", "fastavro")


def explain_missing(said: str) -> HostError | None:
    """The error about a package that workers cannot import, if that is what Spark says."""
    lacks = next((found for found in _LACKS.findall(said) if found in _NEEDED), None)
    if lacks is None:
        return None
    cure = (
        f"start Spark with PYSPARK_PYTHON={sys.executable}, install {lacks} for the Python of the workers, "
        "or let Weft start Spark: spark=None, or weft.spark(...)"
    )
    return HostError(
        f"Spark's workers cannot import {lacks}",
        detail="they run another Python than this program, or on machines that do not have the package.",
        hint=f"{cure}.",
    )
