"""CONTRIBUTING names files and folders that exist, and all folders of the package."""

from __future__ import annotations

import ast
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


PACKAGES = sorted(path.parent.relative_to(ROOT) for path in (ROOT / "weft").rglob("__init__.py"))


@pytest.mark.parametrize("package", [path for path in PACKAGES if len([*(ROOT / path).glob("*.py")]) > 8], ids=str)
def test_a_large_package_says_what_each_module_is_for(package: Path) -> None:
    told = ast.get_docstring(ast.parse((ROOT / package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__", "__main__"}
    assert sorted(modules - {*re.findall(r"\w+", told)}) == []


@pytest.mark.parametrize("title", ["The way of a query", "The way of a tuple"])
def test_each_way_is_told_in_ten_lines(title: str) -> None:
    told = TEXT.partition(f"### {title}\n")[2].partition("\n#")[0]
    assert len(re.findall(r"^\d+\. ", told, re.MULTILINE)) == 10
