"""Hints for people who write scripts: what a hint says in Python, said in the statements of a script.

Hints are written once, where something is wrong, and speak of Python.  In a script there are no calls: options stand in
WITH, streams come from CREATE.  A hint that speaks of neither comes back as it is.
"""

from __future__ import annotations

import re

_SAYINGS: tuple[tuple[str, str], ...] = (
    (r'declare it with s\.stream\("(\w+)", source\)', r"create it: CREATE STREAM \1 FROM PARQUET 'folder';"),
    (r'declare it: s\.stream\("(\w+)", source, event_time="\.\.\."\)', r"write WITH (event_time = 'column') behind \1"),
    (r"declare a table: s\.table\(name, source\)", "create a table: CREATE TABLE name FROM CSV 'folder';"),
    (r's\.drop\("(\w+)"\)', r"DROP QUERY \1;"),
    (r"\bpass (\w+)=True", r"write WITH (\1 = TRUE) behind its folder"),
    (r'declare the stream with (\w+)="(\w+)"', r"write WITH (\1 = '\2') behind the folder of the stream"),
    (r"\bcall s\.analyze\(\) first", "give its numbers: WITH (statistics = 'file.json')"),
    (r"register a Python function of that name", "only functions of SQL can be called in a script"),
    (r"pass schema=pyarrow\.schema\(\[\.\.\.\]\)", "write the columns: CREATE STREAM name (column TYPE, ...) FROM ..."),
    (r'(\b\w+)="(\w+)"', r"\1 = '\2'"),
    (r"(\b\w+)=True", r"\1 = TRUE"),
)


def for_scripts(hint: str | None) -> str | None:
    """The hint as a script would follow it.

    >>> for_scripts("add a join condition, or pass cross_product=True if every combination is wanted.")
    'add a join condition, or write WITH (cross_product = TRUE) behind its folder if every combination is wanted.'
    """
    for python, said in _SAYINGS if hint is not None else ():
        assert hint is not None
        hint = re.sub(python, said, hint)
    return None if hint is None else hint.replace(";.", ";")
