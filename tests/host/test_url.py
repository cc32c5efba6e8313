"""Files that are made at a URL: whole or not at all, in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.objectstore import Store
from weft.host import url
from weft.host.results.folder import open_folder

CONTENT = bytes(range(256)) * 50_000


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with Store().running() as running:
        yield running


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, store: Store) -> str:
    return f"file://{tmp_path}/there" if request.param == "file" else store.url(f"there/{tmp_path.name}")


def test_file_is_sent_in_blocks_and_is_the_same(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(url, "BLOCK", 5_000_000)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it is read whole"))
    source, folder = tmp_path / "mine", open_folder(place)
    source.write_bytes(CONTENT)
    for _ in range(2):  # publishing again replaces it
        folder.put(source, "a/b.parquet")
    assert folder.names(deep=True) == ["a/b.parquet"]
    assert folder.read("a/b.parquet").read() == CONTENT


def test_file_of_which_not_all_can_be_read_is_not_there(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        """A file whose second block cannot be read."""

        def __init__(self, *_: object) -> None:
            self.blocks = [CONTENT]

        def read(self, _size: int) -> bytes:
            if not self.blocks:
                raise OSError("disk broken")
            return self.blocks.pop()

        def __enter__(self) -> Broken:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(url, "open", Broken, raising=False)
    monkeypatch.setattr(url, "TRIES", 1)
    folder = open_folder(place)
    with pytest.raises(OSError, match="disk broken"):
        folder.put(tmp_path / "mine", "b.parquet")
    assert folder.names(deep=True) == []
