"""Other spellings of a query: comparisons turned, AND, OR and IN in another order, other names, cases and white space.

The text is taken apart by brackets, and by the words that end a condition; what stands between is a condition, and is
written otherwise.  What must hold: the text means the same.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

_VALUE = r"(?:[\w.\"]+(?: \+ 1)?|\x00\d+\x00)"
_COMPARED = re.compile(rf"({_VALUE}) (=|<>|<=|>=|<|>|IS DISTINCT FROM|IS NOT DISTINCT FROM) ({_VALUE})\Z")
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS = "WHERE|GROUP BY|HAVING|ORDER BY|QUALIFY|LIMIT|UNION|WITHIN"
_END = rf"(?: (?:(?:LEFT|RIGHT|FULL|SEMI|ANTI|ASOF|CROSS) )*JOIN | (?:{_WORDS}) |\Z)"
_CONDITION = re.compile(rf"( ON | WHERE | HAVING | QUALIFY )(.*?)(?={_END})")
_LIST = re.compile(r"\d+(?:, \d+)+\Z")
_KEPT = re.compile(r"('[^']*'|\s+)")


def respell(text: str, rng: random.Random) -> str:
    """Another spelling of a query."""
    return _shout(_Respeller(rng).written(text), rng)


class _Respeller:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inner: list[str] = []

    def written(self, text: str) -> str:
        """The text otherwise: what stands in brackets first."""
        while found := re.search(r"\(([^()]*)\)", text):
            self.inner.append(f"({self._inside(found[1])})")
            text = f"{text[: found.start()]}\0{len(self.inner) - 1}\0{text[found.end() :]}"
        return self._filled(self._inside(text))

    def _inside(self, text: str) -> str:
        if _LIST.match(text):
            return ", ".join(self._shuffled(text.split(", ")))
        if text.startswith("SELECT ") or " JOIN " in text:
            return _CONDITION.sub(lambda found: found[1] + self._condition(found[2]), text)
        return self._condition(text)

    def _condition(self, text: str) -> str:
        """AND binds more than OR; BETWEEN has an AND of its own."""
        if " BETWEEN " in text or text.startswith(("PARTITION", "ORDER")) or " OVER" in text:
            return text
        return self._parts(text, " OR ", lambda arm: self._parts(arm, " AND ", self._compared))

    def _parts(self, text: str, word: str, each: Callable[[str], str]) -> str:
        return word.join(self._shuffled([each(part) for part in text.split(word)]))

    def _compared(self, text: str) -> str:
        found = _COMPARED.match(text)
        if found is None or self.rng.random() < 0.4:
            return text
        return f"{found[3]} {_TURNED.get(found[2], found[2])} {found[1]}"

    def _shuffled(self, parts: list[str]) -> list[str]:
        return self.rng.sample(parts, len(parts))

    def _filled(self, text: str) -> str:
        while found := re.search(r"\0(\d+)\0", text):
            text = text[: found.start()] + self.inner[int(found[1])] + text[found.end() :]
        return text


def _shout(text: str, rng: random.Random) -> str:
    """Other white space, and words in another case; names of outputs stay as they are."""
    parts = _KEPT.split(text)
    for place, part in enumerate(parts):
        if part.isspace():
            parts[place] = rng.choice((" ", " ", "  ", "\n", " /* so */ "))
        elif part in ("SELECT", "FROM", "WHERE", "AND", "OR", "ON", "JOIN", "LEFT", "EXISTS", "IN", "NOT"):
            parts[place] = rng.choice((part, part.lower()))
    return "".join(parts)
