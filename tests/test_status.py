"""What `weft status` and `weft queries` say of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import weft
from weft.session.status import read_queries, read_status, show_queries, show_status
from weft.testing import Trial


def test_results_are_listed_wherever_they_go_and_without_keys(tmp_path: Path) -> None:
    rows = pa.table({"k": [1, 2]})
    s = weft.Session(tmp_path / "state", workers=1)
    s.stream("a", weft.read.batches([rows]))
    q = s.query("q", "SELECT a.k FROM a")
    q.to_parquet(tmp_path / "out").to_parquet("s3://key:secret@bucket/q?region=eu-central-1")
    s.query("in_memory", "SELECT a.k FROM a WHERE a.k > 1").to_memory()
    Trial(s, state=tmp_path / "state").feed({"a": rows})
    shown, listed = show_status(tmp_path / "state"), show_queries(tmp_path / "state")
    assert f"query q          2 results  into {tmp_path / 'out'}, to s3://bucket/q\n" in shown
    assert "query in_memory  1 result\n" in shown
    assert f"  into    {tmp_path / 'out'}\n  to      s3://bucket/q" in listed
    assert "secret" not in shown + listed
    places = {"into": [str(tmp_path / "out")], "to": ["s3://bucket/q"]}
    assert read_status(tmp_path / "state")["queries"]["q"] == {"results": 2, **places}
    assert next(said for said in read_queries(tmp_path / "state") if said["query"] == "q").items() >= places.items()
