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


CUBE = {"c": [(2, "c.id"), (2, "copy")], "o": [(2, "o.customer"), (2, "o.id")], "l": [(2, "copy"), (2, 'l."order"')]}
UNPLACED: list[Any] = [(goal, start, [(store, None) for store, _ in looks]) for goal, start, looks in LINES]


def test_lines_run_on_a_cube_without_keys_of_their_own() -> None:
    s = session(4)
    plan = weft.Plan(lines=UNPLACED, spread=CUBE)
    query = s.query("q", SQL, strategy=plan).query
    assert weft.Plan.from_json(plan.to_json()) == plan
    assert write(query, bind(plan, query)) == plan
    assert s.topology.waves == 1
    assert {probe.route for probe in s.topology.probes} == {"local"}


@pytest.mark.parametrize(
    ("plan", "wishes", "match"),
    [
        (weft.Plan(lines=LINES, spread=CUBE), {}, "lines on a cube name keys"),
        (weft.Plan(lines=UNPLACED, spread=CUBE), {"capacity": 10}, "a cube decides by itself where rows lie"),
        (weft.Plan(lines=LINES), {"budget": 10}, "the budget is 10"),
    ],
)
def test_what_does_not_fit_lines_is_refused(plan: weft.Plan, wishes: dict[str, Any], match: str) -> None:
    s = session(4)
    s.query("q", SQL, strategy=plan, statistics=weft.Statistics({"customer": 100.0}), **wishes)
    with pytest.raises(weft.PlanError, match=match) as caught:
        s.topology  # noqa: B018 - planning is what fails
    assert caught.value.hint
