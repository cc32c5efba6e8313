"""Stores that queries share although their clocks, windows and selections differ, against the oracle."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest

import weft
from tests.fuzz import small_limits
from tests.planned import plan
from tests.shared import SCHEMA, Shared, make_shared
from weft.host.inprocess.run import InProcess, MemoryState
from weft.host.marks import marks
from weft.host.migration.migrate import Change
from weft.optimizer.lower.unite import Decide, unite_implied
from weft.query.model import Query, Stream
from weft.query.resolve import resolve
from weft.sql import parse
from weft.testing import assert_same_rows, expected_after_lateness
from weft.topology.clock import NEVER_LATE
from weft.topology.model import Topology
from weft.topology.store import Store

UNITE: Mapping[str, Decide | None] = {
    "by cost": None,
    "implied": unite_implied,
    "always": lambda group: True,
    "never": lambda group: False,
}


def run(case: Shared, decide: Decide | None = None) -> tuple[InProcess, int]:
    """The session, compared with the oracle at the end, and how often a segment had marks after a batch."""
    host, marked = InProcess(plan(case.queries, case.workers, case.asked, decide)), 0
    with small_limits(random.Random(case.seed)):
        for batch in case.batches:
            host.feed(batch)
            marked += count_marked(host)
    for name, query in case.queries.items():
        assert_same_rows(host.table(name), expected_after_lateness(query, case.batches), f"{case}{name}: ")
    return host, marked


def count_marked(host: InProcess) -> int:
    """Segments that hold rows that are late for some users."""
    assert isinstance(host.state, MemoryState)
    return sum(bool(marks(host.state.open(ref).rows)) for ref in host.manifest.segments)


@pytest.mark.fuzz
@pytest.mark.parametrize("unite", UNITE)
@pytest.mark.parametrize("chunk", range(3))
def test_queries_that_share_answer_what_the_oracle_answers(chunk: int, unite: str) -> None:
    marked = shared = rows = 0
    first = 1000 * [*UNITE].index(unite) + chunk * 20
    for seed in range(first, first + 20):
        host, found = run(make_shared(seed), UNITE[unite])
        marked += found
        shared += sum(len({user.partition(".")[0] for user in store.users}) > 1 for store in host.topology.stores)
        rows += sum(map(len, host.results.values()))
    assert marked >= 3, "hardly any row is late for one query and in time for another"
    assert shared > 15
    assert rows > 100


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(2))
def test_queries_share_kept_joins_although_their_windows_differ(chunk: int) -> None:
    shared = rows = 0
    for seed in range(5000 + chunk * 30, 5030 + chunk * 30):
        case = make_shared(seed, windows=True)
        host, _ = run(case)
        shared += sum(has_users_with_other_windows(case, store) for store in host.topology.stores)
        rows += sum(map(len, host.results.values()))
    assert shared >= 5
    assert rows > 100


WIDE, NARROW = (30, 30), (2, 5)
"""Windows of a and b, in seconds."""


@pytest.mark.parametrize("order", [(WIDE, NARROW), (NARROW, WIDE), ((None, None), NARROW), (NARROW, (None, 9), (9, 9))])
@pytest.mark.parametrize("workers", [1, 2])
def test_narrow_window_is_checked_on_rows_of_a_join_with_wide_windows(workers: int, order: Sequence[Windows]) -> None:
    """Whichever query comes first, the widest windows fill the one store of a and b."""
    streams = {name: Stream(name, SCHEMA, event_time="ts", lateness=5_000_000) for name in "abc"}
    texts = {f"q{i}": join_of_three(windows) for i, windows in enumerate(order)}
    queries = {name: resolve(parse(text), streams, {}) for name, text in texts.items()}
    asked = {name: {"strategy": weft.Plan([("a", "b")])} for name in queries}
    case = Shared(0, texts, queries, asked, random_batches(random.Random(workers)), workers)
    host, _ = run(case)
    assert sum(bool(store.members) for store in host.topology.stores) == 1
    assert len({host.table(name).num_rows for name in queries}) > 1


Windows = tuple[int | None, int | None]


def join_of_three(windows: Windows) -> str:
    a, b = ("" if size is None else f" WITHIN INTERVAL '{size}' SECOND" for size in windows)
    return (
        f"SELECT a.n AS x, b.n AS y, c.n AS z FROM a{a}, b{b}, c WITHIN INTERVAL '9' SECOND "
        "WHERE a.k = b.k AND b.j = c.j"
    )


def random_batches(rng: random.Random) -> list[dict[str, pa.Table]]:
    """Six batches of three streams, ten seconds in each."""

    def row(number: int) -> dict[str, int]:
        return {
            "n": rng.randrange(10**6),
            "k": rng.randrange(4),
            "j": rng.randrange(3),
            "v": 0,
            "ts": 10 * number + rng.randrange(10),
        }

    return [{name: pa.Table.from_pylist([row(i) for _ in range(12)], SCHEMA) for name in "abc"} for i in range(6)]


def has_users_with_other_windows(case: Shared, store: Store) -> bool:
    """Whether queries that look into a kept join have different windows for its members."""
    users = (user.partition(".") for user in store.users if store.members)
    return len({tuple(case.queries[q].relation(a).window for a in names.split("+")) for q, _, names in users}) > 1


def topologies(count: int) -> list[tuple[Shared, Topology]]:
    made = map(make_shared, range(count))
    return [(case, plan(case.queries, case.workers, case.asked)) for case in made]


def test_queries_of_one_clock_need_no_marks() -> None:
    """Every edge and store has one clock, so no frame ever gets a mark, and late rows are dropped where they come."""
    seen = 0
    for case, _ in topologies(20):
        for name, query in case.queries.items():
            made = plan({name: query, "again": query}, case.workers, dict.fromkeys([name, "again"], case.asked[name]))
            clocks = {clock.id for clock in made.clocks}
            assert len(clocks) <= 1
            seen += len(clocks)
            for edge in made.edges:
                timed = query.relations and edge.stream not in ("u", "t")
                assert set(edge.clocks) == (clocks if clocks and timed else {NEVER_LATE})
            for store in made.stores:
                assert len(store.clocks) == 1
                assert {clock for clock, _ in store.expiry} <= clocks
                assert len(store.ends) <= 1
    assert seen > 15


@pytest.mark.fuzz
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("chunk", range(2))
def test_old_queries_lose_nothing_when_others_come_and_go(chunk: int, windows: bool) -> None:
    """A plan of more queries takes over the stores; marks that nobody needs any more do no harm."""
    taken = 0
    for seed in range(chunk * 15, (chunk + 1) * 15):
        taken += come_and_go(make_shared(seed + 9000, windows=windows))
    assert taken > 10


def come_and_go(case: Shared) -> int:
    """All queries, then the first alone: its answer is that of the oracle; how many stores were taken over."""
    name = min(case.queries)
    alone: dict[str, Query] = {name: case.queries[name]}
    host = InProcess(plan(case.queries, case.workers, case.asked))
    half = len(case.batches) // 2
    for batch in case.batches[:half]:
        host.feed(batch)
    made = host.migrate(Change(plan(alone, case.workers, case.asked)))
    for batch in case.batches[half:]:
        host.feed(batch)
    assert_same_rows(host.table(name), expected_after_lateness(alone[name], case.batches), f"{case}{name}: ")
    return made.summary.taken
