"""The grammar page says what the parser reads: no more, and no word less."""

from __future__ import annotations

import random
import re
import sys
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from weft.errors import QueryError
from weft.query.duration import UNITS
from weft.sql import expression, parse, script, sources
from weft.sql.cursor import RESERVED
from weft.sql.script import parse_statements

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

import grammar
from railroad import AllOf, Many, Node, OneOf, diagram
from railroad import parse as parse_rule

RULES = {name: parse_rule(rule) for name, rule in grammar.GRAMMAR.items()}
VALUES = {
    "string": ["'text'"], "number": ["7"], "type": ["BIGINT"], "folder": ["'in/a'"], "servers": ["'broker:9092'"],
    "period": ["'10 minutes'"], "count": ["10", "'10'"],
}  # fmt: skip
OPTIONS = {
    "set": "workers = 2", "stream": "(changes = 'op', key = ('a', 'b'), format = 'debezium')",
    "table": "(changes = 'op', event_time = 'ts')", "query": "(closed = TRUE, parallelism = ('a' = 2))",
    "topic": "(value = 'json')",
}  # fmt: skip
"""Options have names of their own, by the rule in which they stand."""
REFUSED = {
    "PIVOT", "POSITIONAL", "SAMPLE", "TABLESAMPLE", "UNPIVOT",
}  # fmt: skip
"""Reserved words of which every use is an error."""


def depths() -> dict[str, int]:
    """Rule -> how many rules deep its shortest sentence is."""
    found = dict.fromkeys(RULES, 99)
    for _ in RULES:
        found = {name: 1 + depth(node, found) for name, node in RULES.items()}
    return found


def depth(node: Node, found: dict[str, int]) -> int:
    match node:
        case AllOf(parts):
            return max((depth(part, found) for part in parts), default=0)
        case OneOf(options):
            return min(depth(option, found) for option in options)
        case Many(inside, _):
            return depth(inside, found)
    return found.get(str(node), 0)


DEPTHS = depths()


class Writer:
    """Writes a sentence by chance; once it has some words, it takes the shortest way to its end."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.names = self.words = 0

    @property
    def is_long(self) -> bool:
        return self.words > 150

    def write(self, node: Node, rule: str = "") -> list[str]:
        match node:
            case AllOf(parts):
                return [word for part in parts for word in self.write(part, rule)]
            case OneOf(options):
                return self.write(self.choose(options), rule)
            case Many(inside, between):
                words = self.write(inside, rule)
                while not self.is_long and self.chance.random() < 0.3:
                    words += [*([between.strip("'")] if between else []), *self.write(inside, rule)]
                return words
        return self.word(str(node), rule)

    def choose(self, options: tuple[Node, ...]) -> Node:
        shortest = min(options, key=lambda option: depth(option, DEPTHS))
        return shortest if self.is_long or self.chance.random() < 0.5 else self.chance.choice(options)

    def word(self, word: str, rule: str) -> list[str]:
        self.words += 1
        if word in ("option", "options") and rule in OPTIONS:
            return [OPTIONS[rule]]
        if word == "name":
            self.names += 1
            return [self.chance.choice([f"x{self.names}", f'"name {self.names}"'])]
        if word in VALUES:
            return [self.chance.choice(VALUES[word])]
        return [word.strip("'")] if word.startswith("'") else self.write(RULES[word], word)


def sentence(rule: str, seed: int) -> str:
    words = Writer(seed).word(rule, "")
    return re.sub(r"BIGINT \[", "BIGINT . x [", " ".join(words))  # BIGINT[] would be a type, and there is none


WHOLE = {
    "select": "{}",
    "expression": "SELECT a FROM b WHERE {}",
    "comparison": "SELECT {} FROM b",
    "member": "SELECT a FROM b GROUP BY {}",
    "form": "SELECT {} FROM b",
    "joined": "SELECT a FROM {}",
}
"""Rule -> a query around it."""


@pytest.mark.parametrize("rule", WHOLE)
def test_every_query_of_the_grammar_is_read(rule: str) -> None:
    for seed in range(300):
        with suppress(QueryError):  # a number behind ORDER BY is read, and then means an output that may not be there
            assert parse(WHOLE[rule].format(sentence(rule, seed))).sources


def test_every_script_of_the_grammar_is_read() -> None:
    for seed in range(300):
        text = f"{sentence('script', seed)}; CREATE QUERY q INTO PARQUET 'out' AS SELECT a FROM b"
        assert parse_statements(text).queries


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_can_be_drawn_and_names_only_rules_and_values(rule: str) -> None:
    drawn = ElementTree.fromstring(diagram(grammar.GRAMMAR[rule]))
    assert float(drawn.get("width", "0")) > 50
    said = re.sub("'[^']*'", "", grammar.GRAMMAR[rule])
    assert set(re.findall("[a-z]+", said)) <= {*RULES, *VALUES, "name"}


def test_every_word_that_the_parser_knows_is_in_the_grammar() -> None:
    words = {word for rule in grammar.GRAMMAR.values() for word in re.findall("'([^']*)'", rule)}
    known = {*expression._COMPARE, *expression._MULTIPLY, *expression._MEMBERSHIP, *expression._REGULAR}
    known |= {*expression._TYPED, *expression._SPECIAL, *expression._SUFFIXES, *script._FORMATS}
    known |= {word for kind in sources._KINDS for word in kind} | {unit.upper() for unit in UNITS}
    assert known <= words
    assert RESERVED - words == REFUSED


def test_every_option_is_on_the_page() -> None:
    page = grammar.grammar_page()
    for known in grammar.OPTIONS.values():
        assert [name for name in known if f"| `{name}` |" not in page] == []
    assert "`changes`" in page
