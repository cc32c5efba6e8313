"""The lexer: what each piece of text is, that nothing of a text is lost, and that what cannot be read is pointed at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ParseError
from weft.sql.tokens import Token, tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.text) for token in tokenize(text)[:-1]]


def refusal(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        tokenize(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", "number 1"),
        ("1.", "number 1."),
        (".5", "number .5"),
        ("1.5", "number 1.5"),
        ("1e5", "number 1e5"),
        ("1.E-5", "number 1.E-5"),
        (".5e+3", "number .5e+3"),
        ("1_000.5_0", "number 1000.50"),
        ("1e1_0", "number 1e10"),
        ("1__0", "number 1, word __0"),
        ("1_", "number 1, word _"),
        ("1._5", "number 1., word _5"),
        ("1e", "number 1, word e"),
        ("1e+", "number 1, word e, operator +"),
        ("1e_5", "number 1, word e_5"),
        ("0x1F", "number 0, word x1F"),
        ("1.5.5", "number 1.5, number .5"),
        ("1..2", "number 1., number .2"),
        ("1-2", "number 1, operator -, number 2"),
        ("a.b", "word a, operator ., word b"),
        ("a .b", "word a, operator ., word b"),
        ("a.*", "word a, operator ., operator *"),
        ("_a$1", "word _a$1"),
        ("naïve 日本 a\u0301b x😀", "word naïve, word 日本, word a\u0301b, word x😀"),
        ("a\u00a0b\u2028c\x1cd", "word a, word b, word c, word d"),
        ("DATE'2020-01-01'", "word DATE, string 2020-01-01"),
        ("'it''s'", "string it's"),
        ("''''''", "string ''"),
        ("'' ''", "string , string "),
        ("'a\\'", "string a\\"),
        ("'-- /* ; '", "string -- /* ; "),
        ('"a ""b"""', 'name a "b"'),
        ('"a"b', "name a, word b"),
        ("a<>b!=c==d", "word a, operator <>, word b, operator !=, word c, operator ==, word d"),
        ("a<=b>=c", "word a, operator <=, word b, operator >=, word c"),
        ("a||b::c//d", "word a, operator ||, word b, operator ::, word c, operator //, word d"),
        ("a<-1", "word a, operator <, operator -, number 1"),
        ("a=-.5", "word a, operator =, operator -, number .5"),
        ("a*-b", "word a, operator *, operator -, word b"),
        ("< >", "operator <, operator >"),
        ("===", "operator ==, operator ="),
        ("a->>b<=>c**d", "word a, operator ->>, word b, operator <=>, word c, operator **, word d"),
        ("f(a,[b]);", "word f, operator (, word a, operator ,, operator [, word b, operator ], operator ), operator ;"),
        ("a--b\nc--d\re", "word a, word c, word e"),
        ("1--2", "number 1"),
        ("a/**/b/* /* ; */ ' */c", "word a, word b, word c"),
        ("/*+ hint */a/b", "word a, operator /, word b"),
        ("ORDER\n BY", "word ORDER, word BY"),
        ("\\", "operator \\"),
        (" \t\r\n", ""),
    ],
)
def test_text_is_cut_as_expected(text: str, expected: str) -> None:
    assert ", ".join(f"{kind} {written}" for kind, written in kinds(text)) == expected


