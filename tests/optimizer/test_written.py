"""Plans by hand: what they mean, how they are written down, and what is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.optimizer.test_plans import ways
from weft.optimizer.plan import topology
from weft.optimizer.written.plan import bind, write

SCHEMAS = {
    "R": pa.schema([("a", pa.int64())]),
    "S": pa.schema([("a", pa.int64()), ("b", pa.int64())]),
    "T": pa.schema([("b", pa.int64()), ("c", pa.int64())]),
    "U": pa.schema([("c", pa.int64())]),
}
SQL = "SELECT r.a, s.b, t.c FROM R r, S s, T t, U u WHERE r.a = s.a AND s.b = t.b AND t.c = u.c"


def session(workers: int = 3, **wishes: Any) -> weft.Session:
    made = weft.Session("unused", workers=workers)
    for name, schema in SCHEMAS.items():
        made.stream(name, weft.read.batches([schema.empty_table()]))
    made.query("q", SQL, **wishes)
    return made


FULL = weft.Plan(
    [("t", "s"), ("r", "s", "t")],
    orders={
        "r": [("s", "t")], ("s", "t"): ["r"], "s": ["t"], "t": ["s"], "u": [("r", "s", "t")], ("t", "r", "s"): ["u"],
    },
    placement={"r": "r.a", "s": ("s.a", "s.b"), "t": None, "u": "u.c", ("s", "t"): "s.a", ("r", "s", "t"): "t.c"},
    parallelism={"u": 1, ("s", "t"): 2, "r": 3, "s": 3, "t": 3, ("r", "s", "t"): 3},
)  # fmt: skip


def test_a_plan_is_a_value_whatever_the_order_of_its_parts() -> None:
    again = weft.Plan([("r", "t", "s"), ("s", "t")], placement={("t", "s"): ["s.a"], "t": None})
    assert again == weft.Plan([["s", "t"], ["t", "s", "r"]], placement={"t": (), ("s", "t"): "s.a"})
    assert hash(again) == hash(weft.Plan.from_json(again.to_json()))
    assert weft.Plan.from_json(weft.Plan().to_json()) == weft.Plan()


def test_a_full_plan_is_written_as_it_was_read_and_makes_the_same_topology() -> None:
    first = session(strategy=FULL)
    [choice] = first.choices
    plan = write(choice.query, choice.chosen.layout)
    assert plan == FULL
    assert weft.Plan.from_json(plan.to_json()) == FULL
    bound = bind(FULL, choice.query)
    layout = choice.chosen.layout
    assert (bound.tree, bound.orders, bound.placement, bound.tasks) == (
        layout.tree, layout.orders, layout.placement, layout.tasks,
    )  # fmt: skip
    again = session(strategy=weft.Plan.from_json(plan.to_json()))
    assert again.topology == first.topology == topology(first.choices)


def test_what_a_plan_says_is_what_the_topology_does() -> None:
    made = session(strategy=FULL).topology
    stores = {tuple(store.users[0].split(".")[1].split("+")): store for store in made.stores}
    assert set(stores) == {("r",), ("s",), ("t",), ("u",), ("s", "t"), ("r", "s", "t")}
    assert {members: store.tasks for members, store in stores.items() if store.tasks != 3} == {("u",): 1, ("s", "t"): 2}
    assert stores["t",].placement == ()
    assert len(stores["s",].placement) == 2
    asked = {alias: [probe.members for probe in probes] for alias, probes in ways(made, "q")}
    assert asked["u"][0] == ("r", "s", "t")
    assert asked["r"] == [("s", "t"), ("u",)]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"keep": [("r", "x")]}, 'names "x"', "aliases r, s, t, u"),
    ({"keep": [("r", "s"), ("s", "t")]}, "does not fit the others", "share no alias, or one contains the other"),
    ({"keep": [("r",)]}, "does not fit the others", "two or more"),
    ({"keep": [()]}, "does not fit the others", "two or more"),
    ({"keep": [("r", "s", "t", "u")]}, "join of all aliases", "sinks"),
    ({"keep": [("r", "u")]}, "no predicate connects", "cross product"),
    ({"orders": {"r": ["s", "t"]}}, 'the order of "r" is s, t', "each of: s, t, u"),
    ({"orders": {"r": ["s", "s", "t", "u"]}}, 'the order of "r" is s, s, t, u', "each of: s, t, u"),
    ({"orders": {"r": []}}, 'the order of "r" is empty', "each of: s, t, u"),
    ({"orders": {"r": ["u", "t", "s"]}}, "no predicate connects", "cross product"),
    ({"orders": {("s", "t"): ["r", "u"]}}, 'no store "s+t"', "its stores are r, s, t, u"),
    ({"orders": {"y": ["r"]}}, 'names "y"', "aliases r, s, t, u"),
    ({"placement": {"s": "s.z"}}, '"s.z" cannot place "s"', "s.a, s.b"),
    ({"placement": {"s": ["s.a", "t.b"]}}, '"t.b" cannot place "s"', "s.a, s.b"),
    ({"keep": [("s", "t")], "placement": {("s", "t"): "s.b"}}, '"s.b" cannot place "s+t"', "s.a, t.c"),
    ({"placement": {("r", "s"): "s.b"}}, 'no store "r+s"', "its stores are"),
    ({"parallelism": {"s": 0}}, 'parallelism of "s" is 0', "workers"),
    ({"parallelism": {"s": True}}, 'parallelism of "s" is True', "workers"),
    ({"parallelism": {"s": 1.5}}, 'parallelism of "s" is 1.5', "workers"),
    ({"parallelism": {("s", "t"): 2}}, 'no store "s+t"', "its stores are"),
]


@pytest.mark.parametrize(("parts", "message", "detail"), REFUSED, ids=[str(parts) for parts, *_ in REFUSED])
def test_a_plan_that_cannot_be_is_refused_with_what_there_is(parts: dict[str, Any], message: str, detail: str) -> None:
    made = session(strategy=weft.Plan(**parts))
    with pytest.raises(weft.PlanError) as caught:
        made.topology  # noqa: B018
    error = caught.value
    assert message in str(error).splitlines()[0]
    assert detail in (error.detail or "")
    assert error.hint


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (99, "the inputs alone hold 400 tuples, the storage budget is 99"),
        ("399 rows", "the inputs alone hold 400 tuples, the storage budget is 399"),
        ("3999 B", "the inputs alone hold 4,000 bytes, the storage budget is 3,999"),
        ("1 kB", "the inputs alone hold 4,000 bytes, the storage budget is 1,000"),
    ],
)
@pytest.mark.parametrize("strategy", ["flat", "left_deep", "tree", "exhaustive", "auto"])
def test_a_budget_below_the_inputs_is_refused_with_both_numbers(
    strategy: str, budget: float | str, message: str
) -> None:
    statistics = weft.Statistics(dict.fromkeys(SCHEMAS, 100.0), widths=dict.fromkeys(SCHEMAS, 10.0))
    made = session(strategy=strategy, statistics=statistics, budget=budget)
    with pytest.raises(weft.PlanError, match=message) as caught:
        made.topology  # noqa: B018
    assert caught.value.detail
    assert caught.value.hint
    session(strategy=strategy, statistics=statistics, budget=400).topology  # noqa: B018
