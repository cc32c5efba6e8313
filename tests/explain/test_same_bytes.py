"""Explaining is a function of the session: other objects, other processes and other hash seeds give the same bytes."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz import Case, make_case
from weft.explain import FORMATS, MEASURED, STAGES
from weft.optimizer.joint import together
from weft.testing import Trial

SEEDS = range(100, 125)
LONG = 600.0
"""Seconds; a search for plans that runs out of time depends on the clock."""


def everything(case: Case) -> str:
    """All stages in all formats, and what was measured."""
    session = case.session()
    texts = [session.explain(stage, form) for stage in STAGES for form in FORMATS]
    trial = Trial(case.session())
    for batch in case.batches:
        trial.feed(batch)
    texts += [trial.explain(stage, form, True) for stage in MEASURED for form in FORMATS]
    return re.sub(r'(, in |"planning_seconds": )[0-9][0-9.e-]*', r"\1...", "\n".join(texts))  # a clock is no function


def digests() -> str:
    """A line for each seed."""
    return "\n".join(f"{seed} {hashlib.sha256(everything(make_case(seed)).encode()).hexdigest()}" for seed in SEEDS)


@pytest.mark.fuzz
def test_random_sessions_are_explained_alike_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(together, "TIME_LIMIT", LONG)
    here = digests()
    assert digests() == here
    for seed in ("1", "2"):
        command = [sys.executable, "-m", "tests.explain.test_same_bytes"]
        env = {**os.environ, "PYTHONHASHSEED": seed}
        root = Path(__file__).parent.parent.parent
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=env, cwd=root)
        assert done.stdout.strip() == here


if __name__ == "__main__":
    together.TIME_LIMIT = LONG
    print(digests())
