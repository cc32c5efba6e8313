"""`weft console CHECKPOINT`, as a person types it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.console.kit import Answer, make_checkpoint

HERE = Path(__file__).resolve().parents[2]


def weft(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft.cli", *arguments]
    where = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.Popen(command, env=where, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_checkpoint_is_shown_until_ctrl_c(tmp_path: Path) -> None:
    with weft("console", str(make_checkpoint(tmp_path)), "--port", "0") as shown:
        assert shown.stderr is not None
        link = re.search(r"http://127.0.0.1:\d+/\?token=\S+", shown.stderr.readline())
        assert link is not None
        assert Answer(link[0]).status == 303
        assert Answer(link[0].partition("?")[0] + "metrics").status == 200
        assert "Ctrl-C closes it" in shown.stderr.readline()
        shown.send_signal(signal.SIGINT)
        assert shown.wait(60) == 130


def test_what_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with weft("console", str(tmp_path)) as refused:
        _, said = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "is not a checkpoint" in said
    assert "hint: " in said
