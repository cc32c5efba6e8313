"""Lines: every start has an order of its own over any stores, and answers stay exact."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.fuzz import Case, Tables, make_case, plain_functions, small_limits
from tests.optimizer.lines import random_layout
from tests.optimizer.test_labels import renamed
from weft.host.inprocess.run import InProcess
from weft.optimizer.lower.assemble import assemble
from weft.optimizer.lower.trips import ways
from weft.query.model import Query, Stream
from weft.testing import assert_same_rows, expected_after_lateness


def with_tables(rng: random.Random, query: Query) -> Query:
    """The query with some of its streams, those without event time, as tables."""
    timeless = {r.stream.name for r in query.relations if r.stream.event_time is None}
    tables = {name for name in timeless if rng.random() < 0.5}

    def change(stream: Stream) -> Stream:
        return Stream(stream.name, stream.schema, table=True) if stream.name in tables else stream

    return replace(query, relations=tuple(replace(r, stream=change(r.stream)) for r in query.relations))


def batches_of(case: Case, tables: set[str]) -> list[Tables]:
    """The batches of a case, with all rows of tables in the first one."""
    rest = [{name: rows for name, rows in batch.items() if name not in tables} for batch in case.batches]
    rest[0] |= {name: case.streams[name].rows for name in tables}
    return rest


def queries_of(case: Case, rng: random.Random) -> dict[str, Query]:
    """The queries of a case, and some of them again under other names."""
    found = {n: h.query for n, h in case.session().queries.items() if len(h.query.relations) < 6}
    tables = {}
    for query in found.values():
        tables |= {r.stream.name: r.stream for r in with_tables(rng, query).relations if r.stream.name not in tables}
    found = {
        name: replace(q, relations=tuple(replace(r, stream=tables[r.stream.name]) for r in q.relations))
        for name, q in found.items()
    }
    return found | {f"{name} again": renamed(rng, query) for name, query in found.items()}


def case_of(seed: int, rng: random.Random) -> tuple[Case, dict[str, Query]]:
    """A case with a query over three or more relations."""
    for number in range(7000 + 100 * seed, 7100 + 100 * seed):
        case = make_case(number, queries=rng.randint(1, 2))
        queries = queries_of(case, rng)
        if any(len(query.relations) > 2 for query in queries.values()):
            return case, queries
    raise AssertionError(seed)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(150))
def test_random_lines_over_random_kept_joins_answer_exactly(seed: int) -> None:
    rng = random.Random(seed)
    case, queries = case_of(seed, rng)
    made = [ways(name, query, random_layout(rng, query, case.workers), case.workers) for name, query in queries.items()]
    topology = assemble(made)
    tables = {r.stream.name for query in queries.values() for r in query.relations if r.stream.table}
    batches = batches_of(case, tables)
    run = InProcess(topology, plain_functions())
    with small_limits(rng):
        for batch in batches:
            run.feed(batch)
    for name, query in queries.items():
        wanted = expected_after_lateness(query, batches, plain_functions())
        assert_same_rows(run.table(name), wanted, f"seed {seed}, {name}: ")
