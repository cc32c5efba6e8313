"""The three joins of the demo, each beside the plain SQL statement that defines its answer.

The rule behind the statements: a combination is a result if every predicate holds and, with the newest of
its event times as `now`, each alias with a window satisfies `now - its time < its window`.  An alias without
a window is kept for ever; it still takes part in `now`.  Tables have no event time, and take no part.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """A continuous join and the one statement over the whole input that has to give the same rows."""

    name: str
    about: str
    sql: str
    oracle: str


CHAIN = DemoQuery(
    name="fresh_orders",
    about="a chain of three streams with windows and a selection (TPC-H Q3)",
    sql="""\
SELECT c.c_name, o.o_orderkey, l.l_partkey, l.l_price
FROM customer c
JOIN orders   o WITHIN INTERVAL '10' MINUTE ON o.o_custkey = c.c_custkey
JOIN lineitem l WITHIN INTERVAL '5' MINUTE  ON l.l_orderkey = o.o_orderkey
WHERE c.c_segment = 'BUILDING'""",
    oracle="""\
SELECT c.c_name, o.o_orderkey, l.l_partkey, l.l_price
FROM customer c, orders o, lineitem l
WHERE o.o_custkey = c.c_custkey AND l.l_orderkey = o.o_orderkey AND c.c_segment = 'BUILDING'
  AND greatest(c.c_ts, o.o_ts, l.l_ts) - o.o_ts < INTERVAL 10 MINUTE
  AND greatest(c.c_ts, o.o_ts, l.l_ts) - l.l_ts < INTERVAL 5 MINUTE""",
)

CYCLE = DemoQuery(
    name="local_suppliers",
    about="a cycle of three streams and two tables: customer and supplier share a nation (TPC-H Q5)",
    sql="""\
SELECT n.n_name, c.c_custkey, o.o_orderkey, s.s_suppkey, l.l_price
FROM customer c
JOIN orders   o WITHIN INTERVAL '15' MINUTE ON o.o_custkey = c.c_custkey
JOIN lineitem l WITHIN INTERVAL '15' MINUTE ON l.l_orderkey = o.o_orderkey
JOIN supplier s ON s.s_suppkey = l.l_suppkey AND c.c_nationkey = s.s_nationkey
JOIN nation   n ON n.n_nationkey = s.s_nationkey""",
    oracle="""\
SELECT n.n_name, c.c_custkey, o.o_orderkey, s.s_suppkey, l.l_price
FROM customer c, orders o, lineitem l, supplier s, nation n
WHERE o.o_custkey = c.c_custkey AND l.l_orderkey = o.o_orderkey AND s.s_suppkey = l.l_suppkey
  AND c.c_nationkey = s.s_nationkey AND n.n_nationkey = s.s_nationkey
  AND greatest(c.c_ts, o.o_ts, l.l_ts) - o.o_ts < INTERVAL 15 MINUTE
  AND greatest(c.c_ts, o.o_ts, l.l_ts) - l.l_ts < INTERVAL 15 MINUTE""",
)

BAND = DemoQuery(
    name="over_the_limit",
    about="no key at all: a band of time and an inequality",
    sql="""\
SELECT o.o_orderkey, o.o_limit, l.l_orderkey, l.l_partkey, l.l_price
FROM orders o
JOIN lineitem l ON l.l_ts BETWEEN o.o_ts AND o.o_ts + INTERVAL '2' SECOND AND l.l_price > o.o_limit
WHERE o.o_priority = '1-URGENT'""",
    oracle="""\
SELECT o.o_orderkey, o.o_limit, l.l_orderkey, l.l_partkey, l.l_price
FROM orders o, lineitem l
WHERE l.l_ts >= o.o_ts AND l.l_ts <= o.o_ts + INTERVAL 2 SECOND AND l.l_price > o.o_limit
  AND o.o_priority = '1-URGENT'""",
)

QUERIES = (CHAIN, CYCLE, BAND)
