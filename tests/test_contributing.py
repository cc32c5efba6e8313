"""CONTRIBUTING names files and folders that exist, and all folders of the package."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text()
NAMED = sorted(set(re.findall(r"weft/[\w/]+(?:\.py|/)", TEXT)))


@pytest.mark.parametrize("name", NAMED)
def test_what_it_names_is_there(name: str) -> None:
    path = ROOT / name
    assert path.is_dir() if name.endswith("/") else path.is_file()


def test_every_part_of_the_package_is_in_the_picture() -> None:
    parts = [path for path in (ROOT / "weft").iterdir() if path.name[0] not in "_." and path.name != "py.typed"]
    named = {path.relative_to(ROOT).as_posix() + ("/" if path.is_dir() else "") for path in parts}
    assert named <= set(NAMED)


@pytest.mark.parametrize("title", ["The way of a query", "The way of a tuple"])
def test_each_way_is_told_in_ten_lines(title: str) -> None:
    told = TEXT.partition(f"### {title}\n")[2].partition("\n#")[0]
    assert len(re.findall(r"^\d+\. ", told, re.MULTILINE)) == 10
