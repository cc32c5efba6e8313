"""Result folders: whose they are, and that they are whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.errors import SinkError
from weft.host.results.parquet import ParquetSink

SCHEMA = pa.schema([("x", pa.int64())])


def test_a_new_folder_can_be_read_before_the_first_result(tmp_path: Path) -> None:
    ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)
    assert pq.read_table(tmp_path / "out").schema == SCHEMA


def test_a_folder_that_lacks_earlier_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match="lacks the results") as error:
        ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=True, last=0)
    assert error.value.hint


def test_our_own_folder_is_taken_up_again(tmp_path: Path) -> None:
    sink = ParquetSink("q", SCHEMA, tmp_path / "out")
    sink.claim("me", published=False, last=-1)
    sink.claim("me", published=True, last=0)


def test_a_folder_of_another_query_is_refused(tmp_path: Path) -> None:
    ParquetSink("q", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)
    with pytest.raises(SinkError, match="other results"):
        ParquetSink("p", SCHEMA, tmp_path / "out").claim("me", published=False, last=-1)
