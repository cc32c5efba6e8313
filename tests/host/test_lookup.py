"""Probing tuples meet rows of segments: hand-made probes and stores, against pairs found one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from weft.expr.model import Call, Column, Expr
from weft.host import lookup as module
from weft.host.lookup import lookup
from weft.host.state.segment import Segment
from weft.host.state.stores import index_rows
from weft.host.weights import attach_weights
from weft.topology.node import Bound, Probe
from weft.topology.store import Key, Store

INT, FLOAT = pa.int64(), pa.float64()


def column(name: str, alias: str = "", kind: pa.DataType = INT) -> Column:
    return Column(alias, name, kind)


def store(*columns: str, keys: Sequence[Key], members: tuple[str, ...] = ()) -> Store:
    return Store("s", "" if members else "b", (), columns, (), tuple(keys), (), "", (), members=members)


def probe(
    carry: Sequence[str] = ("a.n", "b.n"),
    *,
    equal: Sequence[Expr] = (),
    low: Sequence[Bound] = (),
    high: Sequence[Bound] = (),
    residual: Sequence[Expr] = (),
    members: tuple[str, ...] = ("b",),
    index: int = 0,
) -> Probe:
    return Probe(
        "p", ("q",), "a", 0, members, "s", 1, "local", (), 1, (), index, tuple(equal), tuple(low), tuple(high),
        tuple(residual), (), tuple(carry), (),
    )  # fmt: skip


def frame(weights: Sequence[int] | None = None, **columns: Any) -> pa.RecordBatch:
    arrays = {n: v if isinstance(v, pa.Array) else pa.array(v, INT) for n, v in columns.items()}
    made = pa.RecordBatch.from_arrays(list(arrays.values()), names=[n.replace("__", ".") for n in arrays])
    return attach_weights(made, None if weights is None else pa.array(weights, INT))


def segment(of: Store, rows: pa.RecordBatch) -> Segment:
    return Segment.of(rows, {key.name: index_rows(rows, key, {}) for key in of.indexes})


def found(step: Probe, of: Store, tuples: pa.RecordBatch, *segments: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """All matches as sorted rows; every frame has the fields that live on, in their order."""
    rows: list[tuple[Any, ...]] = []
    for part in lookup(step, of, tuples, [segment(of, s) for s in segments], {}):
        assert part.schema.names[: len(step.carry)] == list(step.carry)
        assert part.num_rows > 0
        rows += zip(*(c.to_pylist() for c in part.columns), strict=True)
    return sorted(rows)


BY_K = store("n", "k", keys=[Key((column("k"),))])
SAME_K = probe(equal=[column("k", "a")])
TUPLES = frame(a__n=[0, 1, 2], a__k=[1, 2, None])


def test_equal_keys_match_once_a_pair() -> None:
    rows = frame(n=[10, 11, 12], k=[1, 1, 3])
    assert found(SAME_K, BY_K, TUPLES, rows) == [(0, 10), (0, 11)]


def test_matches_of_all_segments_come() -> None:
    assert found(SAME_K, BY_K, TUPLES, frame(n=[10], k=[1]), frame(n=[20, 21], k=[2, 1])) == [(0, 10), (0, 21), (1, 20)]


def test_without_segments_nothing_is_asked() -> None:
    assert list(lookup(SAME_K, BY_K, frame(other=[1]), [], {})) == []


def test_null_matches_nothing_on_either_side() -> None:
    assert found(SAME_K, BY_K, TUPLES, frame(n=[10], k=[None])) == []


def test_nan_matches_nothing_on_either_side() -> None:
    of = store("n", "f", keys=[Key((column("f", kind=FLOAT),))])
    nan = pa.array([float("nan"), 1.5])
    step = probe(equal=[column("f", "a", FLOAT)])
    assert found(step, of, frame(a__n=[0, 1], a__f=nan), frame(n=[10, 11], f=nan)) == [(1, 11)]


@pytest.mark.parametrize(("strict", "wanted"), [(False, [(0, 10), (0, 11)]), (True, [(0, 10)])])
def test_a_bound_includes_its_end_unless_it_is_strict(strict: bool, wanted: list[tuple[int, int]]) -> None:
    of = store("n", "k", keys=[Key((), column("k"))])
    step = probe(high=[Bound(column("k", "a"), strict)])
    assert found(step, of, frame(a__n=[0], a__k=[5]), frame(n=[10, 11, 12], k=[4, 5, 6])) == wanted


def test_the_tightest_of_several_bounds_holds() -> None:
    of = store("n", "k", keys=[Key((), column("k"))])
    step = probe(low=[Bound(column("k", "a"), False), Bound(column("n", "a"), False)])
    assert found(step, of, frame(a__n=[5], a__k=[3]), frame(n=[10, 11], k=[4, 6])) == [(5, 11)]


def test_residuals_are_checked_on_each_pair() -> None:
    residual = Call("<", (column("n", "a"), column("k", "b")), pa.bool_())
    step = probe(equal=[column("k", "a")], residual=[residual])
    assert found(step, BY_K, frame(a__n=[0, 2], a__k=[1, 2]), frame(n=[10, 11], k=[1, 2])) == [(0, 10)]


def test_a_residual_that_is_null_does_not_hold() -> None:
    of = store("n", "k", "v", keys=[Key((column("k"),))])
    residual = Call("<", (column("n", "a"), column("v", "b")), pa.bool_())
    step = probe(equal=[column("k", "a")], residual=[residual])
    assert found(step, of, frame(a__n=[0], a__k=[1]), frame(n=[10, 11], k=[1, 1], v=[None, 1])) == [(0, 11)]


def test_another_index_of_the_store() -> None:
    of = store("n", "k", keys=[Key((column("k"),)), Key((column("n"),))])
    step = probe(equal=[column("k", "a")], index=1)
    assert found(step, of, TUPLES, frame(n=[1, 10], k=[7, 1])) == [(0, 1)]


def test_rows_of_a_join_have_the_fields_of_all_members() -> None:
    of = store("b.n", "c.k", keys=[Key((column("k", "c"),))], members=("b", "c"))
    step = probe(["c.k", "a.n", "b.n"], equal=[column("k", "a")], members=("b", "c"))
    rows = frame(b__n=[10, 11], c__k=[1, 2])
    assert found(step, of, TUPLES, rows) == [(1, 0, 10), (2, 1, 11)]


@pytest.mark.parametrize(
    ("mine", "theirs", "wanted"),
    [
        (None, None, [(0, 10), (1, 11)]),
        ([3, -1, 1], None, [(0, 10, 3), (1, 11, -1)]),
        (None, [2, 5], [(0, 10, 2), (1, 11, 5)]),
        ([3, -1, 1], [2, 5], [(0, 10, 6), (1, 11, -5)]),
    ],
    ids=["none", "tuples", "rows", "both"],
)
def test_pairs_count_the_product(mine: list[int] | None, theirs: list[int] | None, wanted: list[Any]) -> None:
    tuples = frame(mine, a__n=[0, 1, 2], a__k=[1, 2, None])
    assert found(SAME_K, BY_K, tuples, frame(theirs, n=[10, 11], k=[1, 2])) == wanted


def test_segments_with_and_without_weights_go_together() -> None:
    segments = [frame(None, n=[10], k=[1]), frame([4], n=[11], k=[1]), frame(None, n=[12], k=[2])]
    assert found(SAME_K, BY_K, TUPLES, *segments) == [(0, 10, 1), (0, 11, 4), (1, 12, 1)]


def test_matches_come_in_bounded_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_PAIRS", 16)
    tuples = frame(a__n=list(range(20)), a__k=[1] * 20)
    parts = [*lookup(SAME_K, BY_K, tuples, [segment(BY_K, frame(n=list(range(30)), k=[1] * 30)) for _ in range(2)], {})]
    assert sum(part.num_rows for part in parts) == 20 * 30 * 2
    assert max(part.num_rows for part in parts) < 2 * 16
    assert len(parts) > 30


def test_few_matches_of_many_segments_come_as_one_frame() -> None:
    segments = [segment(BY_K, frame(n=[i], k=[1])) for i in range(10)]
    assert [part.num_rows for part in lookup(SAME_K, BY_K, TUPLES, segments, {})] == [10]


def test_wide_rows_make_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 20_000)
    of = store("n", "k", "s", keys=[Key((column("k"),))])
    rows = frame(n=list(range(100)), k=[1] * 100, s=pa.array(["x" * 1000] * 100))
    step = probe(["a.n", "b.s"], equal=[column("k", "a")])
    parts = [*lookup(step, of, frame(a__n=[0, 1], a__k=[1, 1]), [segment(of, rows)], {})]
    assert sum(part.num_rows for part in parts) == 200
    assert max(part.num_rows for part in parts) <= 40


@pytest.mark.parametrize("seed", range(12))
def test_random_questions_find_what_a_nested_loop_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(module, "CHUNK_PAIRS", rng.choice([16, 40, 65_536]))
    equal, low, high, residual = (rng.random() < 0.6 for _ in range(4))
    of = store("n", "k", "v", keys=[Key((column("k"),) if equal else (), column("v") if low or high else None)])
    step = probe(
        equal=[column("k", "a")] if equal else [],
        low=[Bound(column("v", "a"), strict=True)] if low else [],
        high=[Bound(column("u", "a"), strict=False)] if high else [],
        residual=[Call("<>", (column("n", "a"), column("k", "b")), pa.bool_())] if residual else [],
    )

    def number() -> int | None:
        return None if rng.random() < 0.1 else rng.randrange(5)

    def rows(count: int, names: str) -> list[dict[str, Any]]:
        made = [{name: number() for name in names} for _ in range(count)]
        return [row | {"n": i, "w": rng.choice([-1, 1, 2])} for i, row in enumerate(made)]

    def as_frame(some: list[dict[str, Any]], names: str, prefix: str, weights: bool) -> pa.RecordBatch:
        values = {f"{prefix}{name}": [row[name] for row in some] for name in f"n{names}"}
        return frame([row["w"] for row in some] if weights else None, **values)

    weights = rng.random() < 0.5
    tuples, parts = rows(25, "kvu"), [rows(rng.randrange(1, 30), "kv") for _ in range(rng.randrange(1, 4))]
    wanted: Counter[tuple[int, ...]] = Counter()
    for a in tuples:
        for b in (row for part in parts for row in part):
            holds = [
                not equal or (a["k"] is not None and a["k"] == b["k"]),
                not low or (None not in (a["v"], b["v"]) and b["v"] > a["v"]),
                not high or (None not in (a["u"], b["v"]) and b["v"] <= a["u"]),
                not residual or (b["k"] is not None and a["n"] != b["k"]),
            ]
            if all(holds):
                wanted[(a["n"], b["n"], a["w"] * b["w"]) if weights else (a["n"], b["n"])] += 1
    segments = [as_frame(part, "kv", "", weights) for part in parts]
    assert Counter(found(step, of, as_frame(tuples, "kvu", "a__", weights), *segments)) == wanted
