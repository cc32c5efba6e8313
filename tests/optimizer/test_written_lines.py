"""Plans written line by line: what is meant is understood, anything else is refused with what is possible."""

from __future__ import annotations

from typing import Any

import pytest

import weft
from tests.topology.shop import session
from weft.optimizer.written.plan import bind, write

SQL = """SELECT c.name, o.id, l.part FROM customer c, orders o, lines l WHERE o.customer = c.id AND l."order" = o.id"""
ALL = ("c", "o", "l")
LINES: list[Any] = [
    (("c", "o"), "c", [("o", "o.customer")]),
    (("c", "o"), "o", [("c", "c.id")]),
    (ALL, "c", [("o", "o.customer"), ("l", 'l."order"')]),
    (ALL, "o", [("l", 'l."order"'), ("c", "c.id")]),
    (ALL, "l", [(("c", "o"), "o.id")]),
]


def test_lines_become_ways_as_they_are_written() -> None:
    s = session(2)
    plan = weft.Plan(lines=LINES)
    query = s.query("q", SQL, strategy=plan).query
    assert weft.Plan.from_json(plan.to_json()) == plan
    assert write(query, bind(plan, query)) == plan
    topology = s.topology
    assert [store.members for store in topology.stores if store.members] == [("customer", "orders")]
    assert sorted(keep.origin for keep in topology.keeps) == ["customer", "orders"]
    text = s.explain("chosen")
    assert "on o, to fill c + o" in text
    assert "kept c + o" in text


@pytest.mark.parametrize(
    ("lines", "match"),
    [
        (LINES[:-1], "c\\+o has lines from c, o|has lines from c, o"),
        ([*LINES, LINES[0]], 'two lines lead from "c"'),
        ([*LINES[:-1], (ALL, "l", [("o", "o.id")])], "does not make"),
        ([*LINES[:-1], (ALL, "l", [("o", "o.id"), (("c", "o"), None)])], "does not make"),
        ([*LINES[1:]], "c\\+o has lines from o"),
        ([*LINES[:-1], (ALL, "l", [("x", None)])], 'the plan names "x"'),
        ([*LINES[:-1], (ALL, "l", [(("c", "o"), "o.price * 2")])], "cannot place"),
    ],
)
def test_lines_that_make_no_sense_are_refused(lines: list[Any], match: str) -> None:
    s = session(2)
    s.query("q", SQL, strategy=weft.Plan(lines=lines))
    with pytest.raises(weft.PlanError, match=match) as caught:
        s.topology  # noqa: B018 - planning is what fails
    assert caught.value.hint


def test_lines_stand_alone() -> None:
    s = session(2)
    s.query("q", SQL, strategy=weft.Plan([("c", "o")], lines=LINES))
    with pytest.raises(weft.PlanError, match="beside other parts") as caught:
        s.topology  # noqa: B018 - planning is what fails
    assert caught.value.hint
