"""The file of Spark's classes: it is complete or not used, and only one process makes it at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from weft.launch import classes, prepare
from weft.launch.classes import Archive
from weft.launch.java import Java


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "my cache"))
    (tmp_path / "my cache").mkdir()
    return Archive(tmp_path / "java")


def test_half_a_file_is_not_used(archive: Archive, tmp_path: Path) -> None:
    aside = tmp_path / "my cache" / "aside"
    aside.write_bytes(b"classes")
    archive.keep(aside)
    file = archive.file
    assert file is not None
    assert f'"-XX:SharedArchiveFile={file}"' in archive.options()
    file.write_bytes(b"clas")
    assert archive.file is None


def test_another_java_has_another_file(archive: Archive, tmp_path: Path) -> None:
    program = archive.home / "bin" / "java"
    program.parent.mkdir(parents=True)
    stems = {Archive(tmp_path / "other java").stem, archive.stem}
    for content in ("1", "22"):  # it was brought up to date
        program.write_text(content)
        stems.add(Archive(archive.home).stem)
    assert len(stems) == 4


def test_one_at_a_time(archive: Archive) -> None:
    file = archive.stem.with_suffix(".lock")
    with prepare.lock(archive.stem), file.open() as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with prepare.lock(archive.stem):
        pass  # it is free again


def test_what_cannot_be_made_is_given_up(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(_cores: int, options: str) -> None:
        Path(options.split('"')[1].partition("=")[2]).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(prepare, "ensure_java", lambda: Java(archive.home, 17, "PATH"))
    monkeypatch.setattr(prepare, "start_quickly", die)
    assert prepare.make(_rehearse_nothing) is None
    assert archive.failed.exists()
    assert not [*archive.stem.parent.glob("*.aside")]


def test_nothing_is_made_where_spark_starts_plainly(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_PLAIN_START", "1")
    assert prepare.make(_rehearse_nothing) is None
    assert not [*archive.stem.parent.iterdir()]


def _rehearse_nothing(*_: object) -> None:
    pass


def test_a_cache_that_cannot_be_written_is_no_obstacle(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "touch", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    monkeypatch.setattr(Path, "mkdir", refused)
    archive.doubt()
    archive.trust()
    assert archive.options() == ""


def test_what_has_failed_is_tried_again_a_day_later(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = list[Path]()
    monkeypatch.setattr(classes, "_make_at_exit", begun.append)
    archive.give_up()
    made = archive.failed.stat().st_mtime
    for hours in (0, 23):
        os.utime(archive.failed, (made, made - hours * 3600))
        assert archive.options() == ""
        assert not begun
    os.utime(archive.failed, (made, made - 25 * 3600))
    assert archive.options() == ""
    assert begun == [archive.stem.parent]


def test_file_that_is_made_again_is_forgiven_one_failed_start_too(archive: Archive, tmp_path: Path) -> None:
    aside = tmp_path / "my cache" / "aside"
    for starts in ("dd", "d"):
        aside.write_bytes(b"classes")
        archive.keep(aside)
        for _ in starts:
            archive.doubt()
    assert archive.file is not None


def test_one_failed_start_is_forgiven_and_two_are_not(archive: Archive, tmp_path: Path) -> None:
    aside = tmp_path / "my cache" / "aside"
    for starts, there in (("d", True), ("dtd", True), ("dd", False)):
        aside.write_bytes(b"classes")
        archive.keep(aside)
        for start in starts:
            (archive.doubt if start == "d" else archive.trust)()
        assert (archive.file is not None) == there
        archive.trust()
    assert archive.failed.exists()
