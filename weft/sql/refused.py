"""What SQL knows and Weft does not: clauses and kinds of joins, each refused by name, with what to do instead."""

from __future__ import annotations

from weft.sql.cursor import Cursor

_WHICH = "say which rows come first"
_NOT_YET: dict[str, tuple[str, str]] = {
    "ORDER BY": (
        "ORDER BY is not supported without LIMIT",
        "a continuous result never ends; leave it out and sort where it is read, or write ORDER BY ... LIMIT n.",
    ),
    "LIMIT": ("LIMIT is not supported without ORDER BY", f"{_WHICH}: write ORDER BY column LIMIT n."),
    "OFFSET": ("OFFSET is not supported without LIMIT", f"{_WHICH}: write ORDER BY column LIMIT n OFFSET m."),
    "FETCH": ("FETCH is not supported without ORDER BY", f"{_WHICH}: write ORDER BY column LIMIT n."),
    "QUALIFY": ("QUALIFY cannot stand here", "write it behind WHERE, GROUP BY and HAVING, before ORDER BY."),
    "WINDOW": ("WINDOW cannot stand here", "write it behind WHERE, GROUP BY and HAVING, before QUALIFY and ORDER BY."),
    "USING SAMPLE": ("USING SAMPLE is not supported", "select rows in WHERE."),
    "TABLESAMPLE": ("TABLESAMPLE is not supported", "select rows in WHERE."),
    "FOR": ("FOR is not supported", "leave it out: a query only reads."),
    "INTO": ("INTO is not supported", "give the query a sink: q.to_parquet(...)."),
    "LATERAL VIEW": ("LATERAL VIEW is not supported", "write CROSS JOIN UNNEST(list) AS u (x)."),
    "RLIKE": ("RLIKE is not supported", "write x ~ 'pattern'."),
    "REGEXP": ("REGEXP is not supported", "write x ~ 'pattern'."),
    "CLUSTER BY": ("CLUSTER BY is not supported", "leave it out: it says nothing about the rows."),
    "PIVOT": ("PIVOT is not supported", "pivot the result downstream."),
    "UNPIVOT": ("UNPIVOT is not supported", "unpivot the result downstream."),
}
JOINS = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "ASOF", "POSITIONAL", "LATERAL")


def refuse_clause(cursor: Cursor) -> None:
    """Refuse a clause of SQL that Weft does not have; each has its own message."""
    clause = unsupported_clause(cursor)
    if clause is not None:
        message, hint = _NOT_YET[clause]
        raise cursor.fail(cursor.read(*clause.split()), message, hint=hint)
    if cursor.token.upper in JOINS:
        raise unknown_join(cursor, cursor.at)


def unsupported_clause(cursor: Cursor) -> str | None:
    """The clause that comes next, if Weft does not have it."""
    if cursor.sees("WINDOW") and cursor.peek().upper in ("(", "."):
        return None  # a window of event time
    return next((clause for clause in _NOT_YET if cursor.sees(*clause.split())), None)


def unknown_join(cursor: Cursor, start: int) -> Exception:
    """The error for a kind of join that Weft does not have; its words begin at token `start`."""
    while cursor.token.upper in (*JOINS, "INNER", "JOIN"):
        cursor.next()
    kind = " ".join(token.upper for token in cursor.tokens[start : cursor.at] if token.upper != "JOIN")
    hint = "joins are: [INNER] JOIN, LEFT, RIGHT, FULL, SEMI and ANTI JOIN, each also NATURAL, CROSS JOIN, ASOF JOIN."
    return cursor.fail(cursor.span_from(start), f"{kind} joins are not supported", hint=hint)
