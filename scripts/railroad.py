"""Railroad diagrams: rules of a grammar, drawn as SVG from a line of notation each.

'WORD'      as written            name      another rule
a b         one after the other   a | b     one of them
[ a ]       may be left out       { a }     any number of times, also none
{ a }+ sep  at least once, with something in between
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

HIGH, GAP, LETTER = 24.0, 10.0, 7.4
_BETWEEN = ("','", "';'", "'AND'", "'OR'")
"""What may stand between things that are repeated."""


@dataclass(frozen=True, slots=True)
class AllOf:
    """One after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several."""

    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Many:
    """At least once, with a word in between or not."""

    inside: Node
    between: str | None = None


Node = str | AllOf | OneOf | Many
"""What a rule says; a word in quotes stands for itself, another one for a rule or a value."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of track: its size, how far its line lies below its top, and what is drawn at (0, 0)."""

    width: float
    up: float
    down: float
    drawn: str


def parse(rule: str) -> Node:
    """A rule as data."""
    return _Reader(rule).whole()


def diagram(rule: str) -> str:
    """A rule as SVG."""
    part = _draw(parse(rule))
    width, height = part.width + 40, part.up + part.down + 12
    line = part.up + 6
    right = part.width + 20
    ends = f'<path class="t" d="M4 {line - 7}v14M4 {line}h16M{right} {line}h16M{right + 16} {line - 7}v14"/>'
    return (
        f'<svg class="railroad" role="img" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}"><title>{escape(rule)}</title>{ends}{_at(20, line, part.drawn)}</svg>'
    )


class _Reader:
    """Reads the notation."""

    def __init__(self, rule: str) -> None:
        self._words = re.findall(r"'[^']*'|\w+|\}\+|[\[\]{}()|]", rule)
        self._at = 0

    def whole(self) -> Node:
        made = self._choice()
        assert self._at == len(self._words), self._words[self._at :]
        return made

    def _peek(self) -> str:
        return self._words[self._at] if self._at < len(self._words) else ""

    def _take(self) -> str:
        self._at += 1
        return self._words[self._at - 1]

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._peek() == "|":
            self._take()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else OneOf(tuple(options))

    def _sequence(self) -> Node:
        parts: list[Node] = []
        while self._peek() not in ("", "]", "}", "}+", ")", "|"):
            parts.append(self._item())
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _item(self) -> Node:
        word = self._take()
        if word not in ("(", "[", "{"):
            return word
        inside, end = self._choice(), self._take()
        if word == "(":
            return inside
        if word == "[":
            return OneOf((AllOf(()), inside))
        if end == "}":
            return OneOf((AllOf(()), Many(inside)))
        return Many(inside, self._take() if self._peek() in _BETWEEN else None)


def _draw(node: Node) -> Part:
    match node:
        case AllOf(parts):
            return _follow([_draw(part) for part in parts])
        case OneOf(options):
            return _choose([_draw(option) for option in options])
        case Many(inside, between):
            return _repeat(_draw(inside), between)
    return _word(node)


def _at(x: float, y: float, drawn: str) -> str:
    return f'<g transform="translate({x:.1f} {y:.1f})">{drawn}</g>'


def _word(word: str) -> Part:
    literal = word.startswith("'")
    text = word.strip("'") if literal else word
    width = max(1, len(text)) * LETTER + 18
    kind = "w" if literal else "r"
    box = f'<rect class="{kind}" y="-11" width="{width:.1f}" height="22" rx="{11 if literal else 3}"/>'
    return Part(width, 12, 12, f'{box}<text x="{width / 2:.1f}" y="4" text-anchor="middle">{escape(text)}</text>')


def _follow(parts: Sequence[Part]) -> Part:
    if not parts:
        return Part(GAP, 0, 0, f'<path class="t" d="M0 0h{GAP}"/>')
    drawn, x = "", 0.0
    for number, part in enumerate(parts):
        if number:
            drawn += f'<path class="t" d="M{x:.1f} 0h{GAP}"/>'
            x += GAP
        drawn += _at(x, 0, part.drawn)
        x += part.width
    return Part(x, max(part.up for part in parts), max(part.down for part in parts), drawn)


def _choose(options: Sequence[Part]) -> Part:
    wide = max(option.width for option in options)
    drawn, y = "", 0.0
    for number, option in enumerate(options):
        if number:
            y += max(8.0, options[number - 1].down) + max(8.0, option.up) + 4
            down = f"M0 0q8 0 8 8v{y - 16:.1f}q0 8 8 8"
            back = f"M{wide + 16:.1f} {y:.1f}q8 0 8 -8v{16 - y:.1f}q0 -8 8 -8"
            drawn += f'<path class="t" d="{down}{back}"/>'
        else:
            drawn += f'<path class="t" d="M0 0h16M{wide + 16:.1f} 0h16"/>'
        drawn += _at(16, y, option.drawn) + f'<path class="t" d="M{16 + option.width:.1f} {y:.1f}H{wide + 16:.1f}"/>'
    return Part(wide + 32, options[0].up, y + options[-1].down, drawn)


def _repeat(inside: Part, between: str | None) -> Part:
    back = _word(between) if between else Part(0, 0, 0, "")
    wide = max(inside.width, back.width)
    y = inside.down + max(8.0, back.up) + 4
    drawn = f'<path class="t" d="M0 0h16M{16 + inside.width:.1f} 0H{wide + 32:.1f}"/>{_at(16, 0, inside.drawn)}'
    drawn += (
        f'<path class="t" d="M{wide + 16:.1f} 0q8 0 8 8v{y - 16:.1f}q0 8 -8 8H16q-8 0 -8 -8v{16 - y:.1f}q0 -8 8 -8"/>'
    )
    drawn += _at(16 + (wide - back.width) / 2, y, back.drawn)
    return Part(wide + 32, inside.up, y + max(8.0, back.down), drawn)
