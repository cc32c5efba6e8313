"""A reader of tokens with one token of look-ahead and errors that point."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise

from weft.errors import ParseError, Span
from weft.query.draft import Draft
from weft.sql.tokens import Token, tokenize

RESERVED = frozenset([
    "ALL", "AND", "ANTI", "ANY", "AS", "ASC", "ASOF", "BETWEEN", "CASE", "CAST", "CROSS", "DESC", "DISTINCT",
    "ELSE", "END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FOR", "FROM", "FULL", "GROUP", "HAVING", "ILIKE", "IN",
    "INNER", "INTERSECT", "INTERVAL", "INTO", "IS", "JOIN", "LATERAL", "LEFT", "LIKE", "LIMIT", "MATCH_CONDITION",
    "NATURAL", "NOT", "NULL", "OFFSET", "ON", "OR", "ORDER", "OUTER", "PIVOT", "POSITIONAL", "QUALIFY", "RIGHT",
    "SAMPLE", "SELECT", "SEMI", "SOME", "TABLESAMPLE", "THEN", "TRUE", "UNION", "UNPIVOT", "USING", "VALUES", "WHEN",
    "WHERE", "WINDOW", "WITH", "WITHIN",
])  # fmt: skip
"""Words that are never names unless quoted."""


class Cursor:
    """Where the parser stands in a text."""

    def __init__(self, text: str, select: Callable[[Cursor], Draft]) -> None:
        self.text = text
        self.select = select
        """Reads the SELECT of a subquery."""
        self.tokens = tokenize(text)
        self.at = 0
        self.depth = 0
        """In how many SELECTs the one that is read stands."""
        self.windows: dict[str, int] = {}
        """The named windows of the SELECT that is read, and at which token each of them is written."""

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self.tokens[self.at]

    @property
    def at_end(self) -> bool:
        """Whether everything is read."""
        return self.token.kind == "end"

    @property
    def ends_statement(self) -> bool:
        """Whether the statement ends here: at a semicolon, or at the end of the text."""
        return self.at_end or self.sees(";")

    def peek(self, ahead: int = 1) -> Token:
        """A token further on."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Read one token."""
        token = self.token
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def sees(self, *words: str) -> bool:
        """Whether these words or operators come next, in this order."""
        return all(self.peek(ahead).upper == word for ahead, word in enumerate(words))

    def sees_any(self, *words: str) -> bool:
        """Whether one of these words comes next."""
        return self.token.upper in words

    def accept(self, *words: str) -> bool:
        """Read these words if they come next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def read(self, *words: str) -> Span:
        """Read these words, which must come next, and return where they stand."""
        start = self.at
        self.at += len(words)
        return self.span_from(start)

    def expect(self, word: str, hint: str) -> Token:
        """Read `word`, or say what is missing."""
        if not self.sees(word):
            raise self.unexpected(f"{word} is missing", hint)
        return self.next()

    def is_name(self, ahead: int = 0) -> bool:
        """Whether a name comes next."""
        token = self.peek(ahead)
        return token.kind == "name" or (token.kind == "word" and token.upper not in RESERVED)

    def name(self, what: str) -> Token:
        """Read a name."""
        if not self.is_name():
            hint = "a name is a word, or anything in double quotes."
            if self.token.kind == "word":
                hint = f'"{self.token.text}" is a word of SQL; put it in double quotes to use it as a name.'
            raise self.unexpected(f"{what} is missing", hint=hint)
        return self.next()

    def word(self, what: str, hint: str) -> Token:
        """Read a name where no keyword can stand: any word will do."""
        if self.token.kind not in ("word", "name"):
            raise self.unexpected(f"{what} is missing", hint=hint)
        return self.next()

    def span_from(self, start: int) -> Span:
        """From the token at index `start` to the one read last."""
        last = max(start, self.at - 1)
        return self.tokens[start].span.to(self.tokens[last].span)

    def source(self, span: Span) -> str:
        """The text of a span, with white space and comments made single blanks."""
        first, last = (
            bisect_right(self.tokens, at, key=lambda token: token.span.start) for at in (span.start, span.end)
        )
        spans = [token.span for token in self.tokens[first - 1 : last]]
        gaps = ["", *(" " * (one.start > before.end + 1) for before, one in pairwise(spans))]
        return "".join(gap + self.text[one.start : one.end + 1] for gap, one in zip(gaps, spans, strict=True))

    def unexpected(self, message: str, hint: str) -> ParseError:
        """An error at the next token."""
        found = "the text ends here" if self.token.kind == "end" else f"found {self.source(self.token.span)}"
        return ParseError(f"{message}: {found}", hint=hint, span=self.token.span)

    def fail(self, span: Span, message: str, *, detail: str = "", hint: str | None = None) -> ParseError:
        """An error at `span`."""
        return ParseError(message, detail=detail or None, hint=hint, span=span)
