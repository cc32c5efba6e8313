"""Checks whether Weft can run on this machine.

Each check gives one finding: ok, warn or fail, with what was seen and, unless all is well, what to do.
A check never raises: an unexpected error is a finding too.  Cheap checks come first.  The last one runs a small join on
Spark in a process of its own, so that a JVM that hangs or dies is a finding as well.  What takes long is announced, and
what takes minutes is done only when it is asked for.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from weft.errors import HostError
from weft.launch import java
from weft.launch.classes import REHEARSAL, Archive
from weft.launch.plain import SWITCH, is_plain

GIB = 1024**3
LEAST_MEMORY = 2 * GIB
GOOD_MEMORY = 4 * GIB
LEAST_DISK = 1 * GIB
NEWEST_JAVA = 25
SPARK_SECONDS = 180

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw."""

    name: str
    level: Level
    seen: str
    hint: str | None = None


def examine(
    *,
    checkpoint: Path | None = None,
    spark: bool = True,
    prepare: bool = False,
    announce: Callable[[str], None] = lambda _what: None,
) -> Iterator[Finding]:
    """Run all checks, and yield each finding at once.

    `prepare` makes the file that lets Spark start faster, if it is not there; `announce` is told what takes long.
    """
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("Python", _python),
        ("Java", _java),
        ("PySpark", _pyspark),
        ("memory", _memory),
        ("temp folder", lambda: _folder("temp folder", Path(tempfile.gettempdir()))),
    ]
    if checkpoint is not None:
        checks.append(("checkpoint", lambda: _folder("checkpoint", checkpoint)))
    checks += [("numba", _numba), ("DuckDB", _duckdb)]
    if spark:
        checks += [("start", lambda: _start(prepare)), ("Spark job", _spark_job)]
    for name, check in checks:
        if (slow := _SLOW.get(name)) and (prepare or name != "start"):
            announce(slow)
        try:
            yield check()
        except Exception as surprise:  # noqa: BLE001  the doctor reports every error
            yield Finding(name, "fail", f"{type(surprise).__name__}: {surprise}")


def _python() -> Finding:
    # The version needs no check: pip refuses to install Weft on an old Python.
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def _java() -> Finding:
    try:
        found = java.ensure_java()
    except HostError as error:
        return Finding("Java", "fail", f"{error.message} ({error.detail})", error.hint)
    seen = f"{found.version} from {found.source} at {found.home}"
    if found.version > NEWEST_JAVA:
        return Finding("Java", "warn", seen, "Spark 4.3 is tested with Java 17, 21 and 25")
    return Finding("Java", "ok", seen)


def _pyspark() -> Finding:
    missing = [name for name in ("pyspark", "pandas", "pyarrow", "numpy", "numba") if _version(name) is None]
    if missing:
        return Finding("PySpark", "fail", f"not installed: {', '.join(missing)}", f"pip install {_wanted(missing)}")
    pyspark, pandas, pyarrow = (_version(name) or "" for name in ("pyspark", "pandas", "pyarrow"))
    seen = f"{pyspark} with pandas {pandas} and pyarrow {pyarrow}"
    if not pyspark.startswith("4.3."):
        return Finding("PySpark", "fail", seen, 'Weft runs on PySpark 4.3: pip install "pyspark[sql]>=4.3,<4.4"')
    if int(pandas.split(".")[0]) >= 3:
        return Finding("PySpark", "fail", seen, 'PySpark 4.3 does not support pandas 3: pip install "pandas<3"')
    return Finding("PySpark", "ok", seen)


def _wanted(packages: Sequence[str]) -> str:
    """Packages with the versions that Weft asks for, as pip takes them."""
    asked = {re.split(r"[^\w-]", text, maxsplit=1)[0]: text for text in metadata.requires("weft") or ()}
    return " ".join(f'"{asked.get(name, name).partition(";")[0].strip()}"' for name in packages)


def _duckdb() -> Finding:
    """Whether the demo can check its results; nothing else needs DuckDB."""
    found = _version("duckdb")
    if found is None:
        return Finding("DuckDB", "ok", "not installed: only `weft demo` and weft.testing use it, to check results",
                       "pip install duckdb")  # fmt: skip
    return Finding("DuckDB", "ok", f"{found}, for the check of the demo")


def _memory() -> Finding:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _container_limit()
    if limit is not None and limit < total:
        total = limit
    seen = f"{total / GIB:.1f} GiB, {os.cpu_count()} cores"
    if total < LEAST_MEMORY:
        return Finding("memory", "fail", seen, "Spark and its Python workers need 2 GiB to start, 4 GiB to work well")
    if total < GOOD_MEMORY:
        return Finding("memory", "warn", seen, "4 GiB or more is better")
    return Finding("memory", "ok", seen)


