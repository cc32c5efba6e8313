"""SQL text as tokens, each with its place: the one lexer of queries, of fragments of the builder and of scripts.

A word begins with a letter or `_` and goes on to the next white space or ASCII sign other than `_` and `$`.  A quote
inside quotes is doubled; a backslash means itself.  Comments are `--` to the end of the line and `/* */`, which
nest.  Operators that Weft does not have are tokens too, so that they are refused as a whole and by name.
White space, comments and a byte order mark before all else leave no token; every other character is part of exactly
one, or the text is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

from weft.errors import ParseError, Span

Kind = OneOf["word", "name", "string", "number", "operator", "end"]

_OPERATORS = (
    "->> #>> <=> <-> ~~* !~* -> #> <> <= >= == != => := :: || |> && ** // << >> ~~ ~* !~ @> <@ ^@ ?? "
    "( ) [ ] { } , . ; : + - * / % = < > ! # & ^ | ~ \\"
)
"""Longer ones first."""
_DIGITS = "[0-9]+(?:_[0-9]+)*"

# The quantifiers of quoted text are possessive (*+).  Otherwise 'a'' would be read as a string and a stray quote.
_TOKEN = re.compile(
    rf"""
      (?P<space>   \s+ | \A\ufeff | --[^\r\n]*)
    | (?P<comment> /\*)
    | (?P<foreign> [bBeEnNxX]'(?:[^']|'')*+' | \$[^\W\d]\w*\$ | \$\$)
    | (?P<string>  '(?:[^']|'')*+')
    | (?P<name>    "(?:[^"]|"")*+" | `(?:[^`]|``)*+`)
    | (?P<open>    ['"`])
    | (?P<number>  (?:{_DIGITS}\.?(?:{_DIGITS})? | \.{_DIGITS})(?:[eE][+-]?{_DIGITS})?)
    | (?P<word>    [^\W\d][^\s!"\#%&'()*+,\-./:;<=>?@\[\\\]^`{{|}}~]*)
    | (?P<operator>{"|".join(map(re.escape, _OPERATORS.split()))})
    | (?P<parameter>[?$@])
    | (?P<stray>   .)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is without quotes, and `upper` is what keywords are compared with."""

    kind: Kind
    text: str
    span: Span

    @property
    def upper(self) -> str:
        """The text of a bare word or operator in upper case; empty for anything quoted."""
        return self.text.upper() if self.kind in ("word", "operator") else ""


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, ended by one of kind "end".

    >>> [(token.kind, token.text) for token in tokenize("o.price >= 1_000 -- cents")]
    [('word', 'o'), ('operator', '.'), ('word', 'price'), ('operator', '>='), ('number', '1000'), ('end', '')]
    """
    tokens = list(_tokens(text))
    end = tokens[-1].span.end + 1 if tokens else 0
    return [*tokens, Token("end", "", Span(end, end, text))]


def _tokens(text: str) -> Iterator[Token]:
    at = 0
    while found := _TOKEN.match(text, at):
        group, written, at = found.lastgroup, found.group(), found.end()
        span = Span(found.start(), at - 1, text)
        match group:
            case "space":
                pass
            case "comment":
                at = _comment_end(text, span)
            case "string" | "name":
                quote = written[0]
                yield Token(group, written[1:-1].replace(quote * 2, quote), span)
            case "number":
                yield Token(group, written.replace("_", ""), span)
            case "word" | "operator":
                yield Token(group, written, span)
            case _:
                raise _unreadable(str(group), written, span)


def _comment_end(text: str, opening: Span) -> int:
    """Behind the comment that begins at `opening`, with all that are nested in it."""
    depth = 1
    for edge in _COMMENT_EDGE.finditer(text, opening.end + 1):
        depth += 1 if edge.group() == "/*" else -1
        if depth == 0:
            return edge.end()
    raise ParseError("this comment is never closed", hint="close it with */.", span=_rest(opening))


def _unreadable(group: str, written: str, span: Span) -> ParseError:
    if group == "open":
        what = "string" if written == "'" else "quoted name"
        hint = f"close it with {written}; inside, {written * 2} stands for {written}."
        return ParseError(f"this {what} is never closed", hint=hint, span=_rest(span))
    if group == "foreign":
        return ParseError("this kind of string is not supported", hint="put the text in single quotes.", span=span)
    if group == "parameter":
        return ParseError("query parameters are not supported", hint="put the value into the text.", span=span)
    return ParseError(f"{written!r} cannot be read here", hint="leave it out, or put it in quotes.", span=span)


def _rest(span: Span) -> Span:
    """From the beginning of `span` to the end of the text."""
    return Span(span.start, len(span.text), span.text)
