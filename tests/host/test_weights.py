"""Weights: how often a row counts, against DuckDB, under random plans, with rows that are taken back.

A trial's rows are those of `tests.fuzz`, each with a weight.  The oracle joins them with the product of the weights as
one more output.  Combinations with a negative product are taken back: what was found and these together must be those
with a positive product, each as often as it counts.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import weft
from tests.fuzz import Case, Tables, functions, make_case, plain_functions, small_limits, some_plans
from tests.planned import plan
from weft.errors import HostError, QueryError, SourceError
from weft.expr.model import Call, Column, Expr
from weft.host.groups.fold import settle
from weft.host.hidden import cut, level
from weft.host.ingest import Ingest
from weft.host.inprocess.run import InProcess
from weft.host.weights import attach_weights, multiply, repeat, weight_of
from weft.query.calls import FunctionSignature
from weft.query.model import Output, Query, Stream
from weft.query.resolve import resolve
from weft.sql import parse
from weft.testing import assert_same_rows, expected_after_lateness

WEIGHTED = "w"
COUNT = "how often"


def read_queries(case: Case, weights: Sequence[str]) -> dict[str, Query]:
    """The queries of a case over streams of which some have weights."""
    streams = {
        stream.name: Stream(
            stream.name,
            stream.schema.append(pa.field(WEIGHTED, pa.int64())),
            event_time=stream.event_time,
            unit=stream.unit,  # type: ignore[arg-type]
            lateness=int(stream.lateness * 1_000_000),
            weight=WEIGHTED if stream.name in weights else None,
        )
        for stream in case.streams.values()
    }
    known = {name: FunctionSignature(name, returns) for name, (returns, _) in functions().items()}
    return {
        name: resolve(parse(text.replace("SELECT *", "SELECT n, k, f")), streams, known)
        for name, text in case.queries.items()
    }


def give_weights(rng: random.Random, batches: Sequence[Tables], weights: Sequence[int]) -> list[Tables]:
    """The batches with a weight for every row."""
    return [{name: with_weights(rng, table, weights) for name, table in batch.items()} for batch in batches]


def with_weights(rng: random.Random, table: pa.Table, weights: Sequence[int]) -> pa.Table:
    return table.append_column(WEIGHTED, pa.array(rng.choices(weights, k=table.num_rows), pa.int64()))


def take_back(rng: random.Random, batches: Sequence[Tables]) -> list[Tables]:
    """The batches, and in each of them some of what came so far once more, with weights that take it back."""
    found: list[Tables] = []
    left: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        made = {}
        for name, table in batch.items():
            rows = left.setdefault(name, [])
            rows += [row for row in table.to_pylist() if row[WEIGHTED]]
            rng.shuffle(rows)
            gone, left[name] = rows[: len(rows) // 3], rows[len(rows) // 3 :]
            less = [row | {WEIGHTED: -rng.randint(1, row[WEIGHTED])} for row in gone]
            made[name] = pa.concat_tables([table, pa.Table.from_pylist(less, table.schema)])
        found.append(made)
    return found


def expected(query: Query, batches: Sequence[Tables]) -> tuple[pa.Table, pa.Table]:
    """What is given and what is taken back; rows that count nothing are no rows."""
    real = [{n: t.filter(pc.not_equal(t[WEIGHTED], 0)) for n, t in batch.items()} for batch in batches]
    asked = replace(query, outputs=(*query.outputs, Output(COUNT, _product(query))))
    found = expected_after_lateness(asked, real, plain_functions())
    counts = found[COUNT].to_numpy()
    rows = found.drop_columns([COUNT])
    given, taken = (np.repeat(np.arange(len(counts)), np.maximum(0, sign * counts)) for sign in (1, -1))
    return rows.take(pa.array(given)), rows.take(pa.array(taken))


def _product(query: Query) -> Expr:
    mine = [r.alias for r in query.relations if r.stream.weight is not None]
    weights: list[Expr] = [Column(alias, WEIGHTED, pa.int64()) for alias in mine]
    first, *others = weights or [Column(query.aliases[0], "n", pa.int64())]
    return reduce(lambda a, b: Call("*", (a, b), pa.int64()), others, first)


def run(seed: int, weights: Sequence[int], *, back: bool = False) -> int:
    """One random case under some plans; how many rows it answered."""
    rng = random.Random(seed)
    case = make_case(seed)
    used = sorted({name for name in case.streams if rng.random() < 0.8} or set(case.streams))
    queries = {
        name: query
        for name, query in read_queries(case, used).items()
        if any(r.stream.weight for r in query.relations) and len(query.relations) <= 4
    }
    batches = give_weights(rng, case.batches, weights)
    if back:
        batches = take_back(rng, batches)
    if any(name not in used for name in case.streams):
        batches = [{n: t if n in used else plain(t) for n, t in batch.items()} for batch in batches]
    answered = 0
    for name, query in queries.items():
        given, taken = expected(query, batches)
        plans = {f"{name}_{i}": asked for i, asked in enumerate(some_plans(rng, query, case.workers))}
        host = InProcess(plan(dict.fromkeys(plans, query), case.workers, plans), plain_functions())
        with small_limits(rng):
            for batch in batches:
                host.feed(batch)
        for planned, asked in plans.items():
            found = pa.concat_tables([host.table(planned), taken])
            assert_same_rows(found, given, f"seed {seed}, {planned} {asked}, {case.queries[name]}: ")
            answered += given.num_rows - taken.num_rows
    return answered


def plain(table: pa.Table) -> pa.Table:
    """Rows of a stream without weights: the column is there and says nothing; nothing was taken back."""
    rows = table.filter(pc.greater_equal(table[WEIGHTED], 0))
    at = rows.schema.get_field_index(WEIGHTED)
    return rows.set_column(at, WEIGHTED, pa.array([7] * rows.num_rows, pa.int64()))


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(3))
def test_rows_count_as_often_as_their_weights_say(chunk: int) -> None:
    rows = sum(run(seed, [1, 1, 2, 3]) for seed in range(10_000 + chunk * 10, 10_010 + chunk * 10))
    assert rows > 300, "the cases of this chunk join next to nothing"


@pytest.mark.fuzz
@pytest.mark.parametrize("chunk", range(3))
def test_what_is_taken_back_no_longer_counts(chunk: int) -> None:
    seeds = range(20_000 + chunk * 10, 20_010 + chunk * 10)
    assert sum(run(seed, [0, 1, 2, 3], back=True) for seed in seeds) > 100


# ------------------------------------------------------------------------------------------ small things

SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.int64())])


def rows(*values: tuple[int | None, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "w": w} for k, w in values], SCHEMA)


def host(sql: str, workers: int = 1, **streams: str | None) -> InProcess:
    """A query over streams (k, w); what is given by name is the weight of a stream."""
    known = {name: Stream(name, SCHEMA, weight=weight) for name, weight in streams.items()}
    return InProcess(plan({"q": resolve(parse(sql), known, {})}, workers))


PAIR = "SELECT a.k AS k FROM a, b WHERE a.k = b.k"


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pair_counts_the_product(workers: int) -> None:
    t = host(PAIR, workers, a="w", b="w")
    t.feed({"a": rows((1, 2), (2, 5)), "b": rows((1, 3))})
    assert t.table("q").to_pylist() == [{"k": 1}] * 6
    t.feed({"b": rows((1, -2), (2, 1))})
    assert sorted(t.table("q")["k"].to_pylist()) == [1, 1, 2, 2, 2, 2, 2]


def test_a_row_joined_with_itself_counts_its_square() -> None:
    t = host("SELECT x.k AS k FROM a x, a y WHERE x.k = y.k", a="w")
    t.feed({"a": rows((1, 3))})
    assert t.table("q").num_rows == 9
    t.feed({"a": rows((1, -3))})
    assert t.table("q").num_rows == 0


def test_one_weighted_stream_is_enough() -> None:
    t = host(PAIR, a=None, b="w")
    t.feed({"a": rows((1, 100)), "b": rows((1, 3))})
    assert t.table("q").num_rows == 3


def test_a_query_over_one_stream_has_weights_too() -> None:
    t = host("SELECT a.k AS k FROM a WHERE a.k > 1", a="w")
    t.feed({"a": rows((1, 2), (2, 2), (3, 0))})
    assert t.table("q").to_pylist() == [{"k": 2}] * 2


def test_rows_that_count_nothing_are_not_stored() -> None:
    t = host(PAIR, a="w", b="w")
    report = t.feed({"a": rows((1, 0), (1, 0)), "b": rows((1, 1))})
    assert report.rows_in == {"a": 2, "b": 1}
    assert sum(t.manifest.held.values()) == 1


def test_results_that_are_taken_back_without_having_been_given_are_refused() -> None:
    t = host(PAIR, a="w", b="w")
    t.feed({"a": rows((1, -1)), "b": rows((1, 1))})
    with pytest.raises(HostError, match='query "q" takes results back') as caught:
        t.table("q")
    assert caught.value.detail
    assert caught.value.hint


def test_a_weight_that_is_null_is_refused() -> None:
    t = host(PAIR, a="w", b="w")
    with pytest.raises(SourceError, match=r'weight "w" of stream "a" is NULL in 2 rows'):
        t.feed({"a": rows((1, None), (2, None), (3, 1))})
    t.feed({"a": rows((1, 1)), "b": rows((1, 1))})
    assert t.table("q").num_rows == 1, "nothing of the refused batch was joined"


def test_the_weight_is_read_even_if_no_query_asks_for_it() -> None:
    stream = Stream("a", SCHEMA, weight="w")
    assert "w" in Ingest(stream, (), 1, {}).columns


def test_the_names_of_hidden_columns_are_reserved() -> None:
    with pytest.raises(QueryError, match="reserved"):
        Stream("a", pa.schema([("#w", pa.int64())]))
    with pytest.raises(QueryError, match=r'has no column "v"'):
        Stream("a", SCHEMA, weight="v")
    s = weft.Session("unused", workers=1)
    s.stream("a", weft.read.batches([rows((1, 1))]))
    with pytest.raises(QueryError, match=r'output name "#w" is reserved'):
        s.query("q", 'SELECT a.k AS "#w" FROM a')


def frame(weights: list[int] | None, *keys: int) -> pa.RecordBatch:
    made = pa.RecordBatch.from_pydict({"k": list(keys), "j": list(keys)})
    return attach_weights(made, None if weights is None else pa.array(weights, pa.int64()))


def test_columns_are_cut_with_their_weights() -> None:
    assert cut(frame([2], 1), ["j"]).schema.names == ["j", "#w"]
    assert cut(frame(None, 1), ["j"]).schema.names == ["j"]
    whole = frame(None, 1)
    assert cut(whole, ["k", "j"]) is whole


def test_frames_are_made_alike_before_they_are_joined() -> None:
    without = [frame(None, 1), frame(None, 2)]
    assert level(without) == without
    mixed = [weight_of(part) for part in level([frame(None, 1, 2), frame([5], 3)])]
    assert [part.to_pylist() for part in mixed if part is not None] == [[1, 1], [5]]


def test_products_of_weights() -> None:
    at, other = pa.array([0, 1, 1]), pa.array([1, 0, 1])
    left, right = pa.array([2, 3]), pa.array([5, 7])
    assert multiply(None, at, None, other) is None
    assert multiply(left, at, None, other).to_pylist() == [2, 3, 3]  # type: ignore[union-attr]
    assert multiply(None, at, right, other).to_pylist() == [7, 5, 7]  # type: ignore[union-attr]
    assert multiply(left, at, right, other).to_pylist() == [14, 15, 21]  # type: ignore[union-attr]


def test_rows_are_repeated() -> None:
    assert repeat(frame([2, 0, 1], 1, 2, 3), "q")["k"].to_pylist() == [1, 1, 3]
    same = frame(None, 1)
    assert repeat(same, "q") is same
    with pytest.raises(HostError, match="takes results back"):
        repeat(frame([-1], 1), "q")


@pytest.mark.parametrize("value", [None, float("nan"), -0.0, 1.5])
def test_results_add_up_whatever_their_values_are(value: float | None) -> None:
    schema = pa.schema([("x", pa.float64())])
    given = [
        attach_weights(pa.RecordBatch.from_pydict({"x": [value, 0.0]}, schema), pa.array([weight, 1], pa.int64()))
        for weight in (2, -1, 1)
    ]
    found = settle([*given, pa.RecordBatch.from_pydict({"x": [value]}, schema)], schema, "q")
    zero = value if value == 0 else 0.0  # zeros of both signs are equal: the first of them is told
    assert_same_rows(found, pa.table({"x": pa.array([value] * 3 + [zero] * 3, pa.float64())}))