@pytest.mark.parametrize(
    ("text", "message", "place"),
    [
        ("a 'b", "this string is never closed", "column 3\n  a 'b\n    ^^"),
        ("'a''", "this string is never closed", "column 1\n  'a''\n  ^^^^"),
        ('"a\nb', "this quoted name is never closed", 'column 1\n  "a\n  ^^'),
        ("a /* b", "this comment is never closed", "column 3\n  a /* b\n    ^^^^"),
        ("/* /* */", "this comment is never closed", "column 1\n  /* /* */\n  ^^^^^^^^"),
        ("/*/", "this comment is never closed", "column 1\n  /*/\n  ^^^"),
        ("a = ?", "query parameters are not supported", "column 5\n  a = ?\n      ^"),
        ("$1", "query parameters are not supported", "column 1\n  $1\n  ^"),
        ("@a", "query parameters are not supported", "column 1\n  @a\n  ^"),
        ("E'\\n'", "this kind of string is not supported", "column 1\n  E'\\n'\n  ^^^^^"),
        ("a = x'ff'", "this kind of string is not supported", "column 5\n  a = x'ff'\n      ^^^^^"),
        ("$$a$$", "this kind of string is not supported", "column 1\n  $$a$$\n  ^^"),
        ("$q$a$q$", "this kind of string is not supported", "column 1\n  $q$a$q$\n  ^^^"),
        ("a `b", "this quoted name is never closed", "column 3\n  a `b\n    ^^"),
        ("a ‘b’", "'‘' cannot be read here", "column 3\n  a ‘b’\n    ^"),
        ("1 \x00", "'\\x00' cannot be read here", "column 3\n  1 \x00\n    ^"),
        ("٣", "'٣' cannot be read here", "column 1\n  ٣\n  ^"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_cure(text: str, message: str, place: str) -> None:
    error = refusal(text)
    assert error.message == message
    assert error.detail == f"line 1, {place}"
    assert error.hint


WORD = st.from_regex(r"[A-Za-z_é日][A-Za-z0-9_$é日]*", fullmatch=True)
NUMBER = st.from_regex(r"([0-9]{1,4}(\.[0-9]{0,3})?|\.[0-9]{1,3})([eE][+-]?[0-9]{1,2})?", fullmatch=True)
OPERATOR = st.sampled_from([*"=<>+-*/%()[],.;~&|^", "<>", "!=", "==", "<=", ">=", "||", "::", "//", "->", "->>", "**"])
INSIDE = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WRITTEN = st.one_of(
    st.tuples(st.just("word"), WORD).map(lambda pair: (*pair, pair[1])),
    st.tuples(st.just("number"), NUMBER).map(lambda pair: (*pair, pair[1])),
    st.tuples(st.just("operator"), OPERATOR).map(lambda pair: (*pair, pair[1])),
    INSIDE.map(lambda text: ("string", text, "'" + text.replace("'", "''") + "'")),
    INSIDE.map(lambda text: ("name", text, '"' + text.replace('"', '""') + '"')),
)
GAP = st.sampled_from([" ", "\n", "\t ", " --c ' \" /*\n", "/* ' \" -- */", "/**/", " /* a /* ; */ b */ ", "\u00a0"])


@given(st.lists(st.tuples(GAP, WRITTEN), max_size=12), GAP)
def test_tokens_come_out_as_they_were_written(pieces: list[tuple[str, tuple[str, str, str]]], last: str) -> None:
    text = "".join(f" {gap}{written}" for gap, (_, _, written) in pieces) + f" {last}"
    tokens = tokenize(text)[:-1]
    assert [(token.kind, token.text) for token in tokens] == [(kind, value) for _, (kind, value, _) in pieces]
    assert [_written(text, token) for token in tokens] == [written for _, (_, _, written) in pieces]


def _read(text: str) -> list[Token] | ParseError:
    try:
        return tokenize(text)
    except ParseError as error:
        return error


def _written(text: str, token: Token) -> str:
    return text[token.span.start : token.span.end + 1]


@given(st.text(st.sampled_from("ab1_.eE+-*/<>=|:;,()'\"$?@`\\ \n\r#!~^%&[]{}é٣²😀\u0301"), max_size=20))
def test_any_text_is_read_without_loss_or_refused_with_a_caret(text: str) -> None:
    tokens = _read(text)
    if isinstance(tokens, ParseError):
        assert "^" in str(tokens)
        assert tokens.hint
        return
    ends = [token.span.end for token in tokens[:-1]]
    starts = [token.span.start for token in tokens]
    assert all(end < start for end, start in zip(ends, starts[1:], strict=True))
    between = [text[end + 1 : start] for end, start in zip([-1, *ends], [*starts[:-1], len(text)], strict=True)]
    assert [gap for gap in between if not (gap.isspace() or "--" in gap or "/*" in gap or not gap)] == []
