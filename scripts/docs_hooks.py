"""What MkDocs calls while it builds the site: pages made from code, and entries whose page is not there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))

import reference  # noqa: E402


def on_config(config: Any) -> Any:
    """Leave out entries of the navigation whose page does not exist."""
    made = {*reference.pages(), "design/index.md"}
    config.nav = _kept(config.nav, Path(config.docs_dir), made)
    return config


def _kept(entries: list[Any], folder: Path, made: set[str]) -> list[Any]:
    kept: list[Any] = []
    for entry in entries:
        if isinstance(entry, str):
            kept += [entry] if entry in made or (folder / entry).exists() else []
            continue
        ((title, inside),) = entry.items()
        if isinstance(inside, list):
            kept.append({title: _kept(inside, folder, made)})
        elif inside in made or (folder / inside).exists():
            kept.append(entry)
    return kept


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from code."""
    for path, make in reference.pages().items():
        files.append(File.generated(config, path, content=make()))
    files.append(File.generated(config, "design/index.md", content=_decisions(Path(config.docs_dir) / "design")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links out of the folder of the documentation lead to the repository's files: say so without a link."""
    return re.sub(r"\[([^\]]+)\]\(((?:\.\./)+(?!design/)[^)]*)\)", r"\1", markdown) if page else markdown


def on_post_page(output: str, page: Any, config: Any) -> str:  # noqa: ARG001
    """Search in files that no server sends needs a stand-in for workers: ours, instead of one from the network."""
    depth = page.url.count("/")
    ours = f'<script src="{"../" * depth}assets/worker.js"></script>'
    return re.sub(r'<script src="https://unpkg.com/[^"]*"></script>', ours, output)


def _decisions(folder: Path) -> str:
    """The list of all design decisions, newest first."""
    files = sorted(folder.glob("2*.md"), reverse=True)
    listed = [f"- [{file.read_text(encoding='utf-8').splitlines()[0].lstrip('# ')}]({file.name})" for file in files]
    return "\n".join(["# Design decisions", "", "Why things are as they are, newest first.", "", *listed, ""])
