"""CAST and TRY_CAST of text against DuckDB: the same texts are values, and the same ones."""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pytest

from weft.expr.casts import cast, try_cast
from weft.expr.types import TIMESTAMP, TIMESTAMP_UTC, sql_name

NUMBERS = [
    "", " ", "1", " 1 ", "+1", "-1", "- 1", "1.5", "2.5", "-2.5", ".5", "5.", "1e3", "1E-3", "1e400", "0x1F", "0b11",
    "1_000", "1,000", "1__0", "_1", "128", "-129", "2147483648", "9223372036854775807", "9223372036854775808", "1e18",
    "-9223372036854775808", "1e19", "7E32", "3.5e38", "99999999999999999999999", "1.4999999999999999999", "-0.5", "-0",
    "1e", "e1", ".", "-", "+", "--1", "1.2.3", "12a", "NULL", "\t1\n", "\v1", "\xa01", "0.0000000000000000000000000001",
    "12345678901234567890.5", "340282346638528859811704183484516925440", "1e38", "8e-713", "-12.5e68", "123.455", "1d",
    "123456789012345678.123456789012345678", "99e28", "0.005", "999.995", "999.994", "1.0e0", "1e0.5", "\u0661",
]  # fmt: skip
WORDS = [
    "true",
    "TRUE",
    "tRuE",
    "t",
    "F",
    "yes",
    "NO",
    "y",
    "n",
    "on",
    "off",
    "0",
    "1",
    "2",
    "00",
    " 1",
    "1 ",
    "",
    "ye",
]
MOMENTS = [
    "2024-01-01", "2024-1-1", "2024/01/01", "2024 1 01", "2024-01/01", "24-01-01", "2024-02-29", "2023-02-29",
    "2024-13-01", " 2024-01-01", "2024-01-01 10:00:00", "2024-01-01T10:00:00", "2024-01-01 10:00", "2024-01-01 10",
    "2024-01-01 10:00:00.5", "2024-01-01 10:00:00.1234567", "2024-01-01 10:00:00Z", "2024-01-01 10:00:00+02",
    "2024-01-01T10:00:00.25-02:30", "2024-01-01 10:00:00 UTC", "2024-01-01 25:00:00", "2024-01-01 10:60:00",
    "2024-01-01 24:00:00", "2024-01-01 24:00:01", "20240101", "10:00:00", "2024-01-01x", "2024-01-01 x", "", "x",
    "2024-01-01 1:2:3", "0999-02-28 23:59:59.999999", "9999-12-31",
]  # fmt: skip
KINDS = [pa.int8(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(5, 2), pa.decimal128(18, 3),
         pa.decimal128(38, 0), pa.decimal128(38, 18), pa.bool_(), pa.date32(), TIMESTAMP, TIMESTAMP_UTC]  # fmt: skip


def changed(rng: random.Random, text: str, letters: str) -> str:
    """The text with a letter put in, replaced or left out."""
    at = rng.randint(0, max(0, len(text) - 1))
    return text[:at] + rng.choice([*letters, ""]) + text[at + rng.randint(0, 1) :]


def some(rng: random.Random, kind: pa.DataType) -> list[str]:
    """Texts for a type, of which DuckDB reads some; none that only DuckDB reads, as the docs say."""
    if pa.types.is_temporal(kind):
        made = [changed(rng, rng.choice(MOMENTS[:20]), "0123456789-:TZ+") for _ in range(400)]
        known = [text for text in made if text[:1].isdigit() and not text[:5].isdigit() and text[:4] != "0000"]
        return MOMENTS + [text for text in known if not text.endswith(" ") and " UT" not in text]
    if pa.types.is_boolean(kind):
        return WORDS
    made = [changed(rng, rng.choice(NUMBERS), "0123456789.e-") for _ in range(300)]
    made += [f"{rng.choice(['1', '-12.5', '99'])}e{rng.randint(-99, 34)}" for _ in range(100)]
    return NUMBERS + [text for text in made if "+-" not in text and not ("e" in text.lower() and text.endswith("."))]


def duckdbs(texts: list[str], kind: pa.DataType) -> pa.Array:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("given", pa.table({"x": texts}))
        found = connection.sql(f"SELECT TRY_CAST(x AS {sql_name(kind)}) AS v FROM given").to_arrow_table()
    return found.column("v").combine_chunks().cast(kind)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("seed", [64_001, 64_002])
def test_text_is_read_as_duckdb_reads_it(kind: pa.DataType, seed: int) -> None:
    texts = some(random.Random(seed), kind)
    wanted = duckdbs(texts, kind)
    assert wanted.null_count < len(texts)
    found = try_cast(pa.array(texts), kind)
    strict = MOMENTS if pa.types.is_temporal(kind) else texts  # DuckDB reads the beginning of many a broken time
    pairs = [(t, a, b) for t, a, b in zip(texts, found, wanted, strict=True) if a.is_valid or t in strict]
    assert [pair for pair in pairs if not pair[1].equals(pair[2])] == []
    for text, value in zip(texts, found, strict=True):
        assert try_cast(pa.scalar(text), kind).equals(value)
        if value.is_valid:
            assert cast(pa.scalar(text), kind).equals(value)
        else:
            with pytest.raises(pa.ArrowException):
                cast(pa.scalar(text), kind)


def test_numbers_that_do_not_fit_become_null_and_the_others_stay() -> None:
    numbers = pa.array([1.5, 300.0, None, float("nan"), -128.4, 1e300])
    assert try_cast(numbers, pa.int8()).to_pylist() == [2, None, None, None, -128, None]
    assert try_cast(pa.array([999, 1000]), pa.decimal128(5, 2)).to_pylist()[1] is None
    assert try_cast(pa.array([], pa.string()), pa.int8()).type == pa.int8()
