"""Twenty kills by seed: a job over files and a folder, one over topics and an object store; every sink as DuckDB says.

`make chaos KILLS=1000` tells more such stories.  A story that fails is told again by
`python -m tests.chaos --story SEED`, with the options that its error names.
"""

from __future__ import annotations

import pytest

from bench.broker import Broker
from tests.chaos.play import play
from tests.chaos.story import Host, draw

pytestmark = [pytest.mark.spark, pytest.mark.crash]


@pytest.mark.parametrize(
    ("seed", "kills", "host", "outside"), [(11, 12, "retries", False), (39, 8, "local", True)], ids=["files", "topics"]
)
def test_a_job_that_is_killed_again_and_again_loses_and_doubles_nothing(
    broker: Broker, seed: int, kills: int, host: Host, outside: bool
) -> None:
    story = draw(seed, kills, host, topics=outside, remote=outside)
    outcome = play(story, broker)
    # A job that has read all its input may have no worker to kill for a while.
    assert outcome.kills.total() + outcome.missed.total() >= kills, outcome
    assert outcome.missed.total() <= 2, outcome
    assert outcome.sinks >= len(story.queries)
