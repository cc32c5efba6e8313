"""SQL text as tokens.

The only module that knows sqlglot.  Its tokenizer knows comments, quoting and operators; its parser is not
used, because it accepts more than it represents (`JOIN s ON` with nothing behind it parses), and Weft must
never drop anything a user wrote.  The grammar is in `weft.sql.statement` and `weft.sql.expression`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from sqlglot import Dialect, TokenError
from sqlglot.tokenizer_core import TokenType

from weft.errors import ParseError
from weft.expr.model import Span
from weft.query.caret import point

Kind = OneOf["word", "name", "string", "number", "operator", "end"]


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is without quotes, and `upper` is what keywords are compared with."""

    kind: Kind
    text: str
    span: Span

    @property
    def upper(self) -> str:
        """The text of a bare word or operator in upper case; empty for anything quoted."""
        return " ".join(self.text.upper().split()) if self.kind in ("word", "operator") else ""


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, ended by one of kind "end"."""
    try:
        found = Dialect.get_or_raise("duckdb").tokenize(text)
    except TokenError:
        raise _unreadable(text) from None
    tokens = [_token(text, raw.token_type, raw.text, Span(raw.start, raw.end)) for raw in found]
    end = tokens[-1].span.end + 1 if tokens else 0
    return [*tokens, Token("end", "", Span(end, end))]


_QUOTED: dict[TokenType, Kind] = {TokenType.STRING: "string", TokenType.IDENTIFIER: "name", TokenType.NUMBER: "number"}


def _token(text: str, kind: TokenType, value: str, span: Span) -> Token:
    if kind in _QUOTED:
        return Token(_QUOTED[kind], value, span)
    written = text[span.start : span.end + 1]
    if kind in (TokenType.PLACEHOLDER, TokenType.PARAMETER):
        raise error(text, span, "query parameters are not supported", hint="put the value into the text.")
    if kind == TokenType.UNKNOWN or not written or "STRING" in kind.name:
        raise error(text, span, f"{written!r} cannot be read here")
    return Token("word" if written[0].isalpha() or written[0] == "_" else "operator", written, span)


def _unreadable(text: str) -> ParseError:
    """The error for text whose last quote or comment is never closed: point at where it opens."""
    low, high = 0, len(text)
    while low < high:  # the longest prefix that still reads; what opens there is never closed
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _reads(text[:middle]) else (low, middle - 1)
    return error(text, Span(low, len(text)), "a quote or comment is opened and never closed")


def _reads(text: str) -> bool:
    try:
        Dialect.get_or_raise("duckdb").tokenize(text)
    except TokenError:
        return False
    return True


def error(text: str, span: Span, message: str, *, detail: str = "", hint: str | None = None) -> ParseError:
    """A ParseError that points at `span`."""
    where = point(text, span)
    return ParseError(message, detail=f"{where}\n{detail}" if detail else where, hint=hint)
