"""Folding gives the sums that DuckDB gives; rows whose codes are equal by chance stay apart."""

import random
from collections import Counter

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from weft.errors import HostError
from weft.host.groups import fold as folding
from weft.host.groups.fold import fold, share_left

KINDS = [pa.int64(), pa.int32(), pa.string(), pa.float64(), pa.bool_(), pa.date32(), pa.decimal128(12, 2)]


def column(rng: random.Random, kind: pa.DataType, count: int) -> pa.Array:
    values = [None, *range(rng.choice([1, 2, 5]))]
    made = [rng.choice(values) for _ in range(count)]
    if pa.types.is_string(kind):
        return pa.array([None if v is None else f"v{v}" for v in made], kind)
    if pa.types.is_date32(kind):
        return pa.array(made, pa.int32()).view(kind)
    if kind == pa.bool_():
        return pa.array([None if v is None else bool(v) for v in made], kind)
    return pa.array(made, kind)


def frame(rng: random.Random, least: int) -> pa.RecordBatch:
    count = rng.choice([0, 1, 2, 30, 300])
    made = {f"c{i}": column(rng, rng.choice(KINDS), count) for i in range(rng.randint(least, 3))}
    made["#m limb0 x"] = pa.array([rng.randint(-(2**40), 2**40) for _ in range(count)], pa.int64())
    made["#m least x"] = column(rng, rng.choice(KINDS[:3]), count)
    made["#m greatest x"] = column(rng, rng.choice(KINDS), count)
    if rng.random() < 0.5:
        made["#w"] = pa.array([rng.randint(1, 9) for _ in range(count)], pa.int64())
    return pa.RecordBatch.from_arrays(list(made.values()), names=list(made))


@pytest.mark.parametrize("collide", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_as_duckdb_groups(seed: int, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    given = frame(rng, 2 if collide else 1)  # a single whole number has a code of its own
    if collide:
        codes = folding.group_codes
        monkeypatch.setattr(folding, "group_codes", lambda columns, count: codes(columns, count) & 3)
    keys = [f'"{name}"' for name in given.schema.names if name.startswith("c")]
    rows = pa.Table.from_batches([given])
    assert rows.num_rows == given.num_rows
    weight = 'sum("#w")' if "#w" in given.schema.names else "count(*)"
    numbers = f'{weight}::bigint, sum("#m limb0 x")::bigint, min("#m least x"), max("#m greatest x")'
    wanted = duckdb.sql(f"SELECT {', '.join(keys)}, {numbers} FROM rows GROUP BY ALL").fetchall()
    order = [*(key.strip('"') for key in keys), "#w", "#m limb0 x", "#m least x", "#m greatest x"]
    found = zip(*(fold([given]).column(name).to_pylist() for name in order), strict=True)
    assert Counter(found) == Counter(wanted)


def test_sums_that_do_not_fit_are_refused() -> None:
    rows = pa.RecordBatch.from_arrays(
        [pa.array([1, 1, 1]), pa.array(np.full(3, 2**62, dtype=np.int64))], names=["c", "#w"]
    )
    with pytest.raises(HostError, match="too large"):
        fold([rows])


@pytest.mark.parametrize("collide", [False, True])
def test_zeros_are_one_beside_structs_and_lists(collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:
        monkeypatch.setattr(folding, "group_codes", lambda _columns, count: np.zeros(count, np.int64))
    pairs = pa.array([{"v": 1}, {"v": 1}, {"v": 2}, None, {"v": 1}], pa.struct([("v", pa.int64())]))
    lists = pa.array([[1], [1], [1], [1], None], pa.list_(pa.int64()))
    zeros = pa.array([0.0, -0.0, 0.0, -0.0, 0.0])
    rows = pa.RecordBatch.from_arrays([zeros, pairs, lists], names=["z", "p", "l"])
    found = fold([rows]).to_pylist()
    assert sorted(row["#w"] for row in found) == [1, 1, 1, 2]
    assert next(row for row in found if row["#w"] == 2)["p"] == {"v": 1}


@pytest.mark.parametrize(
    ("groups", "least", "most"), [(1, 0, 0.001), (500, 0, 0.05), (20_000, 0.45, 0.55), (40_000, 0.95, 1.05)]
)
def test_the_share_that_folding_leaves_is_estimated(groups: int, least: float, most: float) -> None:
    """Also where half of the rows are equal, which a sample of rows or of groups alone would not tell."""
    keys = np.where(np.arange(40_000) < groups, np.arange(40_000), 0)
    frames = [pa.RecordBatch.from_arrays([pa.array(part)], names=["c"]) for part in np.split(keys, 4)]
    assert least <= share_left(frames) <= most
