"""What explain and checkpoints say of aggregate queries."""

import itertools
import json

from tests.topology.shop import session
from weft.host.state.checkpoint import describe_query, is_same_query
from weft.sql import to_query

TEXT = """
    SELECT DISTINCT c.region, count(*) AS n, sum(o.id) / 2 AS half, count(DISTINCT o.id) AS ids
    FROM customer c JOIN orders o ON o.customer = c.id
    GROUP BY c.region HAVING count(*) > 1 AND n < 9
"""


def test_the_parsed_page_has_the_groups_as_they_are_written() -> None:
    s = session(2)
    s.query("q", TEXT)
    lines = s.explain("parsed").splitlines()
    assert "  group by  c.region" in lines
    assert "  having  count(*) > 1" in lines
    assert "  having  n < 9" in lines
    assert "  distinct  equal rows are one" in lines
    page = json.loads(s.explain("parsed", "json"))["queries"][0]
    assert (page["distinct"], page["group_by"], page["having"]) == (True, ["c.region"], ["count(*) > 1", "n < 9"])


def test_the_resolved_page_says_what_outputs_stand_for() -> None:
    s = session(2)
    s.query("q", TEXT)
    text = s.explain("resolved")
    for line in ("group by c.region", "aggregate count(DISTINCT o.id)", "having count(*) < 9 AND count(*) > 1"):
        assert f"  {line}\n" in text
    outputs = json.loads(s.explain("resolved", "json"))["queries"][0]["outputs"]
    assert [output["expression"] for output in outputs] == [
        "c.region", "count(*)", "CAST(sum(o.id) AS DOUBLE) / 2.0e0", "count(DISTINCT o.id)",
    ]  # fmt: skip


def test_queries_that_differ_in_their_groups_are_described_differently() -> None:
    tail = "FROM orders o"
    texts = [
        f"SELECT o.customer AS a {tail}",
        f"SELECT DISTINCT o.customer AS a {tail}",
        f"SELECT o.customer AS a {tail} GROUP BY o.customer, o.id",
        f"SELECT o.customer AS a {tail} GROUP BY o.customer HAVING count(*) > 1",
        f"SELECT o.customer AS a {tail} GROUP BY o.customer HAVING count(*) > 2",
        f"SELECT count(*) AS a {tail}",
        f"SELECT count(*) + 1 AS a {tail}",
        f"SELECT sum(o.id) AS a {tail}",
        f"SELECT max(o.id) AS a {tail}",
        f"SELECT count(o.id) AS a {tail}",
        f"SELECT count(DISTINCT o.id) AS a {tail}",
        f"SELECT sum(o.id) FILTER (WHERE o.id > 1) AS a {tail}",
        f"SELECT sum(o.id) AS b {tail}",
        f"SELECT count(*) AS a {tail} GROUP BY window(o.ts, '1 minute')",
        f"SELECT count(*) AS a {tail} GROUP BY window(o.ts, '2 minutes')",
        f"SELECT count(*) AS a {tail} GROUP BY window(o.ts, '2 minutes', '1 minute')",
        f"SELECT count(*) AS a {tail} GROUP BY o.ts",
    ]
    streams = session(1).streams
    said = [describe_query(to_query(text, streams)) for text in texts]
    for one, other in itertools.combinations(said, 2):
        assert not is_same_query(one, other)
    for text, before in zip(texts, said, strict=True):
        assert is_same_query(before, json.loads(json.dumps(describe_query(to_query(text, streams)))))
