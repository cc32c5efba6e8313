"""Sends Weft to executors that do not have it: its package as one zip file, which Spark puts on their path.

What Weft itself needs (pyarrow, numpy, pandas, numba) must be there: in the image of the cluster, or in an environment
that Spark unpacks.  See docs/cluster.md.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import weft

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CODE = (".py", ".properties", ".json", ".sql")


def pack(place: Path) -> Path:
    """Write the package into a zip file."""
    root = Path(weft.__file__).parent
    files = sorted(path for path in root.rglob("*") if path.suffix in CODE and "__pycache__" not in path.parts)
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            archive.write(path, path.relative_to(root.parent))
    return place


def ship(spark: SparkSession) -> SparkSession:
    """Let the executors of a session have the Weft of this process."""
    spark.sparkContext.addPyFile(str(pack(Path(tempfile.mkdtemp(prefix="weft-ship-"), "weft.zip"))))
    return spark
