"""Plans of many queries, chosen together: exact answers, never predicted to cost more, and shared as they say."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.fuzz import small_limits
from tests.shared import Shared, make_shared
from weft.explain import FORMATS, Subject, explain
from weft.host.inprocess.run import InProcess
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.optimizer.joint.together import choose_together, plan_together, with_holding
from weft.optimizer.known import Known
from weft.optimizer.plan import SHARINGS, Sharing, choices, topology
from weft.optimizer.whole import whole_bill
from weft.optimizer.wishes import Wishes
from weft.optimizer.written.plan import bind, write
from weft.session.improve import improve, is_unfinished
from weft.testing import Trial, assert_same_rows, expected_after_lateness
from weft.topology.model import Topology
from weft.topology.node import Probe

# ------------------------------------------------------------------------------------------- random sessions


def known_of(rng: random.Random, case: Shared) -> Known:
    """Any numbers: they may change the plan, never the answer.  Where waves cost little, lines win more often."""
    streams = sorted({r.stream.name for query in case.queries.values() for r in query.relations})
    rows = 10 ** rng.uniform(3, 7)
    statistics = weft.Statistics(
        {name: float(int(rows * rng.uniform(0.5, 2))) for name in streams},
        rates={name: 10 ** rng.uniform(2, 5) for name in streams} if rng.random() < 0.3 else {},
        distinct={f"{name}.{column}": rows * rng.uniform(0.3, 3) for name in streams for column in ("k", "j", "v")},
    )
    return Known(statistics, prices=Prices(wave=rng.choice([0.04, 1e-5, 1e-5])))


def plan(case: Shared, known: Mapping[str, Known], sharing: Sharing) -> tuple[tuple[Choice, ...], Topology]:
    queries = {name: case.queries[name] for name in known}
    made = choices(queries, case.workers, dict.fromkeys(known, Wishes()), known, sharing)
    return made, topology(made, sharing=sharing)


def run(case: Shared, made: Topology) -> None:
    host = InProcess(made)
    with small_limits(random.Random(case.seed)):
        for batch in case.batches:
            host.feed(batch)
    for name in made.emit_of:
        query = case.queries[name]
        assert_same_rows(host.table(name), expected_after_lateness(query, case.batches), f"{case}{name}: ")


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(10))
def test_every_way_of_sharing_answers_what_the_oracle_answers(chunk: int) -> None:
    for seed in range(chunk * 10, (chunk + 1) * 10):
        case, price = make_shared(seed + 40_000, windows=seed % 3 == 0), dict[str, float]()
        known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
        for sharing in SHARINGS:
            chosen, made = plan(case, known, sharing)
            price[sharing] = whole_bill(made, chosen, with_holding(chosen[0].known.prices)).seconds
            run(case, made)
        assert price["global"] <= price["local"] * (1 + 1e-9) <= price["none"] * (1 + 1e-6), str(case)


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(5))
def test_plans_by_lines_alone_answer_what_the_oracle_answers(chunk: int) -> None:
    shared = 0
    for seed in range(chunk * 10, (chunk + 1) * 10):
        case = make_shared(seed + 90_000, windows=seed % 3 == 0)
        known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
        own, made = plan(case, known, "local")
        joint, _ = plan_together(own, whole_bill(made, own).seconds, whole=False)
        assert all(choice.chosen.layout.lines for choice in joint if len(choice.query.relations) > 1)
        both = topology(joint)
        run(case, both)
        shared += any(len(probe.users) > 1 for probe in both.probes)
        for choice in joint:
            written = weft.Plan.from_json(write(choice.query, choice.chosen.layout).to_json())
            assert bind(written, choice.query) == choice.chosen.layout
    assert shared > 2


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(40))
def test_a_plan_for_all_is_written_down_and_read_again(seed: int) -> None:
    case = make_shared(seed + 50_000)
    known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
    chosen, made = plan(case, known, "global")
    remembered = {c.name: weft.Plan.from_json(write(c.query, c.chosen.layout).to_json()) for c in chosen}
    for choice in chosen:
        assert bind(remembered[choice.name], choice.query) == choice.chosen.layout
    again = {name: replace(known[name], made=remembered[name]) for name in known}
    assert plan(case, again, "global")[1] == made


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(30))
def test_a_new_query_is_planned_beside_those_that_are_there(seed: int) -> None:
    case = make_shared(seed + 60_000)
    known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
    *old, new = known
    before, _ = plan(case, {name: known[name] for name in old}, "global")
    made = {c.name: replace(known[c.name], made=write(c.query, c.chosen.layout)) for c in before}
    chosen, both = plan(case, {**made, new: known[new]}, "global")
    assert [c.chosen.layout for c in chosen[:-1]] == [c.chosen.layout for c in before]
    run(case, both)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(20))
def test_without_time_the_search_alone_answers(seed: int) -> None:
    case = make_shared(seed + 70_000)
    known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
    own, _ = plan(case, known, "local")
    made = choose_together(own, time_limit=0)
    run(case, topology(made))
    prices = with_holding(own[0].known.prices)
    joint, separate = (whole_bill(topology(chosen), chosen, prices).seconds for chosen in (made, own))
    assert joint <= separate * (1 + 1e-9)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_every_stage_explains_a_plan_for_all(seed: int) -> None:
    case = make_shared(seed + 80_000)
    known = dict.fromkeys(case.queries, known_of(random.Random(seed), case))
    chosen, made = plan(case, known, "global")
    subject = Subject(case.queries, {}, lambda: chosen, lambda: made)
    for stage in ("candidates", "chosen", "topology"):
        for form in FORMATS:
            text = explain(subject, stage, form)
            assert text == explain(subject, stage, form)
            assert all(name in text for name in case.queries)
    page = json.loads(explain(subject, "topology", "json"))["sharing"]
    assert page["rows_stored"] <= page["rows_stored_apart"] * (1 + 1e-9)
    assert page["tuples_probed"] <= page["tuples_probed_apart"] * (1 + 1e-9)


# ------------------------------------------------------------------------------------------- the papers' example


def example(workers: int, sharing: Sharing, folder: str | Path = "unused") -> weft.Session:
    """CLASH (002) V.2: every relation has n rows, S and T have 1.5 n pairs, all other joins n results."""
    n = 1e6
    s = weft.Session(folder, workers=workers, progress=False)
    for name in "RSTU":
        s.stream(name, weft.read.batches([pa.table({c: pa.array([], pa.int64()) for c in ("id", "a", "b", "c")})]))
    selectivities = {("R", "S"): 1 / n, ("S", "T"): 1.5 / n, ("T", "U"): 1 / n}
    s.options(sharing=sharing, statistics=weft.Statistics(dict.fromkeys("RSTU", n), selectivities=selectivities))
    s.query("q1", "SELECT R.id AS r, S.id AS s, T.id AS t FROM R, S, T WHERE R.a = S.a AND S.b = T.b")
    s.query("q2", "SELECT S.id AS s, T.id AS t, U.id AS u FROM S, T, U WHERE S.b = T.b AND T.c = U.c")
    return s


def test_gi1_the_plan_for_both_queries_sends_800_where_separate_plans_send_950() -> None:
    probed = {
        sharing: whole_bill(s.topology, s.choices).total.probed / 1e4
        for sharing in SHARINGS
        for s in [example(1, sharing)]
    }
    assert probed == pytest.approx({"none": 950, "local": 950, "global": 800})


def test_gi4_probe_orders_with_a_common_prefix_are_one_tree() -> None:
    made = example(1, "global").topology
    for label, other in (("S", "T"), ("T", "S")):
        [start] = [start for start in made.starts if start.label == label]
        [first] = [node for name in start.then if isinstance(node := made.nodes[name], Probe)]
        assert first.members == (other,)
        assert first.users == ("q1", "q2"), "the prefix runs once for both"
        ahead = [node for name in first.then if isinstance(node := made.nodes[name], Probe)]
        assert sorted((node.members, node.users) for node in ahead) == [(("R",), ("q1",)), (("U",), ("q2",))]
    assert sorted(store.stream for store in made.stores) == ["R", "S", "T", "U"]


def test_nothing_is_shared_where_nothing_is_to_be_shared() -> None:
    made = example(1, "none").topology
    queries = [{user.split(".")[0] for user in store.users} for store in made.stores]
    assert all(len(users) == 1 for users in queries)
    assert len(made.stores) == 6
    assert len(made.starts) == 6
    assert all(len(edge.stores) + len(edge.starts) <= 2 for edge in made.edges)
    assert {probe.users for probe in made.probes} == {("q1",), ("q2",)}


def test_each_way_of_sharing_gives_the_same_rows() -> None:
    rows = pa.table({c: pa.array([1, 2, 3, 1], pa.int64()) for c in ("id", "a", "b", "c")})
    found = []
    for sharing in SHARINGS:
        trial = Trial(example(2, sharing))
        for name in "RSTU":
            trial.feed({name: rows})
        found.append([sorted(map(str, trial.table(query).to_pylist())) for query in ("q1", "q2")])
    assert found[0] == found[1] == found[2]
    assert found[0][0]


def test_a_better_plan_that_is_found_later_is_a_change_of_plan(tmp_path: Path) -> None:
    s = example(2, "global", tmp_path / "checkpoint")
    best = s.choices[0].together
    assert best is not None
    # As if the solver had had no time: each query has its own plan.
    note = replace(best, used=False, seconds=10 * best.separate, ended="time limit")
    hasty = tuple(replace(choice, together=note) for choice in example(2, "local").choices)
    assert s.adopt(hasty)
    trial = Trial(s, state=s.checkpoint.root)
    rows = pa.table({c: pa.array([1, 2, 3, 1], pa.int64()) for c in ("id", "a", "b", "c")})
    for name in "RST":
        trial.feed({name: rows})
    before = trial.topology
    assert is_unfinished(hasty)
    improve(hasty, lambda found: [s.adopt(found)]).join()
    assert not is_unfinished(s.choices)
    assert s.topology != before, "nothing better was found"
    trial.change()
    assert trial.topology == s.topology
    trial.feed({"U": rows})
    for name in ("q1", "q2"):
        wanted = Trial(example(1, "none"))
        for stream in "RSTU":
            wanted.feed({stream: rows})
        assert_same_rows(trial.table(name), wanted.table(name), f"{name}: ")
        assert wanted.table(name).num_rows


def test_an_unknown_way_of_sharing_is_refused() -> None:
    with pytest.raises(weft.PlanError, match='sharing "some" is unknown') as caught:
        weft.Session("unused").options(sharing="some")  # type: ignore[arg-type]
    assert caught.value.hint == "use one of: global, local, none."