def _container_limit() -> int | None:
    """The memory limit of the control group of this process, if there is one."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _folder(name: str, folder: Path) -> Finding:
    """Whether files can be written and renamed in `folder`, or in the nearest parent that exists."""
    trouble = _write_trouble(folder)
    if trouble:
        return Finding(name, "fail", trouble, f"choose a folder you may write to{_how_to_choose(name)}")
    free = shutil.disk_usage(_nearest(folder)).free
    seen = f"{folder} can be written, {free / GIB:.1f} GiB free"
    if free < LEAST_DISK:
        return Finding(name, "warn", seen, "state and shuffles need room: leave 1 GiB or more free")
    return Finding(name, "ok", seen)


def _how_to_choose(name: str) -> str:
    return ", by setting TMPDIR" if name == "temp folder" else ""


def _write_trouble(folder: Path) -> str | None:
    """Why nothing can be written to `folder`; None if it can."""
    place = _nearest(folder)
    if not place.is_dir():
        return f"{place} is not a folder"
    try:
        with tempfile.TemporaryDirectory(prefix="weft-doctor-", dir=place) as inside:
            aside = Path(inside) / "aside"
            aside.write_bytes(b"weft")
            aside.replace(Path(inside) / "final")
    except OSError as error:
        return f"{place} cannot be written: {error.strerror}"
    return None


def _nearest(folder: Path) -> Path:
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    return place


def _numba() -> Finding:
    """Whether a function compiles, and whether compiled kernels can be kept for the next process."""
    import numba

    start = time.perf_counter()
    if numba.njit(_twice)(21) != 42:
        return Finding("numba", "fail", "a compiled function gave a wrong answer", "install numba again")
    seen = f"{numba.__version__}, compiled in {time.perf_counter() - start:.1f} s"
    places = _kernel_caches()
    if all(_write_trouble(place) for place in places):
        tried = " and ".join(map(str, places))
        return Finding("numba", "fail", f"{seen}, but no cache can be written: {tried}", "set NUMBA_CACHE_DIR")
    return Finding("numba", "ok", f"{seen}, cache can be written")


def _twice(number: int) -> int:
    return number * 2


def _kernel_caches() -> list[Path]:
    """Where numba keeps compiled kernels, in its own order: a folder set by hand, beside the source, the user's."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    if chosen:
        return [Path(chosen)]
    cache = os.environ.get("XDG_CACHE_HOME")
    user = Path(cache) if cache else Path.home() / ".cache"
    return [Path(__file__).parent / "kernels" / "__pycache__", user / "numba"]


_SLOW = {
    "start": "saving Spark's classes, so that sessions start faster: a minute or two",
    "Spark job": "running a small join on Spark: ten seconds or so",
}
"""Checks that take long -> what they do meanwhile."""

# The job the doctor runs: two streams of two rows, one match.
_SMALL_JOB = """
import sys
import pyarrow as pa
import weft
s = weft.Session(checkpoint=sys.argv[1], workers=1)
s.stream("a", weft.read.batches([pa.table({"k": [1, 2], "t": [10, 11]})]), event_time="t")
s.stream("b", weft.read.batches([pa.table({"k": [2, 3], "u": [12, 13]})]), event_time="u")
q = s.query("q", "SELECT a.k, b.u FROM a JOIN b ON a.k = b.k")
q.to_memory()
s.run()
found = q.table().to_pylist()
assert found == [{"k": 2, "u": 12}], found
"""


def _spark_job() -> Finding:
    """Run the small job in a process of its own; Spark's output is used only if it fails."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="weft-doctor-", ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", _SMALL_JOB, str(Path(folder) / "checkpoint")]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SPARK_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            hint = "look for a firewall on the loopback interface, or too little memory"
            return Finding("Spark job", "fail", f"a small join did not end within {SPARK_SECONDS} s", hint)
    if done.returncode != 0:
        cause = _cause(done.stderr) or f"exit code {done.returncode}"
        return Finding(
            "Spark job",
            "fail",
            f"a small join failed: {cause}",
            "first repair what failed above; `weft demo` shows Spark's own messages",
        )
    return Finding("Spark job", "ok", f"a small join gave the right answer in {time.perf_counter() - start:.1f} s")


def _start(prepare: bool) -> Finding:
    """Whether the file of Spark's classes is there; if it is wanted, it is made now."""
    if is_plain():
        return Finding("start", "ok", f"plain, since {SWITCH} is set: every session needs some seconds more to start")
    archive = Archive(java.ensure_java().home)
    if archive.file is None and not prepare:
        seen = "Spark's classes are not saved yet; the first program that uses Weft does it in the background"
        return Finding("start", "ok", seen, "to do it now, in a minute or two: weft doctor --prepare")
    if archive.file is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            command = [sys.executable, "-m", REHEARSAL]
            subprocess.run(command, capture_output=True, timeout=SPARK_SECONDS, check=False)
    file = archive.file
    if file is None:
        return Finding(
            "start",
            "warn",
            "Spark's classes cannot be saved",
            "Weft works without, but every start takes seconds longer",
        )
    return Finding("start", "ok", f"Spark's classes are mapped from {file}, {file.stat().st_size / 1e6:.0f} MB")


def _cause(said: str) -> str | None:
    """The line of a traceback, Python's or Java's, that names the innermost error; else the last line."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"(Caused by: )?[\w.]+(Error|Exception): ", line)]
    return next(reversed(named or lines), None)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
