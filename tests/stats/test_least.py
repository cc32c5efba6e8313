"""The rows of a few values, the same in all streams: numbers of values, and how many pairs agree."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.kernels.codes import Codes, Ints
from weft.stats.distinct import hash_codes
from weft.stats.least import VALUES, LeastValues, agree, read_least


def least(values: Ints, k: int = VALUES) -> LeastValues:
    return LeastValues(k).add(Codes(np.asarray(values, dtype=np.int64), None, exact=True))


@given(st.lists(st.lists(st.integers(0, 60), max_size=80), min_size=1, max_size=5), st.integers(3, 40))
@settings(max_examples=150, deadline=None)
def test_counts_are_exact_however_rows_are_parted(parts: list[list[int]], k: int) -> None:
    whole = [value for part in parts for value in part]
    found = LeastValues(k)
    for part in parts:
        found = found.merge(least(np.array(part, dtype=np.int64), k))
    values, counts = np.unique(np.array(whole, dtype=np.int64), return_counts=True)
    hashes = hash_codes(values)
    order = np.argsort(hashes)[:k]
    assert found.hashes.tolist() == hashes[order].tolist()
    assert found.counts.tolist() == counts[order].tolist()
    assert (found.rows, found.valued) == (len(whole), len(whole))


@given(st.lists(st.integers(0, 30), max_size=60), st.lists(st.integers(0, 30), max_size=60))
@settings(max_examples=100, deadline=None)
def test_keys_with_few_values_agree_exactly(a: list[int], b: list[int]) -> None:
    found = agree(least(np.array(a, dtype=np.int64)), least(np.array(b, dtype=np.int64)))
    assert found.whole
    assert found.pairs == sum(x == y for x in a for y in b)
    assert found.of == len(a) * len(b)


@pytest.mark.parametrize(("values", "apart"), [(1_000_000, 0), (50_000, 0), (50_000, 25_000), (3_000, 0)])
def test_the_share_of_pairs_is_close_where_a_sample_would_see_a_handful(values: int, apart: int) -> None:
    random = np.random.default_rng(3)
    a, b = random.integers(0, values, 200_000), random.integers(apart, values + apart, 100_000)
    found = agree(least(a), least(b))
    x, y = np.bincount(a, minlength=values + apart), np.bincount(b, minlength=values + apart)
    truth = float((x.astype(np.float64) * y).sum()) / (len(a) * len(b))
    assert found.pairs / found.of == pytest.approx(truth, rel=0.15)
    assert least(a).distinct == pytest.approx(len(np.unique(a)), rel=0.1)
    parts = [agree(least(a), least(b), without=(group, 4)) for group in range(4)]
    assert sum(part.pairs for part in parts) == pytest.approx(3 * found.pairs)
    assert all(part.of == pytest.approx(found.of * 0.75) for part in parts)


def test_rows_without_a_value_are_rows_and_agree_with_nothing() -> None:
    codes = Codes(np.array([1, 2, 3, 4]), np.array([True, False, True, False]), exact=True)
    found = LeastValues().add(codes)
    assert (found.rows, found.valued, found.distinct) == (4, 2, 2)
    assert agree(found, found).pairs == 2


def test_values_that_are_left_out_do_not_count() -> None:
    rows = np.concatenate([np.full(10_000, 7), np.arange(20_000)])
    one = least(rows)
    lowest = int(one.hashes[0])
    value = next(v for v in range(20_000) if int(hash_codes(np.array([v]))[0]) == lowest)
    without = agree(one, one, leaving=hash_codes(np.array([value])))
    assert without.looked == agree(one, one).looked - 1


def test_values_are_sent_as_plain_data() -> None:
    one = least(np.random.default_rng(1).integers(0, 10_000, 30_000))
    again = read_least(pickle.loads(pickle.dumps(one.plain())))
    assert again.hashes.tolist() == one.hashes.tolist()
    assert again.counts.tolist() == one.counts.tolist()
    assert (again.rows, again.valued) == (one.rows, one.valued)
