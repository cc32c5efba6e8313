"""`%%weft`: SQL in the cells of a notebook.

    %load_ext weft

    %%weft pairs                      a SELECT: a query of the session `s`, run now; its rows are shown
    SELECT ... FROM ...

    %%weft                            statements of a script: a session of their own, run now
    CREATE STREAM ...; CREATE QUERY ...;

A query that the cell has registered before is replaced, so that a cell can be run again.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from weft.errors import QueryError
from weft.script import open_session, parse_script
from weft.session import Session
from weft.session.query import QueryHandle

USAGE = "%%weft NAME [--session VARIABLE] [--plan] [--declare]"


def load(shell: Any) -> None:
    """Let a shell understand `%%weft`."""

    def weft(line: str, cell: str) -> object:
        found = run_cell(line, cell, shell.user_ns)
        shell.user_ns.update(found.names)
        return found.shown

    shell.register_magic_function(weft, magic_kind="cell")


class Found:
    """What a cell made: names for the notebook, and what it shows."""

    def __init__(self, names: Mapping[str, object], shown: object) -> None:
        self.names, self.shown = names, shown


def run_cell(line: str, cell: str, names: Mapping[str, object]) -> Found:
    """Do what a cell says; `names` are those of the notebook."""
    words = cell.split()
    if words and words[0].upper() in ("SELECT", "WITH", "("):
        return _query(_arguments(line), cell, names)
    return _script(cell)


def _query(given: argparse.Namespace, text: str, names: Mapping[str, object]) -> Found:
    if given.name is None:
        raise QueryError("a SELECT needs a name", detail=f"usage: {USAGE}.", hint="write one: %%weft pairs.")
    session = find_session(given.session, names)
    if given.name in session.queries:
        session.drop(given.name)
    old = session.checkpoint.last >= 0
    query = session.query(given.name, text, backfill=old).to_memory()
    if given.plan:
        return Found({given.name: query}, session.explain())
    if not given.declare and not session.is_running:
        session.run()
    return Found({given.name: query}, query)


def _script(text: str) -> Found:
    script = parse_script(text, folder=Path.cwd(), name="notebook")
    session = open_session(script)
    handles: dict[str, QueryHandle] = dict(session.queries)
    return Found({"session": session, **handles}, session.run())


def find_session(wanted: str | None, names: Mapping[str, object]) -> Session:
    """The session of a notebook: the one that is named, else the one called `s`, else the only one."""
    known = {name: thing for name, thing in names.items() if isinstance(thing, Session) and not name.startswith("_")}
    choice = wanted or ("s" if "s" in known else next(iter(known), "s"))
    if choice in known and (wanted or choice == "s" or len({id(thing) for thing in known.values()}) == 1):
        return known[choice]
    said = f"sessions are: {', '.join(sorted(known))}." if known else "there is none."
    raise QueryError(
        "it is not clear which session the query belongs to" if known else "the notebook has no session",
        detail=said,
        hint='name it: %%weft pairs --session VARIABLE, or make one: s = weft.Session("state").',
    )


def _arguments(line: str) -> argparse.Namespace:
    parser = _Parser(prog="%%weft", usage=USAGE, add_help=False, allow_abbrev=False)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--session")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--declare", action="store_true")
    return parser.parse_args(shlex.split(line))


class _Parser(argparse.ArgumentParser):
    """Arguments of a cell: what is wrong is an error of ours, not the end of the kernel."""

    def error(self, message: str) -> NoReturn:
        raise QueryError(f"%%weft: {message}", hint=f"usage: {USAGE}.")
