"""One Spark session for all tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session on two cores, as Weft makes it."""
    from weft.launch.spark import local_session

    session = local_session(2)
    yield session
    session.stop()
