"""Builds the wheel and the source distribution into dist/, and tries the wheel in a new environment.

The environment has no access to this folder: it gets the wheel with its extras `java` (where there is no Java) and
`testing`, and runs `weft demo`, which checks every row.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"


def main() -> None:
    """Build and try; `--no-try` only builds."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-q", "-w", str(DIST))
    _sdist()
    print(*sorted(path.name for path in DIST.iterdir()), sep="\n")
    if "--no-try" not in sys.argv:
        _try(next(DIST.glob("*.whl")))


def _sdist() -> None:
    """Ask the build backend for the source distribution, in an environment that has it."""
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "venv", f"{folder}/env")
        _run(f"{folder}/env/bin/python", "-m", "pip", "install", "-q", "hatchling>=1.27")
        _run(f"{folder}/env/bin/python", "-m", "hatchling", "build", "-t", "sdist", "-d", str(DIST), cwd=ROOT)


def _try(wheel: Path) -> None:
    from weft.launch.java import find_java

    extras = "testing" if find_java() else "testing,java"
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/env/bin/python"
        _run(sys.executable, "-m", "venv", f"{folder}/env")
        wanted = f"weft[{extras}] @ {wheel.as_uri()}"
        _run(python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), wanted)
        _run(f"{folder}/env/bin/weft", "demo", "--orders", "3000", cwd=folder)
        _run(f"{folder}/env/bin/weft", "init", "job", cwd=folder)
        _run(f"{folder}/env/bin/weft", "run", "job/job.sql", cwd=folder)
    print("the wheel works in a new environment")


def _run(*command: str, cwd: str | Path | None = None) -> None:
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "WEFT_"))
    }
    subprocess.run(command, check=True, cwd=cwd, env=clean)


if __name__ == "__main__":
    main()
