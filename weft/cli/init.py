"""`weft init`."""

from __future__ import annotations

from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from weft.cli.command import OK, Command, Option
from weft.cli.terminal import say
from weft.errors import SinkError


def init(folder: Path = Path()) -> int:
    """Write a small job that runs: job.sql, the same in Python, and a few rows of input.

    The folder is made if it is not there.  Files that are there are left as they are: if one has a name that is needed,
    nothing is written.
    """
    files = dict(_files(resources.files("weft.cli") / "starter"))
    if there := sorted(str(name) for name in files if (folder / name).exists()):
        raise SinkError(
            f"folder {folder} has files of these names: {', '.join(there)}",
            detail="nothing was written.",
            hint="name another folder: weft init my_job.",
        )
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    written = ", ".join(str(folder / name) for name in files if len(name.parts) == 1)
    say(f"wrote {written} and a few rows in {folder / 'in'}")
    say(f"next:  {_enter(folder)}weft explain job.sql   how it is planned")
    say(f"       {_enter(folder)}weft run job.sql       run it; the results are in {folder / 'out'}")
    return OK


def _enter(folder: Path) -> str:
    return "" if folder == Path() else f"cd {folder} && "


def _files(folder: Traversable, at: Path = Path()) -> list[tuple[Path, bytes]]:
    """Every file of a folder in the package, with its path inside."""
    found: list[tuple[Path, bytes]] = []
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            found += _files(entry, at / entry.name)
        elif entry.is_file():
            found.append((at / entry.name, entry.read_bytes()))
    return found


COMMAND = Command(init, (Option("folder", Path, "where to write it (default: here)", hint="folder", optional=True),))
