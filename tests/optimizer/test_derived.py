"""A derived table that is put in place is kept by cost, once for all queries that have it, under the name it has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.optimizer.joint.together import price_together

ROWS = {"a": "kx", "b": "kjy", "c": "jz", "d": "jw"}
JOIN = "SELECT a.x, b.j, b.y FROM a JOIN b ON a.k = b.k"
FIRST = "SELECT dear.x, c.z FROM dear JOIN c ON c.j = dear.j"
SECOND = f"WITH cheap AS ({JOIN}) SELECT cheap.x, d.w FROM cheap JOIN d ON d.j = cheap.j"


def statistics(share: float, first: str) -> weft.Statistics:
    """`share` of all pairs of `a` and `b` join."""
    rows = {"a": 4_000, "b": 4_000, "c": 20_000, "d": 20_000}
    other = "c" if first == "dear" else "d"
    return weft.Statistics(
        rows=rows, selectivities={(f"{first}_a", f"{first}_b"): share, (f"{first}_b", other): 1 / 200}
    )


def session(root: Path, share: float, **options: object) -> weft.Session:
    s = weft.Session(root / "state", workers=4)
    for name, columns in ROWS.items():
        s.stream(name, weft.read.batches([pa.table({column: pa.array([], pa.int64()) for column in columns})]))
    s.options(**options)  # type: ignore[arg-type]
    s.view("dear", JOIN)
    s.query("first", FIRST, statistics=statistics(share, "dear"))
    s.query("second", SECOND, statistics=statistics(share, "cheap"))
    return s


def test_what_few_pairs_pass_is_kept_once_for_both_queries(tmp_path: Path) -> None:
    s = session(tmp_path, 1 / 40_000)
    (kept,) = (store for store in s.topology.stores if store.members)
    assert kept.users == ("first.dear_a+dear_b", "second.cheap_a+cheap_b")
    said = s.explain()
    assert "the join dear (dear_a + dear_b)" in said
    assert "the join cheap (cheap_a + cheap_b)" in said


def test_what_many_pairs_pass_is_not_kept(tmp_path: Path) -> None:
    assert not [store for store in session(tmp_path, 1 / 10).topology.stores if store.members]


@pytest.mark.parametrize("share", [1 / 40_000, 1 / 4_000, 1 / 400, 1 / 10])
def test_it_is_kept_or_not_by_the_price_for_both(share: float, tmp_path: Path) -> None:
    """The plan for both costs no more than each of the plans that a query of its own, or none, would give."""
    prices = {
        name: price_together(session(tmp_path / name, share, **options).choices)
        for name, options in {
            "chosen": {},
            "kept": {"strategy": "left_deep"},
            "in place": {"strategy": "flat"},
            "apart": {"sharing": "none"},
        }.items()
    }
    assert prices["chosen"] <= min(prices.values()) * (1 + 1e-9)


def test_a_part_of_a_derived_table_has_no_name_of_its_own(tmp_path: Path) -> None:
    s = session(tmp_path, 1 / 40_000)
    s.view("wide", f"SELECT v.x, c.z FROM ({JOIN}) v JOIN c ON c.j = v.j")
    s.query("third", "SELECT u.x, d.w FROM wide u JOIN d ON d.j = u.z", strategy=weft.Plan([["u_v_a", "u_v_b"]]))
    assert "the join v u_v (u_v_a + u_v_b)" in s.explain()
    s.drop("third")
    s.query("third", "SELECT u.x, d.w FROM wide u JOIN d ON d.j = u.z", strategy=weft.Plan([["u_v_b", "u_c"]]))
    assert "the join u_v_b + u_c" in s.explain()
