"""The command that starts Spark's JVM, noted so that later programs can start it at once.

PySpark starts a shell script, which starts a first JVM, which prints the command of the second one.  That command
depends on a few files and settings only.  So it is asked for once, by the same program of Spark, and noted in the cache
folder under a digest of what it depends on.  Which Java is taken is noted with it: a Java that was good is not started
again only to ask for its version.

What must hold: a note is used only if nothing it depends on has changed.  Where Spark is configured by a shell script
of the user (`spark-env.sh`), there is no note, and PySpark starts the JVM as usual.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from weft.launch.classes import pyspark_is, stamp
from weft.launch.java import cache_folder, ensure_java, packaged_java
from weft.launch.settings import quick_settings

HERE = "-Dweft.classes=none"
"""Stands in a noted command where options for the file of classes may come."""
ASKED = (
    "JAVA_HOME",
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "PYSPARK_SUBMIT_ARGS",
    "SPARK_SUBMIT_OPTS",
    "SPARK_DIST_CLASSPATH",
)
"""Environment variables that the command depends on."""
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Noted:
    """A command that starts Spark's JVM, and the Java it starts."""

    java_home: str
    words: tuple[str, ...]
    environ: Mapping[str, str]
    """What Spark's scripts add to the environment."""

    def with_options(self, options: str) -> list[str]:
        """The command with further options for the JVM."""
        given = shlex.split(options)
        made: list[str] = []
        for word in self.words:
            made += given if word == HERE else [word.replace(HERE, options)]
        return made


def read_command(cores: int) -> Noted | None:
    """The noted command, if there is one that fits."""
    place = _place(cores)
    if place is None:
        return None
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        plain = json.loads(place.read_text(encoding="utf-8"))
        return Noted(plain["java_home"], tuple(plain["words"]), plain["environ"])
    return None


def note_command(cores: int) -> Noted | None:
    """Ask Spark for the command and note it; None if it cannot be known or noted here."""
    place, home = _place(cores), _spark_home()
    if place is None or home is None:
        return None
    java = ensure_java().home
    environ = {
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(_conf_folder(home)),
        "SPARK_SCALA_VERSION": "2.13",
        "PYTHONHASHSEED": "0",
        "JAVA_HOME": str(java),
    }
    words = _ask(java, home, _arguments(cores), {**os.environ, **environ})
    if words is None or not any(word == HERE for word in words):
        return None
    noted = Noted(str(java), tuple(words), environ)
    with contextlib.suppress(OSError):
        _write(place, json.dumps({"java_home": noted.java_home, "words": noted.words, "environ": environ}))
    return noted


def _arguments(cores: int) -> list[str]:
    given = [word for name, value in quick_settings(cores, HERE).items() for word in ("--conf", f"{name}={value}")]
    return [*given, *shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))]


def _ask(java: Path, home: Path, arguments: Sequence[str], environ: Mapping[str, str]) -> list[str] | None:
    """What Spark's launcher says the command is: words that end with NUL, after an empty one."""
    launcher = ["-Xmx128m", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    command = [str(java / "bin" / "java"), *launcher, "org.apache.spark.deploy.SparkSubmit", *arguments]
    try:
        done = subprocess.run(command, env=dict(environ), capture_output=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    _, _, said = done.stdout.decode().partition("\0\n")
    return said.split("\0")[:-1] or None


def _place(cores: int) -> Path | None:
    """Where the command is noted; None if Spark is configured by a script, or is not there."""
    home = _spark_home()
    if home is None or (_conf_folder(home) / "spark-env.sh").exists():
        return None
    javas = [Path(folder) / "bin" / "java" for folder in (os.environ.get("JAVA_HOME"),) if folder]
    javas += [Path(found) for found in (shutil.which("java"), packaged_java()) if found]
    parts = [*pyspark_is(), *(os.environ.get(name, "") for name in ASKED), *_arguments(cores)]
    parts += [f"{path} {stamp(path)}" for path in (*javas, home / "jars", _conf_folder(home) / "spark-defaults.conf")]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return cache_folder(os.environ) / f"command-{digest}.json"


def _spark_home() -> Path | None:
    if given := os.environ.get("SPARK_HOME"):
        return Path(given)
    spec = util.find_spec("pyspark")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _conf_folder(home: Path) -> Path:
    given = os.environ.get("SPARK_CONF_DIR")
    return Path(given) if given else home / "conf"


def _write(place: Path, text: str) -> None:
    """Write a file so that nobody reads half of it."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="utf-8") as aside:
        aside.write(text)
    os.replace(aside.name, place)
