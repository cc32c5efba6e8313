"""One Kafka broker for all tests of a process.  Where there can be none, the tests say why; under CI they fail."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from bench.broker import Broker, missing, running


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """A broker that is stopped at the end."""
    if why := missing():
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(why)
    with running() as found:
        yield found
