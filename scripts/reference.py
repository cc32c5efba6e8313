"""Pages of the documentation that are made from the code: Python API, command line, errors, grammar.

They are made when the site is built, so they cannot lag behind the code.  Everything here returns Markdown.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(Path(__file__).parent))

from grammar import grammar_page  # noqa: E402

import weft  # noqa: E402
from weft import errors  # noqa: E402
from weft.cli.command import EXIT_CODES, Command, Option  # noqa: E402
from weft.cli.commands import COMMANDS  # noqa: E402


def pages() -> dict[str, Callable[[], str]]:
    """Path of every page in the site -> what makes it."""
    return {"api.md": api_page, "cli.md": cli_page, "errors.md": errors_page, "grammar.md": grammar_page}


# ------------------------------------------------------------------------------------------------ errors


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the code that makes an error."""

    anchor: str
    leaf: str
    message: str
    hint: str | None


@functools.cache
def find_places() -> tuple[Place, ...]:
    """Every place in the package that makes an error, in the order of the code."""
    leaves = {
        name for name, value in vars(errors).items() if inspect.isclass(value) and issubclass(value, weft.WeftError)
    }
    found: list[Place] = []
    for file in sorted((ROOT / "weft").rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for function, call in _calls(ast.parse(file.read_text()), "<module>"):
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            if name in leaves and call.args and module != "weft.errors":
                hint = next((word.value for word in call.keywords if word.arg == "hint"), None)
                said = None if hint is None else _template(hint)
                found.append(Place(errors.name_place(module, function), name, _template(call.args[0]), said))
    return tuple(found)


def _calls(node: ast.AST, function: str) -> Iterator[tuple[str, ast.Call]]:
    """Every call, with the innermost function around it."""
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Call):
            yield inner, child
        yield from _calls(child, inner)


def _template(node: ast.expr) -> str:
    """A message with its variable parts as names."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _template(node.left) + _template(node.right)
    if isinstance(node, ast.FormattedValue):
        words = re.findall(r"[a-z_]+", ast.unparse(node.value).lower())
        return f"‹{words[-1] if words else 'value'}›"
    return "‹…›"


def errors_page() -> str:
    """All errors, by class and by the place that makes them."""
    lines = [
        "# Errors and their cures",
        "",
        "Every error that Weft raises on purpose is a `weft.WeftError`.",
        "It has a message, a detail with the place and the values, and a hint that says what to do.",
        "`error.anchor` names its place on this page: `errors/#` and the anchor.",
        "Parts in ‹ › differ from case to case.",
        "",
    ]
    by_leaf: dict[str, list[Place]] = {}
    for place in find_places():
        by_leaf.setdefault(place.leaf, []).append(place)
    seen: set[str] = set()
    for leaf in sorted(by_leaf):
        lines += [f"## {leaf}", "", inspect.getdoc(getattr(errors, leaf)) or "", ""]
        for place in by_leaf[leaf]:
            anchor = "" if place.anchor in seen else f'<a id="{place.anchor}"></a>'
            seen.add(place.anchor)
            lines.append(
                f"- {anchor}**{_escape(place.message)}**" + (f"  \n  {_escape(place.hint)}" if place.hint else "")
            )
        lines.append("")
    return "\n".join(lines)


def _escape(text: str) -> str:
    return re.sub(r"([\\*_`<>\[\]|#])", r"\\\1", " ".join(text.split()))


# --------------------------------------------------------------------------------------------------- API


def api_page() -> str:
    """Every public name, with its signature and docstring."""
    names = [name for name in weft.__all__ if not name.startswith("__")]
    lines = ["# Python API", "", "Everything here is in the package `weft`.", ""]
    for name in sorted(
        names, key=lambda name: (name not in ("Session", "QueryHandle", "Handle", "read"), name.lower())
    ):
        lines += _describe(name, getattr(weft, name), 2)
    return "\n".join(lines)


def _describe(name: str, thing: Any, depth: int) -> list[str]:
    if inspect.ismodule(thing):
        lines = [f"{'#' * depth} `weft.{name}`", "", _doc(thing), ""]
        for part, function in vars(thing).items():
            if inspect.isfunction(function) and function.__module__ == thing.__name__ and not part.startswith("_"):
                lines += _describe(f"{name}.{part}", function, depth + 1)
        return lines
    if not inspect.isclass(thing):
        return [f"{'#' * depth} `{name}`", "", *_signature(name, thing), _doc(thing), ""]
    lines = [f"{'#' * depth} `{name}`", "", *_signature(name, thing), _doc(thing), ""]
    if thing.__init__.__doc__ and "__init__" in vars(thing) and thing.__init__.__doc__ != object.__init__.__doc__:
        lines += [inspect.getdoc(thing.__init__) or "", ""]
    for part, member in _members(thing).items():
        plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if part.startswith("_") or not inspect.isfunction(plain) or not plain.__doc__:
            continue
        lines += [f"{'#' * (depth + 1)} `{name}.{part}`", ""]
        lines += [] if isinstance(member, property) else _signature(part, plain)
        lines += [_doc(plain), ""]
    return lines


def _members(thing: type) -> dict[str, Any]:
    """What a class has, with what it has from classes that have no place of their own on the page."""
    public = {getattr(weft, name) for name in weft.__all__ if inspect.isclass(getattr(weft, name))}
    own = [one for one in thing.__mro__ if one is thing or (one.__module__.startswith("weft.") and one not in public)]
    return {part: member for one in reversed(own) for part, member in vars(one).items()}


def _signature(name: str, thing: Any) -> list[str]:
    try:
        said = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return []
    said = re.sub(r"'([^']*)'", r"\1", said).replace("self, ", "").replace("(self)", "()")
    return ["```text", f"{name}{said}", "```", ""]


def _doc(thing: Any) -> str:
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", inspect.getdoc(thing) or "")


# --------------------------------------------------------------------------------------------------- cli


def cli_page() -> str:
    """Every command with its options, and the exit codes."""
    lines = ["# Command line", "", "`weft COMMAND --help` says the same.", ""]
    for command in COMMANDS:
        lines += _command(command)
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXIT_CODES]
    lines += [
        "",
        "## Terminals, pipes and programs",
        "",
        "Answers go to stdout; progress, notices and errors go to stderr.",
        "Colours are for terminals only: `NO_COLOR` switches them off, `FORCE_COLOR` on.",
        "The table of `weft run --watch` is cut to the width of the terminal.",
        "A pipe gets a line for each batch instead.",
        "`--json` prints what a program can read.",
        "",
    ]
    return "\n".join(lines)


def _command(command: Command) -> list[str]:
    places = " ".join(f"[{o.metavar}]" if o.optional else o.metavar for o in command.options if o.is_positional)
    lines = [
        f"## weft {command.name}",
        "",
        "```text",
        f"weft {command.name} {places}".rstrip(),
        "```",
        "",
        command.page,
        "",
    ]
    if command.options:
        lines += ["| option | meaning |", "|---|---|", *map(_option, command.options), ""]
    return lines


def _option(option: Option) -> str:
    value = "" if option.is_positional or option.type is bool else f" {option.metavar}"
    name = option.metavar if option.is_positional else f"{option.name}{value}"
    return f"| `{name}` | {option.help.replace('|', '/')} |"


if __name__ == "__main__":
    for path, make in pages().items():
        print(f"=== {path}\n{make()}")
